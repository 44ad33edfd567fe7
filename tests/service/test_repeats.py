"""Requests that come twice: the same key or id gives the same answer, and nothing counts twice."""

import io
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.service.served import MODES

ARM = {"arm": {"offer": "a", "channel": "sms"}, "context": {"segment": "new"}}


@pytest.fixture
def bandit(service):
    return service.create(reward="gaussian", adds=True, window="1 h")


def same(first, again):
    """Whether an answer is the one before, but for saying that it changed nothing."""
    return {**first, "changed": False} == again


def test_asks(bandit):
    first = bandit.ask(key="one")
    assert bandit.ask(key="one") == first
    other = bandit.ask(id="mine")
    assert bandit.ask(id="mine") == other
    assert bandit.ask(id="mine", key="two") == other
    assert bandit.detail()["decisions"] == 2
    bandit.tell("mine", 1)
    assert bandit.ask(id="mine") == other
    other = {"context": {"segment": "old"}}
    assert "the key 'one' was used for another request" in bandit.refused("/ask", other, 409, "key_reused", key="one")
    assert "the id 'mine' was used for another" in bandit.refused("/ask", other | {"id": "mine"}, 409, "key_reused")
    bandit.refused("/ask", {"context": {"segment": "new"}, "id": "another"}, 409, "key_reused", key="one")
    assert bandit.detail()["decisions"] == 2


def test_many_asks(bandit):
    requests = {"requests": [{"context": {"segment": segment}} for segment in ("new", "old", "new")]}
    first = bandit.post("/ask-many", requests, key="many")
    assert bandit.post("/ask-many", requests, key="many") == first
    assert len({one["id"] for one in first["decisions"]}) == 3
    requests["requests"][1]["context"]["segment"] = "new"
    bandit.refused("/ask-many", requests, 409, "key_reused", key="many")
    twice = bandit.post("/ask-many", {"requests": [{"context": {"segment": "new"}, "id": "same"}] * 2})["decisions"]
    assert twice[0] == twice[1]
    assert bandit.detail()["decisions"] == 4


def test_many_asks_are_made_all_or_none(bandit):
    new, old = {"context": {"segment": "new"}}, {"context": {"segment": "old"}}
    bandit.ask(id="taken")
    wrong = [
        ([new, old | {"id": "taken"}], "key_reused", None),
        ([new, old | {"id": "twice"}, new | {"id": "twice"}], "closed_decision", None),
    ]
    for requests, code, key in wrong:
        bandit.refused("/ask-many", {"requests": requests}, 409, code, key=key)
        assert bandit.detail()["decisions"] == 1
    bandit.post("/ask-many", {"requests": [new, old]}, key="two")
    bandit.refused("/ask-many", {"requests": [new, old, old]}, 409, "key_reused", key="two")
    assert bandit.detail()["decisions"] == 3
    made = bandit.post("/ask-many", {"requests": [old, new | {"id": "taken"}]})["decisions"]
    assert made[1] == bandit.ask(id="taken")
    assert bandit.detail()["decisions"] == 4


def test_many_asks_are_all_or_none_beside_others(bandit):
    """Transactions hold 1,000 decisions at most, and requests of nearly as many come from everywhere at once."""
    new, old = {"context": {"segment": "new"}}, {"context": {"segment": "old"}}
    bandit.ask(id="taken")

    def right(count):
        return len(bandit.post("/ask-many", {"requests": [new] * count})["decisions"])

    def refused(count):
        bandit.refused("/ask-many", {"requests": [new] * count + [old | {"id": "taken"}]}, 409, "key_reused")
        return 0

    def single(count):
        for _ in range(count):
            bandit.ask()
        return count

    works = [(right, 700), (refused, 900), (single, 20), (right, 999), (refused, 500), (single, 20)] * 2
    with ThreadPoolExecutor(6) as pool:
        made = sum(pool.map(lambda work: work[0](work[1]), works))
    assert bandit.detail()["decisions"] == 1 + made


def test_tells(bandit):
    one, other = bandit.ask()["id"], bandit.ask()["id"]
    first = bandit.tell(one, 2, key="tell")
    assert same(first, bandit.tell(one, 2, key="tell"))
    assert same(first, bandit.tell(one, 2))
    added = bandit.tell(one, 3, add=True, key="add")
    assert added["reward"] == 5
    for _ in range(3):
        assert same(added, bandit.tell(one, 3, add=True, key="add"))
    assert bandit.ledger()["sums"][1] == [5.0]
    bandit.refused("/tell", {"id": one, "reward": 7}, 409, "key_reused", key="tell")
    bandit.refused("/tell", {"id": other, "reward": 2}, 409, "key_reused", key="tell")
    bandit.refused("/cancel", {"id": other}, 409, "key_reused", key="tell")
    bandit.refused("/ask", {"context": {"segment": "new"}}, 409, "key_reused", key="tell")
    assert bandit.kinds() == ["Created", "Decided", "Decided", "Rewarded", "Amended"]


def test_tells_without_a_decision(bandit):
    first = bandit.post("/tell", ARM | {"reward": 2}, key="arm")
    assert same(first, bandit.post("/tell", ARM | {"reward": 2}, key="arm"))
    sums = bandit.post("/tell", ARM | {"reward": 4, "trials": 5}, key="sum")
    assert same(sums, bandit.post("/tell", ARM | {"reward": 4, "trials": 5}, key="sum"))
    assert bandit.detail()["rewards"] == 6
    bandit.refused("/tell", ARM | {"reward": 3}, 409, "key_reused", key="arm")
    bandit.refused("/tell", ARM | {"reward": 4}, 409, "key_reused", key="sum")
    other = ARM | {"arm": {"offer": "b", "channel": "sms"}}
    bandit.refused("/tell", other | {"reward": 2}, 409, "key_reused", key="arm")


def test_many_tells(bandit):
    ids = [bandit.ask()["id"] for _ in range(3)]
    rewards = {"rewards": [{"id": one, "reward": 1, "add": True} for one in ids] + [ARM | {"reward": 1}]}
    first = bandit.post("/tell-many", rewards, key="many")["results"]
    again = bandit.post("/tell-many", rewards, key="many")["results"]
    assert all(same(*pair) for pair in zip(first, again, strict=True))
    assert (bandit.detail()["rewards"], sum(bandit.ledger()["sums"][1])) == (4, 4)


def test_showing_and_cancelling(bandit):
    one = bandit.ask(activate=False)["id"]
    shown = bandit.post("/activate", {"id": one}, key="show")
    assert same(shown, bandit.post("/activate", {"id": one}, key="show"))
    gone = bandit.post("/cancel", {"id": one}, key="cancel")
    assert same(gone, bandit.post("/cancel", {"id": one}, key="cancel"))
    bandit.refused("/activate", {"id": one}, 409, "key_reused", key="cancel")
    assert bandit.kinds()[-2:] == ["Activated", "Cancelled"]


def test_making_and_deleting(service):
    body = {"name": "made-once", "modes": MODES, "context": ["segment"], "rank": 1}
    headers = {"Idempotency-Key": "make"}
    first = service.http.post("/v1/bandits", json=body, headers=headers)
    bandit = service.bandit("made-once")
    bandit.ask()
    again = service.http.post("/v1/bandits", json=body, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["created"] == first.json()["created"]
    assert again.json()["decisions"] == 1
    taken = service.http.post("/v1/bandits", json=body)
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "name_taken")
    taken = service.http.post("/v1/bandits", json=body, headers={"Idempotency-Key": "other"})
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "name_taken")
    reused = service.http.post("/v1/bandits", json=body | {"rank": 2}, headers=headers)
    assert (reused.status_code, reused.json()["error"]["code"]) == (409, "key_reused")
    assert bandit.send("DELETE", key="end").status_code == 204
    assert bandit.send("DELETE", key="end").status_code == 204  # the same request again
    assert bandit.send("DELETE", key="another").status_code == 404  # what was deleted is not there any more
    assert service.http.post("/v1/bandits", json=body, headers=headers).status_code == 201  # a new one
    assert bandit.detail()["decisions"] == 0
    assert bandit.send("DELETE", key="end").status_code == 204  # of the old one, which does not end the new one
    assert bandit.detail()["decisions"] == 0


def test_levels_rules_and_settings(bandit):
    calls = {
        "level": ("/levels", {"mode": "offer", "label": "d", "like": "a"}, {"mode": "offer", "label": "e"}),
        "retire": ("/levels/retire", {"mode": "offer", "label": "d"}, {"mode": "offer", "label": "a"}),
        "restore": ("/levels/restore", {"mode": "offer", "label": "d"}, {"mode": "offer", "label": "a"}),
        "rule": ("/rules", {"forbid": {"offer": "d", "channel": "sms"}}, {"forbid": {"offer": "d"}}),
        "back": ("/rules/remove", {"forbid": {"channel": "sms", "offer": "d"}}, {"forbid": {"offer": "d"}}),
    }
    for key, (path, body, other) in calls.items():
        first = bandit.post(path, body, key=key)
        assert bandit.post(path, body, key=key) == first
        bandit.refused(path, other, 409, "key_reused", key=key)
        bandit.refused("/tell", ARM | {"reward": 1}, 409, "key_reused", key=key)
    first = bandit.patch("change", holdout=0.25)
    assert bandit.patch("change", holdout=0.25) == first
    bandit.refused("", {"holdout": 0.5}, 409, "key_reused", key="change", method="PATCH")
    bandit.refused("/rules", {"forbid": {"channel": "sms", "offer": "d"}}, 409, "key_reused", key="back")
    assert bandit.kinds() == [
        "Created", "LevelAdded", "LevelRetired", "LevelRestored", "RuleChanged", "RuleChanged", "Changed",
    ]  # fmt: skip


def test_imports(bandit):
    def file(reward):
        out = io.BytesIO()
        pq.write_table(pa.table({"segment": ["new"], "offer": ["z"], "channel": ["sms"], "sold": [reward]}), out)
        return out.getvalue()

    how = {"params": {"reward": "sold", "unknown": "add"}, "key": "log"}
    first = bandit.send("POST", "/import", content=file(3.0), **how)
    assert first.status_code == 200, first.text
    again = bandit.send("POST", "/import", content=file(3.0), **how)
    assert same(first.json(), again.json())
    assert bandit.detail()["rewards"] == 1
    assert bandit.send("POST", "/import", content=file(4.0), **how).json()["error"]["code"] == "key_reused"
    assert bandit.send("POST", "/import", content=file(3.0), params=how["params"], key="more").status_code == 200
    assert bandit.detail()["rewards"] == 2


def test_the_same_at_the_same_time(bandit):
    ids = [bandit.ask()["id"] for _ in range(4)]

    def send(at):
        asked = bandit.ask(key=f"ask-{at % 3}")
        bandit.tell(ids[at % 4], 1, add=True, key=f"tell-{at % 8}")
        bandit.ask(id=f"own-{at % 2}")
        return asked["id"]

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(send, range(48)))
    assert len(set(found)) == 3
    assert bandit.detail()["decisions"] == 4 + 3 + 2
    assert [bandit.look_up(one)["reward"] for one in ids] == [2.0] * 4


def test_keys_that_are_none(bandit):
    for key in ("", "x" * 201, "tab\there", "ümlaut".encode()):
        answer = bandit.send("POST", "/ask", key=key, json={"context": {"segment": "new"}})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid"), key
    assert bandit.ask(key="x" * 200) == bandit.ask(key="x" * 200)


@pytest.mark.parametrize("by", ["key", "id"])
def test_a_decision_is_repeated_though_it_could_not_be_made_any_more(service, by):
    bandit = service.create()
    body = {"context": {"segment": "new"}} | ({"id": "mine"} if by == "id" else {})
    first = bandit.post("/ask", body, key="k" if by == "key" else None)
    assert bandit.send("PATCH", json={"apprentice": True}).status_code == 200
    assert bandit.send("POST", "/ask", json={"context": {"segment": "new"}}).status_code == 422
    assert bandit.post("/ask", body, key="k" if by == "key" else None) == first

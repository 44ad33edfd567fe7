"""Names, labels and shapes that nobody expects, and that work all the same."""

import io

import pyarrow.parquet as pq
import pytest

from tests.service.served import Service

STRANGE = [
    "<script>alert(1)</script>", "ünï©ödé 中文 🎉", "x" * 1000, "\u200b", "\u200b\u200b", " ", "  ", "", "\t", "a\nb",
    "'; DROP TABLE events; --", '"', "\\", "\0", "null", "true", "1", "1.0", "NaN", "e\u0301", "\u00e9", "\u202egnp",
    True, False, 1, 0, 2, -1, 1.5, 1e300, -1e-300, 2**53 + 1, 10**30, {"date": "2024-02-29"}, {"date": "0001-01-01"},
    {"time": "2024-02-29T00:00:00"}, {"time": "2024-02-29T00:00:00.000001"}, {"time": "9999-12-31T23:59:59+14:00"},
]  # fmt: skip


def known(bandit, mode="label"):
    return [level["label"] for level in bandit.detail()["levels"][mode]]


def same(one, other):
    """Whether two labels are the same: Python takes True for 1."""
    return type(one) is type(other) and one == other


def test_labels_of_all_kinds(place):
    """Each is a level of its own, is given back as it came, and is known after a restart."""
    with Service(place) as service:
        bandit = service.create("strange", {"label": STRANGE, "side": ["x", "y"]}, context=())
        assert all(same(*pair) for pair in zip(known(bandit), STRANGE, strict=True))
        requests = [{"allowed": {"label": [label]}, "id": f"for {at}"} for at, label in enumerate(STRANGE)]
        made = bandit.post("/ask-many", {"requests": requests})["decisions"]
        for decision, label in zip(made, STRANGE, strict=True):
            assert same(decision["arm"]["label"], label)
        rewards = [{"arm": {"label": label, "side": "x"}, "reward": at} for at, label in enumerate(STRANGE)]
        assert all(one["changed"] for one in bandit.post("/tell-many", {"rewards": rewards})["results"])
        assert sorted(bandit.ledger()["sums"][1]) == list(range(len(STRANGE)))
        for label in STRANGE:
            bandit.post("/rules", {"forbid": {"label": label, "side": "y"}})
        assert len(bandit.detail()["rules"]) == len(STRANGE)
        for label in STRANGE[1:]:
            bandit.post("/levels/retire", {"mode": "label", "label": label})
        assert bandit.ask(None)["arm"] == {"label": STRANGE[0], "side": "x"}
        for what in ("space", "arms", "effects", "events", "heat"):
            assert bandit.send("GET", f"/view/{what}").status_code == 200, what
        table = pq.read_table(io.BytesIO(bandit.send("GET", "/export").content))
        assert len(set(table["label"].to_pylist()[: len(STRANGE)])) >= len(STRANGE) - 4  # 1 and "1" look the same there
        before = bandit.detail()
    with service.restarted() as service:
        assert service.bandit("strange").detail() == before


def test_labels_as_context(service):
    bandit = service.create(modes={"who": STRANGE, "offer": ["a", "b"]}, context=["who"])
    for label in STRANGE:
        decision = bandit.post("/ask", {"context": {"who": label}})
        assert same(decision["context"]["who"], label)
        assert same(bandit.look_up(decision["id"])["context"]["who"], label)
        bandit.tell(decision["id"], 1)
    bandit.refused("/ask", {"context": {"who": "2"}}, 422, "invalid")


def test_modes_of_strange_names(service):
    names = ["<b>", "id", "reward", "中文", "a b", "a.b", "decision", "x" * 200, "\u200b", "context", "name", "where"]
    bandit = service.create(modes={name: ["x", "y"] for name in names}, context=["id", "context"])
    decision = bandit.post("/ask", {"context": {"id": "x", "context": "y"}})
    assert set(decision["arm"]) == set(names) - {"id", "context"}
    bandit.tell(decision["id"], 1)
    assert bandit.post("/best", {"context": {"id": "x", "context": "y"}})["arm"].keys() == decision["arm"].keys()
    table = pq.read_table(io.BytesIO(bandit.send("GET", "/export").content))
    assert len(table.column_names) == 7 + len(names)
    assert bandit.send("GET", "/view/space").status_code == 200


@pytest.mark.parametrize("id", ["<i>", "a/b/c", "?x=1", "#", "ü", " ", ".", "%2F", "x" * 200, "'\""])
def test_ids_of_strange_kinds(service, id):
    bandit = service.bandit("ids")
    if bandit.send("GET").status_code == 404:
        service.create("ids")
    assert bandit.ask(id=id)["id"] == id
    assert bandit.ask(id=id)["id"] == id
    if id != ".":  # which an address cannot hold
        assert bandit.look_up(id)["id"] == id
    assert bandit.tell(id, 1)["id"] == id
    assert bandit.events(newest=True, limit=1)[0]["decision"] == id


def test_ids_that_cannot_be_printed(service):
    bandit = service.create()
    for id in ("\u200b", "a\nb", "\0", "\t", "\u202e"):
        message = bandit.refused("/ask", {"context": {"segment": "new"}, "id": id}, 422, "invalid")
        assert "that can be printed" in message


def test_names_of_bandits(service):
    for name in ("a", "0", "A.b-c_d", "x" * 100, "import", "con", "a..b", "9-"):
        bandit = service.create(name)
        assert bandit.detail()["name"] == name
        assert bandit.send("DELETE").status_code == 204
    for name in ("%00", "%2F", "..%2F..", "<script>", "%F0%9F%8E%89", "a%0Ab", "%FF"):
        answer = service.bandit(name).send("GET")
        assert answer.status_code == 404, name
        assert "<script>" not in answer.headers.get("content-type", "")


@pytest.mark.parametrize(
    ("modes", "context"),
    [
        ({"only": ["one"]}, ()),
        ({"a": ["one"], "b": ["one"], "c": ["one"]}, ()),
        ({"a": ["one"], "b": ["x", "y"]}, ["a"]),
        ({"a": ["x", "y"], "b": ["one"]}, ["a"]),
        ({"many": list(range(3000))}, ()),
        ({"many": list(range(2000)), "more": [f"m{at}" for at in range(2000)]}, ["many"]),
        ({f"m{at}": ["x", "y"] for at in range(12)}, ["m3"]),
        ({f"m{at}": ["x", "y"] for at in range(20)}, [f"m{at}" for at in range(18)]),
    ],
    ids=["one", "ones", "one context", "one arm", "many", "many by many", "12 modes", "20 modes"],
)
def test_shapes(service, modes, context):
    for reward in ("gaussian", "bernoulli"):
        bandit = service.create(modes=modes, context=context, reward=reward)
        given = {"context": {mode: modes[mode][0] for mode in context}}
        decision = bandit.post("/ask", given)
        assert set(decision["arm"]) == set(modes) - set(context)
        bandit.tell(decision["id"], 1)
        assert bandit.post("/best", given)["arm"].keys() == decision["arm"].keys()
        assert reward == "gaussian" or bandit.send("GET", "/view/heat").status_code == 200
        assert bandit.send("DELETE").status_code == 204


@pytest.mark.parametrize("rank", [1, 2, 50, "auto", [1, 2, 2], [5, 5, 5]])
def test_ranks(service, rank):
    body = {"name": "ranked", "modes": {"a": [1, 2], "b": [1, 2], "c": [1, 2]}, "rank": rank}
    made = service.http.post("/v1/bandits", json=body)
    if made.status_code == 422:
        assert "rank" in made.json()["error"]["message"]
        return
    bandit = service.bandit("ranked")
    for _ in range(3):
        bandit.tell(bandit.ask(None)["id"], 1)
    assert bandit.send("DELETE").status_code == 204


def test_rewards_of_any_size(service):
    bandit = service.create(reward="gaussian", adds=True)
    for reward in (0, -0.0, 1e-99, 1e12, -1e12, 2**53, 1e99, -1e99):
        one = bandit.ask()["id"]
        assert bandit.tell(one, reward)["reward"] == reward
    for reward in (1e300, -1e300, 1e-300, 10**309):
        message = bandit.refused("/tell", {"id": bandit.ask()["id"], "reward": reward}, 422, "invalid")
        assert "reward" in message
    for path, body in (("/best", {}), ("/explain", {}), ("/ask", {})):
        answer = bandit.send("POST", path, json=body if path == "/explain" else {"context": {"segment": "new"}})
        assert answer.status_code == 200, (path, answer.text)
    for what in ("overview", "reward", "arms", "effects", "heat", "drift"):
        assert bandit.send("GET", f"/view/{what}").status_code == 200, what

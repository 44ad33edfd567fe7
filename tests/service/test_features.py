"""Features of levels over HTTP: made with a bandit, changed as JSON and as a file, shown, and there after a restart."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.service.served import Service

OFFERS = [
    {"label": "a", "features": {"price": 9.9, "brand": "Acme", "image": [0.5, 1.0]}},
    {"label": "b", "features": {"price": 5.0, "brand": "Acme", "image": [0.0, 3.0]}},
    {"label": "c", "features": {"price": 7.5, "brand": "Bolt"}},
]


def features(bandit, mode="offer"):
    return bandit.send("GET", f"/features?mode={mode}").json()


def numbers(bandit):
    """The features that the policy knows, once it has taken in what it was told."""
    with bandit.core.learner.still():
        known = bandit.core.policy.features
    return None if known is None else known["1"]


def send_file(bandit, content, *, key=None, **params):
    return bandit.send("POST", "/features/import", key=key, params={"mode": "offer"} | params, content=content)


def parquet(table):
    sink = io.BytesIO()
    pq.write_table(pa.table(table), sink)
    return sink.getvalue()


@pytest.fixture
def bandit(service):
    return service.create(features={"offer": OFFERS})


def test_a_bandit_is_made_with_features_and_says_them(bandit):
    kinds = {one["name"]: (one["kind"], one["columns"], one["missing"]) for one in bandit.detail()["features"]["offer"]}
    assert kinds == {"price": ("number", 1, 0), "brand": ("category", 6, 0), "image": ("numbers", 3, 1)}
    assert "features" not in bandit.detail()["settings"]
    assert features(bandit)["levels"] == OFFERS
    assert features(bandit, "channel") == {"mode": "channel", "features": [], "levels": []}
    assert numbers(bandit).shape == (3, 11)
    assert bandit.send("GET", "/features?mode=color").status_code == 422


def test_levels_come_with_features_and_features_change(bandit):
    bandit.post("/levels", {"mode": "offer", "label": "summer", "features": {"price": 6, "image": [1, 2]}})
    body = {"mode": "offer", "levels": [{"label": "a", "features": {"price": 8.9, "brand": None}}]}
    bandit.post("/features", body, key="one")
    bandit.post("/features", body, key="one")
    assert bandit.kinds() == ["Created", "LevelAdded", "Described"]
    bandit.refused("/features", {**body, "anew": True}, 409, "key_reused", key="one")
    levels = features(bandit)["levels"]
    assert levels[0]["features"] == {"price": 8.9, "image": [0.5, 1.0]}
    assert levels[3] == {"label": "summer", "features": {"price": 6.0, "image": [1.0, 2.0]}}
    [change] = bandit.send("GET", "/changes?kind=Described").json()["changes"]
    assert change["words"] == "features of offer changed, of 1 levels: brand, price"
    assert change["undo"] == {
        "describe": {"mode": "offer", "levels": [{"label": "a", "features": {"price": 9.9, "brand": "Acme"}}]}
    }
    bandit.post("/features", change["undo"]["describe"])
    assert features(bandit)["levels"][0] == OFFERS[0]
    bandit.post("/features", body)
    assert change["items"][0] == {"what": "offer a: price", "before": 9.9, "after": 8.9}
    bandit.post("/features", {"mode": "offer", "levels": None})
    assert bandit.detail()["features"] == {}
    assert numbers(bandit) is None
    assert bandit.kinds()[-1] == "Described"


REFUSED = {
    "unknown mode": ({"mode": "color", "levels": []}, "'color' is no mode"),
    "unknown level": ({"levels": [{"label": "z", "features": {"price": 1}}]}, "'z' is no level of mode 'offer'"),
    "unknown feature": ({"levels": [{"label": "a", "features": {"prize": 1}}]}, "did you mean 'price'?"),
    "another type": ({"levels": [{"label": "a", "features": {"price": "much"}}]}, "but it was a number before"),
    "another length": ({"levels": [{"label": "a", "features": {"image": [1]}}]}, "but it was 2 numbers before"),
    "no value": ({"levels": [{"label": "a", "features": {"price": {"a": 1}}}]}, "features.price"),
    "infinite": ({"levels": [{"label": "a", "features": {"price": 10**400}}]}, "is inf; give finite numbers"),
    "constant": ({"levels": [{"label": "a", "features": {"size": 1}}], "anew": True}, "is 1.0 for all 1 levels"),
    "all missing": ({"levels": [{"label": "a", "features": {"size": None}}], "anew": True}, "no feature of mode"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_features_are_refused_and_change_nothing(bandit, what):
    body, words = REFUSED[what]
    before = features(bandit)
    assert words in bandit.refused("/features", {"mode": "offer", **body}, 422, "invalid")
    assert features(bandit) == before
    assert bandit.kinds() == ["Created"]


def test_policies_that_take_no_features_refuse_them(service):
    body = {"name": "plain", "modes": {"offer": ["a", "b", "c"]}, "policy": "ucb", "features": {"offer": OFFERS}}
    answer = service.http.post("/v1/bandits", json=body)
    assert answer.status_code == 422
    assert 'the policy "ucb" takes none' in answer.json()["error"]["message"]


def test_files_say_the_same_as_json(service, bandit):
    text = bandit.send("GET", "/features/export?mode=offer").text
    assert text.splitlines()[:2] == ["offer,price,brand,image", 'a,9.9,Acme,"[0.5, 1.0]"']
    columns = {"offer": ["a", "b", "c"], "price": [9.9, 5.0, 7.5], "brand": ["Acme", "Acme", "Bolt"]}
    columns["image"] = [[0.5, 1.0], [0.0, 3.0], None]
    for content in (text.encode(), parquet(columns)):
        other = service.create()
        assert send_file(other, content).status_code == 200
        assert features(other)["levels"] == OFFERS
        assert (numbers(other) == numbers(bandit)).all()
    answer = send_file(bandit, b"offer,price\nb,5.5\n", key="one")
    assert answer.json()["features"]["offer"][0]["name"] == "price"
    assert features(bandit)["levels"][1]["features"] == {**OFFERS[1]["features"], "price": 5.5}
    assert send_file(bandit, b"offer,price\nb,5.5\n", key="one").status_code == 200
    assert send_file(bandit, b"offer,price\nb,6.5\n", key="one").status_code == 409
    for content, words in [
        (b"", "can be read"),
        (b"PAR1 and more", "can be read"),
        (b"price\n1\n", "has no column 'offer'"),
        (b"offer,price\nb,1\nb,2\n", "name a level twice"),
        (b"offer,price\nb,inf\n", "give finite numbers"),
    ]:
        answer = send_file(bandit, content)
        assert answer.status_code == 422, answer.text
        assert words in answer.json()["error"]["message"]


def test_a_log_teaches_features_of_levels_that_are_not_known(bandit):
    log = "segment,offer,channel,cost,brand,click\nnew,old1,mail,3,Acme,1\nnew,old2,sms,4,Bolt,0\n"
    params = {"reward": "click", "features": '{"offer": ["brand"]}'}
    answer = bandit.send("POST", "/import", params=params, content=log.encode())
    assert (answer.status_code, answer.json()["added"]) == (200, {"offer": ["old1", "old2"]})
    levels = bandit.detail()["levels"]["offer"]
    assert [one["label"] for one in levels if one["retired"]] == ["old1", "old2"]
    assert features(bandit)["levels"][-1]["features"] == {"brand": "Bolt"}
    answer = bandit.send("POST", "/import", params={**params, "features": '{"offer": "brand"}'}, content=log.encode())
    assert answer.status_code == 422
    assert "give names of columns of the file" in answer.json()["error"]["message"]


def test_it_is_explained_what_features_say(bandit):
    for segment in ("new", "old"):
        for offer, reward in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
            body = {"arm": {"offer": offer, "channel": "sms"}, "context": {"segment": segment}, "reward": reward}
            bandit.post("/tell", body)
    bandit.ask()
    found = bandit.post("/explain")
    assert {row["feature"] for row in found["features"]} == {"", "price", "brand", "image"}
    rows = {row["level"]: row for row in found["effects"]}
    assert rows["a"]["by_features"] + rows["a"]["by_itself"] == pytest.approx(rows["a"]["effect"])
    assert rows["mail"]["by_features"] is None
    mode = next(one for one in bandit.send("GET", "/view/effects").json()["modes"] if one["mode"] == "offer")
    assert {one["feature"] for one in mode["features"]["parts"]} == {"price", "brand", "image"}
    assert 0 <= mode["features"]["low"] <= mode["features"]["share"] <= mode["features"]["high"] <= 1
    assert mode["levels"][0]["by_features"]["low"] <= mode["levels"][0]["by_features"]["mean"]


def test_features_are_there_after_a_restart(tmp_path):
    with Service(tmp_path / "own.db") as one:
        made = one.create("shop", features={"offer": OFFERS})
        made.post("/levels", {"mode": "offer", "label": "summer", "features": {"price": 6}})
        made.post("/features", {"mode": "offer", "levels": [{"label": "a", "features": {"price": 1e7}}]})
        before, known = features(made), numbers(made)
        again = one.restarted()
    with again as two:
        found = two.bandit("shop")
        assert features(found) == before
        assert (numbers(found) == known).all()

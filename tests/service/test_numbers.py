"""Numbers as context through the service: in requests, logs, changes and clients, and after a restart."""

import pyarrow as pa
import pytest

import tensorbandits as tb
from tests.service.served import Service, until

MODES = {"age": {"numbers": ["age"], "cuts": [18, 30, 45, 65]}, "offer": ["a", "b"]}


def ages(service, numeric=None, **more):
    return service.create(modes=MODES | ({"age": numeric} if numeric else {}), context=("age",), **more)


def test_requests_bring_numbers(service):
    one = ages(service)
    asked = one.post("/ask", {"context": {"age": 31.5}})
    assert asked["context"] == {"age": "age 30 to 45"}
    assert one.tell(asked["id"], 1)["status"] == "rewarded"
    many = one.post("/ask-many", {"requests": [{"context": {"age": age}} for age in (None, 17, "age above 65")]})
    assert [each["context"]["age"] for each in many["decisions"]] == ["age missing", "age below 18", "age above 65"]
    one.post("/tell", {"arm": {"offer": "a"}, "context": {"age": None}, "reward": 1.0})
    assert set(one.post("/best", {"context": {"age": 50}})["arm"]) == {"offer"}
    arms = one.post("/explain", {"context": {"age": 31}})["arms"]
    assert {arm["age"] for arm in arms} == {"age 30 to 45"}
    assert "give a number" in one.refused("/ask", {"context": {"age": True}}, 422, "invalid")
    named = service.create()
    assert "has the label null" in named.refused("/ask", {"context": {"segment": None}}, 422, "invalid")
    with tb.Client(service.url) as client, pytest.raises(ValueError, match="has the label null"):
        client.bandit(named.name).ask(segment=None)
    assert "no level of mode" in one.refused("/ask", {"context": {"age": "31"}}, 422, "invalid")


def test_a_region_is_split_and_stays_split(service):
    one = ages(service)
    preview = one.post("/preview", {"split_region": {"mode": "age", "region": "age 30 to 45", "at": 38}})
    assert preview["space"]["after"]["combinations"] == preview["space"]["before"]["combinations"] + 4
    detail = one.post("/regions/split", {"mode": "age", "region": "age 30 to 45", "at": 38}, key="split")
    assert detail == one.post("/regions/split", {"mode": "age", "region": "age 30 to 45", "at": 38}, key="split")
    labels = {level["label"]: level["retired"] for level in detail["levels"]["age"]}
    assert labels["age 30 to 45"]
    assert not labels["age 38 to 45"]
    assert one.post("/ask", {"context": {"age": 40}})["context"] == {"age": "age 38 to 45"}
    message = one.refused("/regions/split", {"mode": "age", "region": "age 30 to 45"}, 422, "invalid")
    assert "was split, or replaced, already" in message
    assert "RegionSplit" in one.kinds()
    changes = one.send("GET", "/changes").json()["changes"]
    assert changes[0]["words"] == "age 30 to 45 of age split at age 38"


def test_regions_are_learned_from_requests_and_known_after_a_restart(tmp_path):
    with Service(tmp_path / "own.db") as service:
        one = ages(service, {"regions": 2, "requests": 10})
        assert one.detail()["regions"]["age"] == {"numbers": ["age"], "learning": True, "requests": 10, "seen": 0}
        requests = [{"context": {"age": age}} for age in (None, *range(20, 30))]
        made = one.post("/ask-many", {"requests": requests})["decisions"]
        until(lambda: not one.detail()["regions"]["age"]["learning"])
        one.post("/tell-many", {"rewards": [{"id": each["id"], "reward": 1} for each in made]})
        assert one.kinds().count("RegionsLearned") == 1
        before = one.post("/ask", {"context": {"age": 21}})["context"]
        levels = one.detail()["levels"]
        again = service.restarted()
    with again as service:
        one = service.bandit(one.name)
        assert one.detail()["levels"] == levels
        assert one.post("/ask", {"context": {"age": 21}})["context"] == before


def test_logs_have_columns_of_numbers(service):
    one = ages(service, {"regions": 2, "requests": 10_000})
    csv = "age,offer,click\n20,a,1\n,b,0\n22,a,1\n50,b,0\n60,a,1\n"
    answer = one.send("POST", "/import", params={"reward": "click"}, content=csv)
    assert answer.status_code == 200, answer.text
    assert answer.json()["rewards"] == 5
    assert not one.detail()["regions"]["age"]["learning"]
    told, missing = one.ledger(), one.core.space.regions["age"].missing
    assert told["rounds"] == 5
    assert [missing, 1] in told["cells"]


@pytest.mark.parametrize("learned", [True, False])
def test_the_client_has_numbers_as_a_bandit_has_them(service, learned):
    numeric = tb.Numeric("age", "tenure", regions=3)
    if learned:
        numeric = numeric.learn({"age": [20, 21, 60, 61, 40], "tenure": [1, 2, 30, 31, 3]})
    space = tb.Space({"who": numeric, "offer": ["a", "b"]}, ["who"])
    if learned:
        space.split_region("who", space.levels[0][0], 21, "age")
        space.forbid(who=space.levels[0][-1], offer="b")
    with tb.Client(service.url) as client:
        name = f"people-{learned}"
        one = client.create(name, space, rank=1)
        there = service.bandit(name).core.space
        assert there.rules == space.rules
        assert there.levels == space.levels
        decision = one.ask(age=60.5, tenure=30)
        assert decision.context["who"] == space.labels((space.given(age=60.5, tenure=30)[0], 0))["who"]
        one.tell(decision, 1.0)
        one.tell(arm={"offer": "a"}, context={"age": None, "tenure": 3}, reward=0.0)
        assert one.ask(age=float("nan"), tenure=2).context["who"] == "age or tenure missing"
        many = one.ask_many(pa.table({"age": [20.0, None], "tenure": [1.0, 2.0]}))
        assert [each.context["who"] for each in many] == [
            space.labels((*space.given(age=20, tenure=1), 0))["who"],
            "age or tenure missing",
        ]
        assert set(one.best(age=20, tenure=2)) == {"offer"}
        if learned:
            region = there.levels[0][1]
            one.split_region("who", region, number="age")
            assert region in there.retired["who"]
        log = pa.table({"age": [20.0, 60.0], "tenure": [1.0, 30.0], "offer": ["a", "b"], "pay": [1.0, 2.0]})
        assert one.tell_log(log, "pay").rewards == 2

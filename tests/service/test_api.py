"""What each route does, as a caller sees it."""

import pytest

from tests.service.served import MODES


@pytest.fixture
def bandit(service):
    return service.create(reward="bernoulli", window="1 h", default=0)


def test_a_bandit_is_made_listed_and_deleted(service):
    body = {
        "name": "shop.offers_1-x",
        "modes": MODES,
        "context": ["segment"],
        "reward": "bernoulli",
        "rank": 1,
        "window": "10 min",
        "default": 0,
        "holdout": 0.05,
        "rules": [{"forbid": {"offer": "c", "channel": "sms"}}, {"allow": {"segment": "new", "offer": ["a", "c"]}}],
    }
    made = service.http.post("/v1/bandits", json=body)
    assert made.status_code == 201
    detail = made.json()
    assert detail["name"] == "shop.offers_1-x"
    assert detail["modes"] == {"segment": 2, "offer": 3, "channel": 2}
    assert detail["levels"]["offer"][0] == {"label": "a", "retired": False}
    assert detail["rules"] == body["rules"]
    assert (detail["policy"], detail["reward"], detail["apprentice"]) == ("thompson", "bernoulli", False)
    assert (detail["decisions"], detail["rewards"], detail["waiting"], detail["seq"]) == (0, 0, 0, 1)
    assert detail["settings"] == {"reward": "bernoulli", "rank": 1, "window": "10 min", "default": 0, "holdout": 0.05}
    assert service.bandit("shop.offers_1-x").detail() == detail
    listed = service.http.get("/v1/bandits").json()["bandits"]
    assert {name: detail[name] for name in listed[0]} in listed
    assert "allowed is" in service.bandit("shop.offers_1-x").refused("", {}, 405, "method")
    assert service.http.delete("/v1/bandits/shop.offers_1-x").status_code == 204
    assert service.http.get("/v1/bandits/shop.offers_1-x").status_code == 404
    again = service.create("shop.offers_1-x", {"offer": ["z", "y"]})
    assert again.detail()["modes"] == {"offer": 2}
    assert again.ask(None)["arm"]["offer"] in ("z", "y")


def test_asks_and_tells(bandit):
    decision = bandit.ask("old")
    assert set(decision) == {"id", "arm", "context", "propensity", "by", "policy", "time"}
    assert set(decision["arm"]) == {"offer", "channel"}
    assert (decision["context"], decision["by"]) == ({"segment": "old"}, "policy")
    assert 0 < decision["propensity"] <= 1
    known = bandit.look_up(decision["id"])
    assert (known["status"], known["reward"]) == ("open", None)
    assert {part: known[part] for part in ("arm", "context", "propensity", "by", "time")} == {
        part: decision[part] for part in ("arm", "context", "propensity", "by", "time")
    }
    assert bandit.tell(decision["id"], 1) == {
        "id": decision["id"], "status": "rewarded", "reward": 1.0, "changed": True,
    }  # fmt: skip
    assert bandit.look_up(decision["id"])["status"] == "rewarded"
    arm = {"arm": {"offer": "a", "channel": "sms"}, "context": {"segment": "new"}}
    assert bandit.post("/tell", arm | {"reward": 0})["changed"]
    assert bandit.post("/tell", arm | {"reward": 7, "trials": 10})["reward"] == 7
    detail = bandit.detail()
    assert (detail["decisions"], detail["rewards"], detail["waiting"]) == (1, 12, 0)
    chosen = bandit.ask("new", allowed={"offer": ["b"], "channel": ["sms"]})
    assert (chosen["arm"], chosen["propensity"]) == ({"offer": "b", "channel": "sms"}, 1)


def test_many_at_once(bandit):
    requests = [{"context": {"segment": "new" if at % 2 else "old"}, "id": f"mine-{at}"} for at in range(20)]
    decisions = bandit.post("/ask-many", {"requests": requests})["decisions"]
    assert [one["id"] for one in decisions] == [f"mine-{at}" for at in range(20)]
    assert [one["context"]["segment"] for one in decisions] == ["old", "new"] * 10
    assert bandit.post("/ask-many", {"requests": []}) == {"decisions": []}
    rewards = [{"id": "mine-0", "reward": 1}, {"id": "mine-1", "reward": 0.5}, {"id": "nobody", "reward": 1}]
    rewards += [{"id": "mine-0", "reward": 1}, {"id": "mine-0", "reward": 0}, {"id": "mine-2", "reward": 0}]
    rewards += [{"arm": {"offer": "a"}, "reward": 1}, {"id": "mine-3", "arm": {}, "reward": 1}]
    results = bandit.post("/tell-many", {"rewards": rewards})["results"]
    assert [one.get("changed", one.get("error", {}).get("code")) for one in results] == [
        True, "invalid", "unknown_decision", False, "closed_decision", True, "invalid", "invalid",
    ]  # fmt: skip
    assert "no label is given for 'segment', 'channel'" in results[6]["error"]["message"]
    assert (bandit.detail()["rewards"], bandit.detail()["waiting"]) == (2, 18)
    assert bandit.refused("/ask-many", {"requests": [{}] * 1001}, 422, "invalid").startswith("requests has more")
    wrong = [{"context": {"segment": "new"}}, {"context": {"segment": "x"}}]
    assert "'x'" in bandit.refused("/ask-many", {"requests": wrong}, 422, "invalid")
    assert bandit.detail()["decisions"] == 20


def test_showing_and_cancelling(bandit):
    decision = bandit.ask(activate=False)
    assert bandit.look_up(decision["id"])["status"] == "inactive"
    assert bandit.post("/activate", {"id": decision["id"]})["status"] == "open"
    assert bandit.post("/activate", {"id": decision["id"]})["changed"] is False
    assert bandit.post("/cancel", {"id": decision["id"]}) == {
        "id": decision["id"], "status": "cancelled", "reward": None, "changed": True,
    }  # fmt: skip
    assert bandit.post("/cancel", {"id": decision["id"]})["changed"] is False
    bandit.refused("/tell", {"id": decision["id"], "reward": 1}, 409, "cancelled_decision")
    bandit.refused("/activate", {"id": decision["id"]}, 409, "cancelled_decision")
    other = bandit.ask()
    bandit.tell(other["id"], 1)
    assert "cannot be cancelled" in bandit.refused("/cancel", {"id": other["id"]}, 409, "closed_decision")
    assert bandit.kinds() == ["Created", "Decided", "Activated", "Cancelled", "Decided", "Rewarded"]


def test_rewards_that_change(service):
    bandit = service.create(reward="gaussian", adds=True)
    one = bandit.ask()["id"]
    bandit.tell(one, 2)
    message = bandit.refused("/tell", {"id": one, "reward": 3}, 409, "closed_decision")
    assert "has the reward 2 already" in message
    assert bandit.tell(one, 3, amend=True)["reward"] == 3
    assert bandit.tell(one, 3, amend=True)["changed"] is False
    assert bandit.tell(one, 1.5, add=True)["reward"] == 4.5
    assert bandit.detail()["rewards"] == 1
    assert bandit.ledger()["sums"][1] == [4.5]


def test_levels(bandit):
    added = bandit.post("/levels", {"mode": "offer", "label": "d", "like": "a", "rewards": 3})
    assert added["levels"]["offer"][3] == {"label": "d", "retired": False}
    assert bandit.ask(allowed={"offer": ["d"]})["arm"]["offer"] == "d"
    retired = bandit.post("/levels/retire", {"mode": "offer", "label": "a"})
    assert retired["levels"]["offer"][0] == {"label": "a", "retired": True}
    gone = {"context": {"segment": "new"}, "allowed": {"offer": ["a"]}}
    assert "is retired; allow others too" in bandit.refused("/ask", gone, 422, "invalid")
    assert {bandit.ask()["arm"]["offer"] for _ in range(15)} <= {"b", "c", "d"}
    restored = bandit.post("/levels/restore", {"mode": "offer", "label": "a"})
    assert restored["levels"]["offer"][0]["retired"] is False
    assert "did you mean 'offer'?" in bandit.refused("/levels", {"mode": "offers", "label": 1}, 422, "invalid")
    assert "already" in bandit.refused("/levels", {"mode": "offer", "label": "d"}, 422, "invalid")
    assert "not retired" in bandit.refused("/levels/restore", {"mode": "offer", "label": "d"}, 422, "invalid")


def test_rules(bandit):
    rule = {"forbid": {"offer": "a", "segment": "new"}}
    assert bandit.post("/rules", rule)["rules"] == [{"forbid": {"segment": "new", "offer": "a"}}]
    only = {"allow": {"segment": "old", "offer": ["a"], "channel": ["sms"]}}
    assert bandit.post("/rules", only)["rules"][1] == only
    assert {bandit.ask("new")["arm"]["offer"] for _ in range(15)} <= {"b", "c"}
    assert bandit.ask("old")["arm"] == {"offer": "a", "channel": "sms"}
    message = bandit.refused("/rules", {"forbid": {"offer": "a"}}, 422, "invalid")
    assert "nothing would be left to choose" in message
    assert bandit.post("/rules/remove", only)["rules"] == [{"forbid": {"segment": "new", "offer": "a"}}]
    assert "is no rule here" in bandit.refused("/rules/remove", only, 422, "invalid")
    for wrong in ({}, {"forbid": {"offer": "a"}, "allow": {"offer": ["a"]}}, {"forbid": None}, {"forbid": {}}):
        bandit.refused("/rules", wrong, 422, "invalid")
    assert len(bandit.detail()["rules"]) == 1


def test_changes(bandit):
    detail = bandit.patch(holdout=0.5, baseline={"offer": "a", "channel": "sms"}, floors=0.2)
    assert detail["settings"]["holdout"] == 0.5
    made = [bandit.ask() for _ in range(60)]
    assert {one["by"] for one in made} <= {"policy", "floor", "holdout"}
    held = [one for one in made if one["by"] == "holdout"]
    assert held  # with half of the decisions, the chance that none of 60 is held is below 1e-18
    assert all(one["arm"] == {"offer": "a", "channel": "sms"} for one in held)
    assert all(one["propensity"] >= 0.5 for one in held)
    assert bandit.patch(holdout=0, floors=None)["settings"]["floors"] is None
    assert {bandit.ask()["by"] for _ in range(20)} == {"policy"}
    bandit.refused("", {"baseline": {"offer": "b", "channel": "sms"}}, 422, "invalid", method="PATCH")
    assert bandit.patch(holdout=0.99)["settings"]["baseline"] == {"offer": "a", "channel": "sms"}
    made = [bandit.ask() for _ in range(20)]
    assert {tuple(one["arm"].values()) for one in made if one["by"] == "holdout"} == {("a", "sms")}
    bandit.patch(holdout=0)
    bandit.refused("", {"holdout": 1}, 422, "invalid", method="PATCH")
    bandit.refused("", {"rank": 2}, 422, "invalid", method="PATCH")
    bandit.refused("", {"window": None}, 422, "invalid", method="PATCH")  # there is a default
    assert bandit.patch(window=None, default=None)["settings"]["window"] is None
    bandit.refused("", {"floors": [{"labels": {"offer": "z"}, "share": 0.1}]}, 422, "invalid", method="PATCH")


def test_beliefs(bandit):
    for segment, offer, clicks in (("new", "b", 90), ("new", "a", 5), ("old", "a", 80), ("old", "b", 10)):
        arm = {"arm": {"offer": offer, "channel": "mail"}, "context": {"segment": segment}}
        bandit.post("/tell", arm | {"reward": clicks, "trials": 100})
    assert bandit.post("/best", {"context": {"segment": "new"}, "allowed": {"offer": ["a", "b"]}})["arm"] == {
        "offer": "b", "channel": "mail",
    }  # fmt: skip
    found = bandit.post("/explain", {"context": {"segment": "new"}, "level": 0.8, "arms": 3})
    assert set(found) == {"words", "scale", "effects", "interactions", "alike", "arms", "features"}
    assert len(found["arms"]) == 3
    assert {row["mode"] for row in found["effects"]} == {"segment", "offer", "channel"}
    found = bandit.post("/diagnose")
    assert set(found) == {"words", "structure", "moved"}
    assert bandit.detail()["seq"] == 5


def test_events(bandit):
    ids = [bandit.ask()["id"] for _ in range(5)]
    events = bandit.events()
    assert [event["seq"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert [event["decision"] for event in events] == [None, *ids]
    assert set(events[0]) == {"seq", "time", "kind", "decision", "actor", "body"}
    assert {event["actor"] for event in events} == {"everybody"}  # as there are no keys
    assert [event["seq"] for event in bandit.events(after=2, limit=2)] == [3, 4]
    assert [event["seq"] for event in bandit.events(newest=True, limit=2)] == [6, 5]
    assert bandit.events(after=10**6) == []


def test_views(service, bandit):
    for at in range(30):
        bandit.tell(bandit.ask()["id"], at % 2)
    bandit.ask()
    for what in ("space", "overview", "reward", "traffic", "heat", "effects", "arms", "decisions", "drift"):
        params = {"traffic": {"mode": "offer"}, "heat": {"rows": "offer", "columns": "channel"}}.get(what, {})
        answer = bandit.send("GET", f"/view/{what}", params=params)
        assert answer.status_code == 200, (what, answer.text)
        assert isinstance(answer.json(), dict)
    for what in ("apprentice", "events", "health"):
        assert bandit.send("GET", f"/view/{what}").status_code == 200
    assert bandit.send("GET", "/view/heaps").status_code == 422
    assert bandit.send("GET", "/view/events", params={"count": "x"}).status_code == 422
    assert service.http.get("/").headers["content-type"].startswith("text/html")


def test_health_and_metrics(service, bandit):
    assert service.http.get("/healthz").json() == {"status": "ok"}
    assert service.http.get("/readyz").json()["status"] == "ready"
    bandit.tell(bandit.ask()["id"], 1)
    text = service.http.get("/metrics").text
    assert bandit.name in text
    me = service.http.get("/v1/me").json()
    assert (me["role"], me["open"], me["bandits"]) == ("admin", True, None)

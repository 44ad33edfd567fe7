"""A bandit that runs beside a caller's rule: what it would have earned, and switching it on."""

import itertools

import numpy as np
import pytest

from tests.service.served import MODES, until

TRUTH = {
    (segment, offer, channel): 0.2 + 0.3 * (offer == ("b" if segment == "new" else "c")) + 0.2 * (channel == "sms")
    for segment, offer, channel in itertools.product(*MODES.values())
}


@pytest.fixture
def bandit(service):
    return service.create(reward="bernoulli", apprentice=True)


def mean(context, arm):
    return TRUTH[context["segment"], arm["offer"], arm["channel"]]


def view(bandit):
    answer = bandit.send("GET", "/view/apprentice")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_asks_say_what_is_played(bandit):
    assert bandit.detail()["apprentice"] is True
    played = {"offer": "b", "channel": "sms"}
    decision = bandit.ask(played=played, propensity=0.25)
    assert (decision["arm"], decision["by"], decision["propensity"]) == (played, "caller", 0.25)
    assert set(decision["would"]) == {"offer", "channel"}
    certain = bandit.ask(played=played)
    assert certain["propensity"] is None
    context = {"context": {"segment": "new"}}
    message = bandit.refused("/ask", context, 422, "invalid")
    assert "this bandit is an apprentice" in message
    bandit.refused("/ask", context | {"played": {"offer": "b"}}, 422, "invalid")
    bandit.refused("/ask", context | {"played": played | {"offer": "z"}}, 422, "invalid")
    bandit.refused("/ask", context | {"played": played, "propensity": 0}, 422, "invalid")
    bandit.refused("/ask", context | {"played": played, "propensity": 5e-324}, 422, "invalid")
    bandit.refused("/ask", context | {"played": played, "propensity": 1.5}, 422, "invalid")
    bandit.refused("/ask-many", {"requests": [context | {"played": played}, context]}, 422, "invalid")
    assert bandit.detail()["decisions"] == 2
    same = bandit.ask(played=played, id="mine")
    assert bandit.ask(played=played, id="mine") == same
    other = context | {"played": {"offer": "a", "channel": "sms"}, "id": "mine"}
    bandit.refused("/ask", other, 409, "key_reused")


def test_estimates_are_right_and_it_is_switched_on(bandit):
    rng = np.random.default_rng(7)
    arms = [{"offer": offer, "channel": channel} for offer in MODES["offer"] for channel in MODES["channel"]]
    would, earned = [], []
    for _ in range(20):  # a rule that plays each arm with the same chance
        requests = [
            {
                "context": {"segment": str(rng.choice(MODES["segment"]))},
                "played": arms[rng.integers(len(arms))],
                "propensity": 1 / len(arms),
            }
            for _ in range(60)
        ]
        decisions = bandit.post("/ask-many", {"requests": requests})["decisions"]
        would += [mean(one["context"], one["would"]) for one in decisions]
        rewards = [int(rng.random() < mean(one["context"], one["arm"])) for one in decisions]
        earned += rewards
        pairs = zip(decisions, rewards, strict=True)
        told = bandit.post("/tell-many", {"rewards": [{"id": one["id"], "reward": reward} for one, reward in pairs]})
        assert all(one["changed"] for one in told["results"])
        until(lambda: not bandit.core.learner.stale)
    seen = bandit.core.state.apprentice
    assert seen.count == 1200
    judged = seen.judged("bernoulli")
    assert (judged.support, seen.earned) == (1.0, pytest.approx(np.mean(earned)))
    gap = np.mean(would) - np.mean(earned)
    assert judged.bandit.low < np.mean(would) < judged.bandit.high
    assert judged.difference.low < gap < judged.difference.high
    assert judged.difference.high - judged.difference.low < 0.3
    assert np.mean(would[300:]) > np.mean(earned)  # it has learned from what another played
    shown = view(bandit)
    assert (shown["on"], shown["count"]) == (True, 1200)
    assert shown["rule"]["mean"] == pytest.approx(seen.earned)
    assert shown["bandit"]["mean"] == pytest.approx(judged.bandit.mean)
    assert (shown["verdict"], shown["support"], shown["intervals"]) == ("better", 1.0, "anytime")
    assert shown["model"]["low"] < shown["model"]["mean"] < shown["model"]["high"]

    detail = bandit.patch(apprentice=False)
    assert detail["apprentice"] is False
    context = {"context": {"segment": "new"}}
    message = bandit.refused("/ask", context | {"played": arms[0]}, 422, "invalid")
    assert "this bandit is no apprentice" in message
    decision = bandit.ask()
    assert (decision["by"], "would" in decision) == ("policy", False)
    assert bandit.post("/best", context)["arm"] == {"offer": "b", "channel": "sms"}
    until(lambda: not view(bandit)["on"])  # what is looked at is kept for a while
    assert view(bandit)["count"] == 1200  # what was measured stays
    bandit.patch(apprentice=True, holdout=0)
    bandit.ask(played=arms[0])


def test_rewards_of_an_apprentice_that_change(service):
    bandit = service.create(reward="gaussian", apprentice=True)
    played = {"offer": "b", "channel": "sms"}
    ids = [bandit.ask(played=played, propensity=0.5)["id"] for _ in range(4)]
    for one in ids[:3]:
        bandit.tell(one, 1)
    bandit.tell(ids[0], 4, amend=True)
    bandit.post("/cancel", {"id": ids[3]})
    seen = bandit.core.state.apprentice
    assert (seen.count, seen.earned) == (3, 2)


def test_holdout_and_floors_keep_their_shares(service):
    bandit = service.create(
        reward="bernoulli",
        holdout=0.3,
        baseline={"offer": "c", "channel": "mail"},
        floors=[{"labels": {"offer": "a"}, "share": 0.2}],
        ceilings=[{"labels": {"channel": "sms"}, "share": 0.5}],
    )
    count = 900
    requests = {"requests": [{"context": {"segment": "new"}}] * count}
    made = bandit.post("/ask-many", requests)["decisions"]
    shares = {by: sum(one["by"] == by for one in made) / count for by in ("holdout", "floor", "policy")}
    # Six standard errors of a share among 900 are at most 0.1.
    assert shares["holdout"] == pytest.approx(0.3, abs=0.1)
    assert shares["floor"] == pytest.approx(0.7 * 0.2, abs=0.1)
    assert sum(one["arm"]["channel"] == "sms" for one in made) / count < 0.6
    assert all(one["arm"] == {"offer": "c", "channel": "mail"} for one in made if one["by"] == "holdout")
    assert all(one["arm"]["offer"] == "a" for one in made if one["by"] == "floor")
    for one in made:
        assert 0 < one["propensity"] <= 1
        if one["arm"] == {"offer": "c", "channel": "mail"}:
            assert one["propensity"] >= 0.3
    # Of each arm the share is what its propensity says.
    for arm in {tuple(one["arm"].values()) for one in made}:
        same = [one["propensity"] for one in made if tuple(one["arm"].values()) == arm]
        assert len(same) / count == pytest.approx(np.mean(same), abs=0.1)
    bandit.post("/tell-many", {"rewards": [{"id": one["id"], "reward": 1} for one in made]})
    answer = bandit.send("GET", "/view/reward")
    assert answer.status_code == 200


def test_rewards_behind_a_decision_that_no_window_ends_any_more_are_counted(service):
    bandit = service.create(reward="gaussian", apprentice=True, window="1 h", default=0)
    first, second = (bandit.ask(played={"offer": "b", "channel": "sms"}, propensity=0.5)["id"] for _ in range(2))
    bandit.tell(second, 1.0)
    seen = bandit.core.state.apprentice
    assert seen.count == 0
    bandit.patch(window=None, default=None)
    assert seen.count == 1
    bandit.tell(first, 0.0)
    assert (seen.count, seen.earned) == (2, 0.5)


def test_a_gradual_start_is_an_experiment_from_the_first_day(service):
    bandit = service.create(reward="bernoulli", apprentice=True, rollout=0.5)
    assert bandit.detail()["rollout"] == 0.5
    rng = np.random.default_rng(0)
    arm = {"offer": "a", "channel": "mail"}
    request = {"context": {"segment": "new"}, "played": arm, "propensity": 1.0}
    for _ in range(4):
        made = bandit.post("/ask-many", {"requests": [request] * 150})["decisions"]
        rewards = [{"id": one["id"], "reward": int(rng.random() < mean(one["context"], one["arm"]))} for one in made]
        bandit.post("/tell-many", {"rewards": rewards})
        assert {one["by"] for one in made} == {"policy", "caller"}
        assert all((one["by"] == "caller") == ("would" in one) for one in made)
        assert all(one["arm"] == arm and one["propensity"] == 1.0 for one in made if one["by"] == "caller")
        until(lambda: not bandit.core.learner.stale)
    shown = view(bandit)
    assert (shown["rollout"], shown["uplift"]["over"], shown["uplift"]["verdict"]) == (0.5, "caller", "better")
    assert shown["uplift"]["ratio"]["fits"]
    answer = bandit.send("GET", "/view/uplift?intervals=fixed&level=0.9")
    assert (answer.json()["intervals"], answer.json()["level"]) == ("fixed", 0.9)
    assert answer.json()["low"] > shown["uplift"]["low"]
    assert bandit.send("GET", "/view/uplift?over=nobody").status_code == 422
    detail = bandit.patch(rollout=1.0)
    assert detail["rollout"] == 1.0
    assert bandit.ask(played=arm)["by"] == "policy"
    for wrong in (1.5, -0.1, "half", True):
        assert bandit.send("PATCH", "", json={"rollout": wrong}).status_code == 422
    bandit.patch(apprentice=False)
    assert bandit.detail()["rollout"] is None
    assert "no apprentice" in bandit.send("PATCH", "", json={"rollout": 0.2}).json()["error"]["message"]


def test_decisions_that_the_holdout_could_not_make_are_compared_with_nothing(service):
    bandit = service.create(reward="bernoulli", holdout=0.5, baseline={"offer": "c", "channel": "mail"})
    requests = [{"context": {"segment": "new"}, "allowed": {"channel": ["sms"]}}] * 200
    made = bandit.post("/ask-many", {"requests": requests})["decisions"]
    assert {one["by"] for one in made} == {"policy"}
    made += bandit.post("/ask-many", {"requests": [{"context": {"segment": "new"}}] * 100})["decisions"]
    bandit.post("/tell-many", {"rewards": [{"id": one["id"], "reward": 1} for one in made]})
    found = bandit.core.uplift(0.0)
    assert found.ratio.fits
    assert found.policy.decisions + found.other.decisions == 100

"""A paused bandit: the baseline decides, with exact probabilities, and learning goes on."""

from collections import Counter

import pytest

import tensorbandits as tb

MODES = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}


def made(**settings):
    space = tb.Space(MODES, ["segment"])
    space.forbid(segment="new", offer="c")
    return tb.Bandit(space, **{"rank": 1, "reward": "bernoulli", "seed": 0} | settings)


def shares(bandit, rounds=600, **allowed):
    """How often arms were played for one segment, and the probability that each decision said it had."""
    seen, said = Counter(), {}
    for _ in range(rounds):
        decision = bandit.ask(segment="new", **allowed)
        arm = tuple(decision.arm.values())
        seen[arm] += 1
        assert decision.by == "holdout"
        assert said.setdefault(arm, decision.propensity) == decision.propensity
    return {arm: count / rounds for arm, count in seen.items()}, said


@pytest.mark.parametrize("policy", ["thompson", "ucb", "epoch-greedy"])
def test_the_baseline_alone_decides_with_the_probability_that_is_said(policy):
    space = tb.Space(MODES, ["segment"])
    space.forbid(segment="new", offer="c")
    bandit = tb.Bandit(space, policy, floors=0.3, seed=0)
    bandit.change(paused=True, baseline=[({"offer": "a"}, 0.75), ({"offer": "b", "channel": "sms"}, 0.25)])
    seen, said = shares(bandit)
    assert said == {("a", "mail"): 0.375, ("a", "sms"): 0.375, ("b", "sms"): 0.25}
    assert seen == pytest.approx(said, abs=0.08)
    bandit.change(paused=False)
    assert {bandit.ask(segment="new").by for _ in range(40)} <= {"policy", "floor"}


def test_where_the_baseline_may_not_be_played_all_that_is_allowed_is_drawn_alike():
    bandit = made(paused=True, baseline={"offer": "c"})
    _, said = shares(bandit, 40)
    assert set(said) == {(offer, channel) for offer in "ab" for channel in MODES["channel"]}
    assert set(said.values()) == {0.25}
    _, said = shares(bandit, 10, allowed={"offer": ["b"], "channel": ["sms"]})
    assert said == {("b", "sms"): 1.0}


def test_rewards_are_learned_from_and_nothing_is_compared_meanwhile():
    bandit = made(paused=True, holdout=0.2)
    for at in range(50):
        bandit.tell(bandit.ask(segment="old").id, at % 2)
    assert bandit.policy.ledger.rounds == 50
    assert bandit.uplift().verdict == "none"  # no draw could have given these to the policy


def test_an_apprentice_leaves_all_to_the_callers_rule():
    bandit = made(apprentice=True, rollout=1.0, paused=True)
    arm = {"offer": "a", "channel": "mail"}
    decisions = [bandit.ask(segment="new", played=arm, propensity=0.5) for _ in range(30)]
    assert {decision.by for decision in decisions} == {"caller"}
    assert {decision.propensity for decision in decisions} == {0.5}
    assert len({tuple(decision.would.values()) for decision in decisions}) > 1  # it goes on saying what it would do
    bandit.change(paused=None)
    assert {bandit.ask(segment="new", played=arm, propensity=0.5).by for _ in range(30)} == {"policy"}


def test_it_stays_paused_when_saved(tmp_path):
    bandit = made(paused=True, baseline={"offer": "b"})
    bandit.save(tmp_path / "paused.safetensors")
    again = tb.Bandit.load(tmp_path / "paused.safetensors")
    assert {again.ask(segment="old").arm["offer"] for _ in range(20)} == {"b"}
    again.change(paused=False)
    assert "policy" in {again.ask(segment="old").by for _ in range(20)}


@pytest.mark.parametrize("paused", ["yes", 1, 0.5])
def test_what_is_no_truth_value_is_refused(paused):
    bandit = made()
    with pytest.raises((TypeError, ValueError), match="paused"):
        bandit.change(paused=paused)
    assert bandit.ask(segment="old").by == "policy"

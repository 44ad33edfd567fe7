"""Rewards that fade by a half-life: when, by how much, with amendments, from file to file, and who cannot."""

import dataclasses
from datetime import timedelta

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.bandit.spans import Fading, Span

LEVELS = {"s": ["x", "y"], "a": ["p", "q", "r"], "b": ["u", "v"]}


def bandit(policy="ucb", **settings):
    return tb.Bandit(tb.Space(LEVELS, context=["s"]), policy, **{"seed": 0} | settings)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(100, (100.0, True)), (2.5, (2.5, True)), ("7 days", (604800.0, False)), (timedelta(hours=1), (3600.0, False))],
)
def test_half_lives_are_numbers_of_rewards_or_durations(value, expected):
    assert bandit(half_life=value).state_dict()["teller"]["fading"]["half_life"] == list(expected)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "soon", "7", True, [], timedelta(0)])
def test_other_half_lives_are_refused(value):
    with pytest.raises((TypeError, ValueError), match=r"half_life is .*; give a duration"):
        bandit(half_life=value)


@pytest.mark.parametrize("half_life", [3.0, 64.0, 200.0, 1000.0])
def test_a_reward_counts_within_a_sixty_fourth_of_a_half_life_of_what_it_should(half_life):
    one = bandit(half_life=half_life)
    for t in range(500):
        one.tell(arm={"a": "p", "b": "u"}, context={"s": "x"}, reward=float(t == 100))
        if t >= 100:
            exact = 2.0 ** -((t - 100) / half_life)
            assert exact / 1.011 <= one.policy.ledger[0, 0, 0].total <= exact * 1.011
    exact = sum(2.0 ** -(age / half_life) for age in range(500))
    assert one.policy.ledger.rounds == pytest.approx(exact, rel=0.011)


def test_a_half_life_changes_while_a_bandit_runs_and_what_faded_stays_faded(tmp_path):
    one = bandit()
    tell = {"arm": {"a": "p", "b": "u"}, "context": {"s": "x"}, "reward": 1.0}
    for _ in range(64):
        one.tell(**tell)
    assert one.policy.ledger.rounds == 64.0
    one.change(half_life=32)
    one.save(tmp_path / "bandit.safetensors")
    one = tb.Bandit.load(tmp_path / "bandit.safetensors")
    for _ in range(32):
        one.tell(**tell)
    assert one.policy.ledger.rounds == pytest.approx(32.0 + sum(2 ** (-age / 32) for age in range(32)), rel=0.02)
    before = one.policy.ledger.rounds
    one.change(half_life=None)
    one.tell(**tell)
    assert one.policy.ledger.rounds == before + 1.0
    for wrong in (0, "soon", -1.0, True):
        with pytest.raises((TypeError, ValueError), match=r"half_life is .*; give a duration"):
            one.change(half_life=wrong)
    with pytest.raises(ValueError, match=r"half_life is given, but .*plans its exploration once"):
        tb.Bandit(tb.Space({"a": ["p", "q"], "b": ["u", "v"]}), "estr", rank=1, horizon=99).change(half_life=10)


def test_time_fades_rewards_whether_or_not_there_are_others_and_never_backwards():
    now = 1e9
    one = bandit(half_life="10 s", clock=lambda: now)
    first = one.ask(s="x")
    one.tell(first.id, 4.0)
    now += 10.0
    one.ask(s="x")
    cell = one.space.cell({**first.arm, **first.context})
    assert one.policy.ledger[cell].total == pytest.approx(2.0)
    now -= 5.0
    one.expire()
    assert one.policy.ledger[cell].total == pytest.approx(2.0)
    now += 1e9
    one.expire()
    assert 0.0 < one.policy.ledger[cell].rounds < 1e-11
    assert one.policy.ledger[cell].total == pytest.approx(4.0 * one.policy.ledger[cell].rounds)


@pytest.mark.parametrize("policy", ["thompson", "ensemble", "ucb", "epoch-greedy"])
def test_an_amended_reward_counts_what_was_left_of_the_first(policy):
    settings = {} if policy == "ucb" else {"rank": 1}
    one, twin = (bandit(policy, half_life=8, **settings) for _ in range(2))
    ids, rewards = [], np.random.default_rng(0).integers(5, size=60).astype(float)
    for at, reward in enumerate(rewards):
        decision = one.ask(s="x")
        ids.append(decision.id)
        one.tell(decision.id, 9.0)
        twin.tell(arm=decision.arm, context=decision.context, reward=reward)
        if at >= 20:
            one.tell(ids[at - 20], rewards[at - 20], amend=True)
    for number, reward in zip(ids[-20:], rewards[-20:], strict=True):
        one.tell(number, reward, amend=True)
    assert one.policy.ledger.rounds == pytest.approx(twin.policy.ledger.rounds)
    for entry in twin.policy.ledger:
        assert one.policy.ledger[entry.cell][1:] == pytest.approx(entry[1:], rel=1e-9, abs=1e-9)
    assert np.isfinite(one.policy.estimate([(0, 0, 0)])).all()


def test_a_default_that_has_faded_is_replaced_by_the_late_reward():
    now = 0.0
    one = bandit(half_life="10 s", window="5 s", default=0, clock=lambda: now)
    decision = one.ask(s="x")
    now = 6.0
    one.expire()
    now = 26.0
    one.tell(decision.id, 8.0)
    cell = one.space.cell({**decision.arm, **decision.context})
    assert one.policy.ledger[cell].total == pytest.approx(2.0, rel=0.011)
    assert one.policy.ledger[cell].total == pytest.approx(8.0 * one.policy.ledger[cell].rounds)


def test_what_a_policy_refuses_to_amend_stays_as_it_was():
    now = 0.0
    one = bandit(window="5 s", default=0, clock=lambda: now)
    rewarded, late = one.ask(s="x"), one.ask(s="y")
    one.tell(rewarded.id, 1.0)
    now = 6.0
    assert one.status(late.id) == "timed out"
    one.policy.fade(0.5)  # behind the bandit's back
    before = one.policy.ledger.copy()
    for number, state in ((rewarded.id, "rewarded"), (late.id, "timed out")):
        with pytest.raises(ValueError, match="holds no reward of"):
            one.tell(number, 3.0, amend=True)
        assert one.status(number) == state
    assert one.policy.ledger == before
    one.tell(rewarded.id, 1.0)  # still the same reward
    with pytest.raises(ValueError, match="has the reward 1 already"):
        one.tell(rewarded.id, 3.0)


@pytest.mark.parametrize("half_life", [8, "10 s"])
def test_a_loaded_bandit_fades_on_from_where_it_was(half_life, tmp_path):
    times = [0.0]
    one, twin = (bandit(half_life=half_life, clock=lambda: times[-1]) for _ in range(2))
    ids = []
    for at in range(30):
        times.append(float(at))
        if at == 15:
            one.save(tmp_path / "one")
            one = tb.Bandit.load(tmp_path / "one", clock=lambda: times[-1])
        decision = one.ask(s="x")
        ids.append(decision.id)
        one.tell(decision.id, float(at))
        twin.tell(arm=decision.arm, context=decision.context, reward=1.0)
    for number in ids:
        one.tell(number, 1.0, amend=True)
    assert one.policy.ledger.rounds == pytest.approx(twin.policy.ledger.rounds)
    assert one.policy.ledger.totals.sum() == pytest.approx(twin.policy.ledger.totals.sum())
    assert sum(one.state_dict()["teller"]["history"]["lengths"]) == 30


@pytest.mark.parametrize("policy", ["elimination", "estr"])
def test_policies_that_plan_their_exploration_once_refuse_a_half_life(policy):
    space = tb.Space({"a": ["p", "q", "r"], "b": ["u", "v"]})
    with pytest.raises(ValueError, match=r"half_life is given, but .* plans its exploration once; use"):
        tb.Bandit(space, policy, rank=1, horizon=100, half_life=10)


def test_a_policy_of_ones_own_that_cannot_fade_refuses_a_half_life():
    class Rigid(tb.VectorizedUCB):
        traits = dataclasses.replace(tb.VectorizedUCB.traits, fades=False)

    with pytest.raises(ValueError, match="does not say how what it observed fades"):
        bandit(Rigid, half_life=10)


def test_a_clock_that_jumps_ahead_leaves_next_to_nothing_but_no_zero():
    fading = Fading(Span(1.0, rounds=False))
    assert 0.0 < fading.step(0, 1e12) < 1e-12
    assert fading.weight(0) > 0.0


def test_thompson_sampling_believes_less_after_a_long_silence():
    """No reward comes, but time passes: what was settled is less so, though there are enough rewards to keep draws."""
    now = 0.0
    one = bandit("thompson", rank=1, residual=False, half_life="10 s", ring=2, clock=lambda: now)
    rng = np.random.default_rng(0)
    log = tb.Ledger(one.policy.shape)
    cells = rng.integers([2, 3, 2], size=(400_000, 3))
    log.add(cells, (cells == (0, 0, 0)).all(axis=1) + rng.standard_normal(400_000))
    one.policy.tell_ledger(log)

    def spread():
        draws = []
        for _ in range(60):
            one.ask(s="x")
            draws.append(one.policy._draw.at(np.array([[0, 0, 0]])).item())
        return np.std(draws)

    settled = spread()
    now = 40.0  # four half-lives: deviations are four times as large
    assert spread() > 2.0 * settled

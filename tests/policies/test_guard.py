"""The warm guard of cold play: what the posterior doubts is tried, in proportion, however sure cold play is."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.model.likelihood import Gaussian
from tensorbandits.model.sweep import Model
from tensorbandits.policies.guard import WarmGuard
from tests.policies.test_law import _UNLIKELY, half_slow, p_value, played, thompson

KNOWN, DOUBTED = (0, 0), (0, 1)  # cells of :func:`locked`


def locked(exploration: float, seed: int = 0) -> Any:
    """Thompson sampling that knows one cell well, and has seen another, which may be better, four times."""
    # As shares of decisions are compared; and all of the guard's are made by the posterior of the tensor.
    often = {"settled": 20_000, "guard_sweeps": 1.0, "apart_from": 1e9}
    told = {"noise": 1.0, "residual": False, "tuning": often}
    policy = tb.TensorThompsonSampling((2, 2), 1, exploration=exploration, seed=seed, **told)
    for cell, count, mean in ((KNOWN, 6000, 1.0), (DOUBTED, 4, 0.5), ((1, 0), 2000, 0.6), ((1, 1), 2000, 0.6)):
        policy.tell_many([cell] * count, [mean - 1.0, mean + 1.0] * (count // 2))
    return policy


def share_of(policy: Any, cell: tuple[int, ...], decisions: int) -> float:
    """The share of decisions that are for a cell, while the known one is told at its mean, so that chains sweep."""
    seen = 0
    for _ in range(decisions):
        seen += policy.ask() == cell
        policy.tell_many([KNOWN] * 10, [0.0, 2.0] * 5)
    return seen / decisions


def hold(policy: Any, share: float) -> None:
    """Have the guard make a share of the decisions, whatever it sees."""
    policy.oracle.guard.share, policy.oracle.guard.look = share, lambda *_: None


@pytest.mark.slow  # the law of the guard is held exactly below
def test_what_the_posterior_doubts_is_tried_in_proportion_to_what_it_believes():
    believed = np.mean([share_of(locked(1.0, seed), DOUBTED, 2000) for seed in range(4)])
    assert 0.1 < believed < 0.4
    tried = []
    for seed in range(4):
        policy = locked(0.05, seed)
        share_of(policy, DOUBTED, 100)  # so that there are draws of the posterior
        hold(policy, 0.0)
        assert share_of(policy, DOUBTED, 500) < 0.1 * believed
        hold(policy, 0.5)
        tried.append(share_of(policy, DOUBTED, 2000))
    assert np.mean(tried) == pytest.approx(0.5 * believed, rel=0.25)


def test_doubt_ends_when_what_was_doubted_has_been_tried():
    policy = locked(0.05)
    share_of(policy, DOUBTED, 300)
    before = policy.oracle.guard.doubt
    assert before > 0.03
    policy.tell_many([DOUBTED] * 4000, [-0.5, 1.5] * 2000)
    share_of(policy, DOUBTED, 900)
    assert policy.oracle.guard.doubt < before / 5


@pytest.mark.parametrize("context", [(), (0,)], ids=["free", "context"])
def test_doubt_is_what_the_posterior_says_that_cold_play_loses(context):
    """By the posterior levels of the second mode are worth 0, 1, 2 and 3; cold play would choose that of 2."""
    guard, ledger, rng = WarmGuard(0.25, context), tb.Ledger((2, 4)), np.random.default_rng(0)
    rows = np.array([1.0, 1.0, 0.0, 1.0, 2.0, 3.0])
    warm = Model((2, 4), (1, 1), rows, np.ones(1))
    cold = Model((2, 4), (1, 1), np.array([1.0, 1.0, 0.0, 1.0, 4.0, 3.0]), np.ones(1))
    for _ in range(20_000):
        ledger.record((1, 1), 0.0)
        guard.look(cold, warm, ledger, Gaussian(1.0, learned=False), rng)
    assert guard.cold == pytest.approx(1.0)
    assert guard.blind == pytest.approx(1.5, rel=0.05)
    assert guard.doubt == pytest.approx(2 / 3, rel=0.05)
    assert guard.share == pytest.approx(0.15)  # and no more, however much is doubted
    guard.look(cold, warm, ledger, Gaussian(1.0, learned=False), rng)  # without another reward there is nothing to see
    assert guard.looks == 20_000


@pytest.mark.parametrize(("cold", "share"), [(0.0, 0.0), (0.005, 0.005), (0.1, 0.1), (0.2, 0.15), (1.5, 0.15)])
def test_as_much_is_tried_as_is_doubted_up_to_a_share(cold, share):
    guard, ledger = WarmGuard(0.25), tb.Ledger((2,))
    ledger.record((0,), 0.0)
    flat = Model((2,), (1,), np.array([1.0, 1.0]), np.ones(1))
    guard.cold, guard.blind, guard.looks, guard.received = cold, 1.0, 10**9, 1.0 - 1e-9
    guard.look(flat, flat, ledger, Gaussian(1.0, learned=False), np.random.default_rng(0))
    assert guard.share == pytest.approx(share)


@half_slow(rank=["auto", 2], clicks=[False, True], rewards=[300, 6000], residual=[True, False])
def test_the_law_has_the_decisions_of_the_guard(rank, clicks, rewards, residual):
    policy = thompson((3, 4, 3), rewards, clicks=clicks, rank=rank, residual=residual, exploration=0.1)
    policy.oracle.guard.share = 0.6
    if rewards > 300:
        policy.ask()
    seen, said = played(policy, (), None), policy.shares()
    assert sum(said.values()) == pytest.approx(1.0)
    assert p_value(said, seen, 300) > _UNLIKELY


def test_a_law_of_recalled_draws_with_those_of_the_guard_is_exact():
    policy = thompson((9, 8, 10), 8000, rank=2, exploration=0.25)  # colder, some of the guard's draws would be new
    policy.oracle.guard.share = 0.3
    for _ in range(2):  # so that nothing was told since the last decision
        policy.ask()
    seen, said = played(policy, (), None), policy.shares()
    assert set(seen) <= set(said)
    assert p_value(said, seen, 10**9) > _UNLIKELY


def test_many_decisions_at_once_have_the_guard_too():
    policy = locked(0.05)
    share_of(policy, DOUBTED, 200)
    hold(policy, 0.5)
    found = np.mean([cell == DOUBTED for cell in policy.ask_many(4000)])
    assert found > 0.03
    assert found == pytest.approx(policy.shares()[DOUBTED], rel=0.25)


@pytest.mark.parametrize("exploration", [1.0, 2.0])
def test_the_posterior_itself_needs_no_guard(exploration):
    policy = locked(exploration)
    share_of(policy, DOUBTED, 50)
    assert policy.oracle.guard.state() == WarmGuard(1.0).state()
    assert not policy.oracle.guardian.draws


def test_a_policy_that_was_saved_goes_on_with_its_guard():
    policy = thompson((3, 4, 3), 3000, rank="auto", clicks=True, context=(0,))
    assert policy.oracle.guard.share > 0.0
    assert policy.oracle.guard.looks > 1
    again = tb.Policy.from_state_dict(policy.state_dict())
    for _ in range(300):
        cell = policy.ask((1,))
        assert again.ask((1,)) == cell
        for one in (policy, again):
            one.tell(cell, float(cell[1] == 2))
    assert again.oracle.guard.state() == policy.oracle.guard.state()


def test_a_state_from_before_there_was_a_guard_is_read():
    policy = thompson((3, 4, 3), 3000, rank=2)
    state = copy.deepcopy(policy.oracle.state())
    for name in ("guard", "guardian", "together", "unscored"):
        del state[name]
    again = tb.TensorThompsonSampling((3, 4, 3), 2, seed=0)
    again.oracle.restore(state)
    assert again.oracle.guard.share == 0.0
    assert not again.oracle.guardian.draws


@pytest.mark.parametrize(("name", "value"), [("share", 1.5), ("share", -0.1), ("looks", -1), ("cold", np.nan)])
def test_a_damaged_guard_is_refused(name, value):
    with pytest.raises(ValueError, match=f"the guard's {name}"):
        WarmGuard(1.0).restore(WarmGuard(1.0).state() | {name: value})


def test_levels_and_fading_leave_the_guard_at_work():
    policy = thompson((3, 4, 3), 3000, rank=2, clicks=True)
    policy.grow(1, 1)
    policy.fade(0.9)
    for _ in range(400):
        policy.tell(policy.ask(), 0.0)
    assert policy.oracle.guardian.draws > 0
    assert policy.oracle.guardian.shape == (3, 5, 3)
    assert 0.0 < policy.oracle.guard.share <= 0.2


def test_a_structure_that_has_all_the_others_guards_them():
    assert [str(one.candidate) for one in thompson((3, 4, 3), 9, rank="auto").oracle.samplers][-1] == "additive"
    assert str(thompson((3, 4, 3), 9, rank="auto").oracle.guardian.candidate) == "affine 2"
    assert str(thompson((3, 4, 3), 9, rank=2).oracle.guardian.candidate) == "tucker 2"
    assert str(tb.TensorThompsonSampling((3,) * 6).oracle.guardian.candidate) == "pairs"

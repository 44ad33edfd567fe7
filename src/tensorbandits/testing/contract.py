"""What asking, telling and looking promise, on any shape, rank, context and seed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from tensorbandits.ledger import Ledger
from tensorbandits.policies.saving import arguments_of
from tensorbandits.sim import TensorEnvironment
from tensorbandits.testing.case import SHAPE, Case, Skipped, fitting, play, raises, same, unchanged

_SHAPES = [(5,), (4, 3), (3, 4, 2), (3, 2, 2, 3), (1,), (1, 1), (4, 1, 3), (2,) * 6]
_CONTEXTS = [((4, 3), (0,)), ((3, 4, 2), (1,)), ((3, 4, 2), (2, 0)), ((3, 2, 2, 3), (0, 1, 3))]


def check_any_order_works(case: Case) -> None:
    """One to six modes, also of size 1: cells are valid, rewards are counted, estimates are finite."""
    for shape in _SHAPES:
        policy = case.make(shape)
        cells = play(policy, 60)
        assert policy.ledger.rounds == 60
        assert dict(Counter(cells)) == {entry.cell: entry.rounds for entry in policy.ledger}, shape
        assert len(policy.best()) == len(shape)
        estimates = policy.estimate(cells[:5])
        assert estimates.shape == (5,)
        assert np.isfinite(estimates).all(), shape


def check_context(case: Case) -> None:
    """Given levels stay as they are given, whichever modes they are of; or context is refused."""
    for shape, context in _CONTEXTS:
        if not case.takes_context:
            refused = case.takes("context")
            error, match = (ValueError, r"takes no context.*TensorThompsonSampling") if refused else (TypeError, "")
            with raises(error, match):
                case.make(shape, context=context)
            continue
        policy = case.make(shape, context=context)
        play(policy, 60)
        levels = tuple(shape[j] - 1 for j in context)
        assert tuple(policy.best(levels)[j] for j in context) == levels, (shape, context)


def check_ranks(case: Case) -> None:
    """Every way to give a rank works."""
    if not case.takes("rank"):
        raise Skipped("this policy has no rank")
    for rank in (1, 3, (2, 2, 1), "auto"):
        policy = case.make((4, 5, 3), rank=rank)
        play(policy, 80)
        assert np.isfinite(policy.estimate([(0, 0, 0)])).all(), rank


def check_a_seed_decides_everything(case: Case) -> None:
    """The same seed, a number or a ``SeedSequence``, gives the same cells."""
    assert play(case.make(SHAPE, seed=3), 80) == play(case.make(SHAPE, seed=3), 80)
    one, two = (case.make(SHAPE, seed=np.random.SeedSequence(5)) for _ in range(2))
    assert play(one, 30) == play(two, 30)


def check_looking_changes_nothing(case: Case) -> None:
    """``best`` and ``estimate`` leave the state, and all decisions to come, as they were."""
    plain, looked_at = case.make(SHAPE), case.make(SHAPE)
    expected = play(plain, 40) + play(plain, 40, seed=2)
    cells = play(looked_at, 40)
    with unchanged(looked_at):
        looked_at.best()
        looked_at.estimate([(0, 0, 0), (1, 1, 1)])
    assert cells + play(looked_at, 40, seed=2) == expected


def check_a_batch_equals_one_by_one(case: Case) -> None:
    """``ask_many`` and ``tell_many`` do what asking and telling one by one does."""
    context = (1,) if case.takes_context else ()
    one, many = case.make(SHAPE, context=context), case.make(SHAPE, context=context)
    rng = np.random.default_rng(0)
    for size in (1, 7, 30, 3, 50):
        levels = [tuple(int(rng.integers(SHAPE[j])) for j in context) for _ in range(size)]
        cells = [one.ask(row) for row in levels]
        assert many.ask_many(levels if context else size) == cells
        rewards = [fitting(one, reward) for reward in rng.standard_normal(size)]
        for cell, reward in zip(cells, rewards, strict=True):
            one.tell(cell, reward)
        many.tell_many(cells, rewards)
    assert same(one.state_dict(), many.state_dict())


def check_late_lost_and_unordered_rewards(case: Case) -> None:
    """Rewards may come late, in any order, or never; with none at all there still are decisions."""
    policy = case.make(SHAPE)
    cells = play(policy, 150, delay=20, lose=0.2)
    assert 0 < policy.ledger.rounds < 135
    assert len(cells) == 150
    silent = case.make(SHAPE)
    assert len(play(silent, 40, lose=1.0)) == 40
    assert silent.ledger.rounds == 0
    assert len(silent.best()) == 3


def check_rewards_that_were_never_asked_for_are_kept(case: Case) -> None:
    """Rewards of cells that nobody asked for are in the ledger."""
    policy = case.make(SHAPE)
    policy.tell((1, 1, 1), 2.0)
    policy.tell_many([(0, 0, 0), (1, 1, 1)], [1.0, 3.0])
    assert policy.ledger[1, 1, 1].total == 5.0
    play(policy, 30)
    assert policy.ledger.rounds == 33


def check_trials_are_rewards_of_one_and_zero(case: Case) -> None:
    """Successes out of trials, one by one or many at once, add up to what the single outcomes would."""
    if not case.trials:
        raise Skipped("successes out of trials say too little to this policy")
    policy, many, single = case.make(SHAPE), case.make(SHAPE), Ledger(SHAPE)
    told = [((0, 0, 0), 2, 5), ((1, 1, 1), 0, 3), ((0, 0, 0), 4, 4), ((2, 3, 1), 1, 1)]
    for cell, successes, trials in told:
        policy.tell(cell, successes, trials=trials)
        single.add([cell] * trials, [1.0] * successes + [0.0] * (trials - successes))
    many.tell_many(*([row[column] for row in told] for column in (0, 1)), trials=[row[2] for row in told])
    assert policy.ledger == many.ledger == single
    np.testing.assert_allclose(policy.ledger.within, single.within, atol=1e-12)
    assert same(policy.state_dict(), many.state_dict())
    play(policy, 30)
    assert policy.ledger.rounds == 43


def check_constant_rewards(case: Case) -> None:
    """Rewards that are all alike, of any size, give finite estimates."""
    for value in (0.0, 5.0, -1e9, 1e-9):
        policy = case.make(SHAPE)
        for _ in range(80):
            policy.tell(policy.ask(), fitting(policy, value))
        assert np.isfinite(policy.estimate([policy.best()])).all(), value


def check_tiny_and_huge_rewards(case: Case) -> None:
    """Tiny and huge rewards give finite estimates."""
    for scale in (1e-9, 1e9):
        policy = case.make(SHAPE)
        play(policy, 120, scale=scale)
        assert np.isfinite(policy.estimate([policy.best()])).all(), scale


def check_the_unit_of_rewards_does_not_matter(case: Case) -> None:
    """Multiplying all rewards by a power of two, which is exact, does not change a single choice."""
    if not case.scale_free:
        raise Skipped("this policy takes rewards as they are")
    expected = play(case.make(SHAPE), 120)
    for power in (-30, 30):
        assert play(case.make(SHAPE), 120, scale=2.0**power) == expected, power


def check_the_papers_values(case: Case) -> None:
    """``paper`` makes the policy with the values of the paper it comes from."""
    if not case.record.has_paper:
        raise Skipped("the paper has no values for this policy")
    settings: dict[str, Any] = {"rank": 2} if case.takes("rank") else {}
    policy = case.record.make((4, 4, 3), seed=0, horizon=4000, paper=True, **settings)
    play(policy, 60)
    assert policy.ledger.rounds == 60


def check_a_policy_and_a_world_of_the_same_seed_share_no_numbers(case: Case) -> None:
    """Else a policy could start from the true factors, or explore in step with the contexts."""
    policy = case.make((5, 5, 5), seed=0)
    world = TensorEnvironment(np.zeros((5, 5, 5)), context=(0,), seed=0)
    streams = [np.random.default_rng(0), world._context_rng, world._reward_rng]
    kind = type(policy)
    fresh = kind(**arguments_of(policy), seed=0)._rng.random(200)
    for rng in streams:
        assert not set(fresh) & set(rng.random(500))

"""What is learned: the best cell of easy problems, also from late and few rewards, and far from 0."""

from __future__ import annotations

import numpy as np

from tensorbandits.tensor.tucker import Floats
from tensorbandits.testing.case import Case, Skipped, fitting, play

_EASY = 3.0 * np.multiply.outer([0.2, 1.0, -0.5, 0.1], [0.3, 1.2, -1.0])
_SMALL = np.array([[0.0, 1.0], [0.5, 3.0]])
_SEEDS = 8
_FAR = 1e9


def check_far_more_observations_than_cells(case: Case) -> None:
    """Thousands of rewards of four cells leave no doubt."""
    policy = case.make((2, 2), horizon=4000)
    rng = np.random.default_rng(0)
    cells = rng.integers(2, size=(3000, 2))
    rewards = _SMALL[tuple(cells.T)] + rng.standard_normal(3000)
    policy.tell_many(cells, [fitting(policy, reward) for reward in rewards])
    assert play(policy, 50, mean=_SMALL)
    if case.learns_from_logs:
        assert policy.best() == (1, 1)


def check_it_learns(case: Case) -> None:
    """After many rounds on an easy problem, the cell believed best is a good one, and good cells are played."""
    _learns(case, _EASY, 0.5)


def check_it_learns_far_from_zero(case: Case) -> None:
    """The same when all means are a thousand million times the noise."""
    if not case.centred:
        raise Skipped("this policy takes it that means are near 0")
    _learns(case, _EASY, 1.0, _FAR)


def _learns(case: Case, mean: Floats, noise: float, offset: float = 0.0) -> None:
    policy = case.make(mean.shape, rank=1, horizon=case.rounds)
    cells = play(policy, case.rounds, mean=mean + offset, noise=noise)
    assert mean[policy.best()] > 0.8 * mean.max(), f"{policy.best()} is believed best"
    late = np.mean([mean[cell] for cell in cells[-100:]])
    assert late > case.share * mean.max(), f"the last 100 rounds earn {late:.3g} on average of {mean.max():.3g}"


def check_late_rewards_are_learned(case: Case) -> None:
    """Rewards that come a hundred rounds late: of four cells most seeds find the best."""
    _finds_the_best(case, rounds=800, delay=100, lose=0.0)


def check_few_rewards_are_learned(case: Case) -> None:
    """The same when three of a hundred rewards are told."""
    _finds_the_best(case, rounds=max(2500, 2 * case.rounds), delay=0, lose=0.97)


def _finds_the_best(case: Case, rounds: int, delay: int, lose: float) -> None:
    if not case.patient:
        raise Skipped("this policy ends its exploration when its asks, not its rewards, are enough")
    found = 0
    for seed in range(_SEEDS):
        policy = case.make((2, 2), rank=1, seed=seed, horizon=rounds)
        play(policy, rounds, mean=_SMALL, seed=100 + seed, delay=delay, lose=lose)
        found += policy.best() == (1, 1)
    # By chance a quarter would. One that locks onto what it saw first, or stops to explore, does little better.
    assert found > _SEEDS / 2, f"{found} of {_SEEDS} seeds found the best of four cells"

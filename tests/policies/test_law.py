"""What ``propensity`` and ``shares`` say is how often copies of the policy, each with another seed, play a cell."""

from __future__ import annotations

import copy
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tensorbandits as tb

_COPIES = 300
_DRAWS = 300
_UNLIKELY = 1e-4  # of a law that is right to fail a test


def thompson(shape: tuple[int, ...], rewards: int, *, clicks: bool = False, **settings: Any) -> tb.Policy:
    """Return Thompson sampling that was told of many random cells, and has decided since."""
    kind = "bernoulli" if clicks else "gaussian"
    return trained(tb.TensorThompsonSampling(shape, reward=kind, draws=_DRAWS, seed=1, **settings), rewards, clicks)


def trained(policy: Any, rewards: int, clicks: bool = False) -> Any:
    """Tell a policy many rewards, hardly more of one cell than of another, and play sixty rounds."""
    rng, mean = np.random.default_rng(2), np.ones(())
    for size in policy.shape:
        mean = np.multiply.outer(mean, 0.6 + 0.1 * rng.random(size))

    def paid(cells: np.ndarray) -> np.ndarray:
        means = mean[tuple(cells.T)]
        return (rng.random(len(cells)) < means) * 1.0 if clicks else means + 0.5 * rng.standard_normal(len(cells))

    cells = np.stack([rng.integers(size, size=rewards) for size in policy.shape], axis=1)
    policy.tell_many(cells, paid(cells))
    for _ in range(60):
        cell = policy.ask([int(rng.integers(policy.shape[j])) for j in policy.context])
        policy.tell(cell, paid(np.array([cell]))[0])
    return policy


def played(policy: Any, levels: tuple[int, ...], allowed: Any, copies: int = _COPIES) -> Counter:
    """Return how many copies of a policy, each with another seed, play each cell next.

    It is called before ``shares``, which keeps the hundreds of draws that it made: copying those takes longer than
    all the rest.
    """
    seen: Counter = Counter()
    for seed in range(copies):
        twin = copy.deepcopy(policy)
        twin.reseed(10_000 + seed)
        seen[twin.ask(levels, allowed)] += 1
    return seen


def p_value(said: dict[Any, float], seen: Counter, draws: float) -> float:
    """Return the p-value of frequencies, given a law that was found from so many draws; rare cells are one."""
    copies = seen.total()
    pairs = [(said.get(cell, 0.0), seen[cell] / copies) for cell in set(said) | set(seen)]
    common = [pair for pair in pairs if sum(pair) / 2 * copies >= 5]
    rare = tuple(1.0 - sum(pair[k] for pair in common) for k in (0, 1))
    pairs = [*common, rare] if max(rare) * copies >= 5 else common
    statistic = sum((a - b) ** 2 / ((a + b) / 2 * (1 / copies + 1 / draws)) for a, b in pairs)
    return float(stats.chi2.sf(statistic, max(len(pairs) - 1, 1)))


def half_slow(**values: list[Any]) -> Any:
    """Parametrise by all combinations; half of them, with every three of the values, are in ``make test``."""
    return pytest.mark.parametrize(
        list(values),
        [
            pytest.param(*(value for _, value in one), marks=pytest.mark.slow if sum(i for i, _ in one) % 2 else ())
            for one in product(*(enumerate(some) for some in values.values()))
        ],
    )


@half_slow(rank=["auto", 2], clicks=[False, True], rewards=[200, 6000], context=[(), (0,)])
def test_the_law_of_thompson_sampling_is_what_copies_play(rank, clicks, rewards, context):
    policy = thompson((3, 4, 3), rewards, clicks=clicks, rank=rank, context=context)
    policy.forbid({1: 0, 2: 1})
    levels, allowed = (1,) * len(context), {2: [0, 1]} if context else None
    seen, said = played(policy, levels, allowed), policy.shares(levels, allowed)
    assert sum(said.values()) == pytest.approx(1.0)
    assert all(allowed is None or cell[2] in (0, 1) for cell in said)
    assert p_value(said, seen, _DRAWS) > _UNLIKELY


@pytest.mark.parametrize("clicks", [False, True], ids=["normal", "clicks"])
def test_a_law_of_recalled_draws_is_exact(clicks):
    """Where the next decision is made from one of the last draws, all cells that it can return are known."""
    policy = thompson((9, 8, 10), 8000, clicks=clicks, rank=2, exploration=1.0)
    policy.ask()  # so that nothing was told since the last decision
    seen, said = played(policy, (), None), policy.shares()
    assert {round(16 * chance, 9) for chance in said.values()} <= set(range(1, 17))
    assert set(seen) <= set(said)
    assert p_value(said, seen, 10**9) > _UNLIKELY


def test_what_is_recalled_is_known_where_structures_decide_side_by_side():
    policy = thompson((9, 8, 10), 8000, rank="auto")
    policy.ask()
    seen, said = played(policy, (), None), policy.shares()
    assert p_value(said, seen, 10**9) > _UNLIKELY


def test_saying_the_law_changes_nothing():
    policy = thompson((3, 4, 3), 6000, rank="auto")
    twin = copy.deepcopy(policy)
    policy.shares()
    assert policy.propensity(policy.best()) >= 0.0
    assert [policy.ask() for _ in range(20)] == [twin.ask() for _ in range(20)]


@pytest.mark.parametrize("rewards", [200, 5000])
def test_the_law_of_an_ensemble_is_what_copies_play(rewards):
    policy = trained(tb.TensorEnsembleSampling((3, 4, 3), 2, ensemble_size=40, context=(0,), seed=1), rewards)
    policy.forbid({1: 0, 2: 1})
    seen, said = played(policy, (1,), {2: [0, 1]}), policy.shares((1,), {2: [0, 1]})
    assert p_value(said, seen, _DRAWS) > _UNLIKELY


def test_the_law_of_an_oracle_that_keeps_state_is_that_of_its_next_draw():
    class Walk:
        """Moves one step to either side."""

        at = 2

        def __call__(self, ledger, rng):
            self.at += int(rng.integers(2)) * 2 - 1
            return np.eye(5)[self.at]

    policy = tb.ApproximateThompsonSampling((5,), Walk(), draws=400, seed=0)
    said = policy.shares()
    assert set(said) == {(1,), (3,)}
    assert said[1,] == pytest.approx(0.5, abs=0.1)

"""Which policy to use for a problem, and why; the limits are those of the policies themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from tensorbandits.base.checks import Cell, Rank, check_context, check_count, check_shape, resolve_rank
from tensorbandits.model.rewards import Reward
from tensorbandits.policies.approximate import SLOW_CORE
from tensorbandits.policies.base import Policy
from tensorbandits.policies.cost import Workload, words
from tensorbandits.policies.elimination import SLOW_INSIDE
from tensorbandits.policies.registry import find
from tensorbandits.theory import exploration_rounds, initial_rounds, inside_coordinates

Goal = Literal["regret", "guarantee", "compute"]


@dataclass(frozen=True)
class Recommendation:
    """A policy's class name, the reason with its numbers, other reasonable choices, and how to construct it.

    It stands for the policy wherever a policy's name is taken, and :meth:`make` makes it. ``microseconds`` is about
    what a reward costs, from ``ask`` to ``tell``, on one core of a cloud server, on average over the horizon (suite
    ``cost`` of the benchmarks says how far that is off), or ``None`` where nothing is known of it.

    >>> advice = recommend((15, 15, 15), 2, horizon=10_000)
    >>> advice.policy, advice.arguments
    ('TensorThompsonSampling', {'shape': (15, 15, 15), 'rank': 2, 'context': ()})
    >>> advice.microseconds < recommend((15, 15, 15), 2, horizon=10_000, reward="bernoulli").microseconds
    True
    """

    policy: str
    reason: str
    alternatives: tuple[str, ...]
    arguments: dict[str, Any]
    microseconds: float | None = None

    def make(self, seed: int | np.random.SeedSequence | None = None) -> Policy:
        """Return the policy itself.

        >>> recommend((15, 15, 15), 2, horizon=10_000).make(seed=0).shape
        (15, 15, 15)
        """
        return find(self).make(**self.arguments, seed=seed)


def recommend(
    shape: Sequence[int],
    rank: Rank,
    horizon: int,
    context: Sequence[int] = (),
    *,
    goal: Goal = "regret",
    reward: Reward = "gaussian",
) -> Recommendation:
    """Which policy to use, and why.

    ``context`` holds the positions of the modes that are given rather than chosen. ``goal`` is what matters
    most: the lowest ``"regret"``; a frequentist ``"guarantee"`` that rests on no prior; or the least
    ``"compute"`` per round. Where the goal cannot be had, the reason says so. With ``rank="auto"`` the
    numbers are those of rank 2. ``reward`` is what kind of rewards there are, as for
    :class:`TensorThompsonSampling`; of clicks, and of revenue, one in twenty is taken to be above 0.

    >>> recommend((15, 15, 15), 2, horizon=10_000, goal="guarantee").policy
    'TensorElimination'
    >>> recommend((10,), 1, horizon=10_000).policy
    'VectorizedUCB'
    >>> recommend((20, 7, 20), "auto", horizon=500, context=(0, 1)).alternatives
    ('TensorEnsembleSampling', 'TensorEpochGreedy')
    """
    sizes = check_shape(shape)
    automatic = resolve_rank(rank, sizes) is None
    ranks = resolve_rank(2 if automatic else rank, sizes)
    assert ranks is not None
    n = check_count(horizon, "horizon")
    modes = check_context(context, sizes)
    if goal not in get_args(Goal):
        raise ValueError(f"goal is {goal!r}; choose one of {', '.join(map(repr, get_args(Goal)))}")
    if reward not in get_args(Reward):
        raise ValueError(f"reward is {reward!r}; choose one of {', '.join(map(repr, get_args(Reward)))}")

    problem = _Problem(sizes, ranks, modes, n, small_core=automatic or math.prod(ranks) <= SLOW_CORE)
    policy, why = _pick(problem, goal)
    arguments: dict[str, Any] = {"shape": sizes, "rank": rank, "context": modes}
    record = find(policy)
    if not record.takes("rank"):
        del arguments["rank"]
    if reward != "gaussian" and record.takes("reward"):
        arguments["reward"] = reward
    if policy == "TensorElimination":  # Theorem 1 holds for its own values only, not for our defaults
        arguments |= {"horizon": n, "confidence": "theory", "reuse_data": False, "lambda_1": 1.0 / problem.cells}
    at_rank = " at rank 2" if automatic else ""
    numbers = f"{problem.cells} cells, {problem.parameters} low-rank parameters{at_rank}, horizon {n}"
    alternatives = tuple(name for name, fit in problem.fits.items() if fit and name != policy)
    cost = record.microseconds(Workload(sizes, n, rank, modes, reward))
    takes = "" if cost is None else f" A reward takes about {words(cost)} of one core."
    return Recommendation(policy, f"{numbers}: {why}.{takes}", alternatives, arguments, cost)


@dataclass(frozen=True)
class _Problem:
    """The numbers that decide which policies fit a problem."""

    sizes: Cell
    ranks: Cell
    context: Cell
    n: int
    small_core: bool  # small enough to be sampled each round

    @property
    def cells(self) -> int:
        return math.prod(self.sizes)

    @property
    def parameters(self) -> int:
        return sum(size * r for size, r in zip(self.sizes, self.ranks, strict=True)) + math.prod(self.ranks)

    @property
    def gain(self) -> bool:
        """Whether low rank saves anything to speak of."""
        return 2 * self.parameters <= self.cells

    @property
    def often(self) -> bool:
        """Whether the horizon tries every cell many times."""
        return self.n >= 10 * self.cells and self._can("ucb")

    @property
    def fits(self) -> dict[str, bool]:
        """Which policies make sense and can be made."""
        needed = _elimination_needs(self.sizes, self.ranks, self.n)[1]
        return {
            "TensorThompsonSampling": self.small_core,
            "TensorEnsembleSampling": self.gain and self.small_core,
            "TensorElimination": self.gain and not self.context and self.n >= needed and self._quick_elimination,
            "TensorEpochGreedy": self.gain and self.n > initial_rounds(self.sizes, self.ranks),
            "VectorizedUCB": self.cells <= self.n and self._can("ucb"),
        }

    @property
    def _quick_elimination(self) -> bool:
        """Whether elimination can be made, and closes a phase within seconds."""
        q = inside_coordinates(self.sizes, self.ranks)
        return self._can("elimination") and (q <= SLOW_INSIDE or q == self.cells)

    def _can(self, policy: str) -> bool:
        """Whether a policy can be made at this size."""
        return find(policy).refusal(self.sizes, self.ranks) is None


def _pick(problem: _Problem, goal: Goal) -> tuple[str, str]:
    """Return the policy and why."""
    fits, s_1 = problem.fits, initial_rounds(problem.sizes, problem.ranks)
    explored, needed = _elimination_needs(problem.sizes, problem.ranks, problem.n)
    if sum(size > 1 for size in problem.sizes) <= 1 and fits["VectorizedUCB"]:
        return "VectorizedUCB", "a single mode has no low-rank structure to use"
    if problem.often and not problem.gain:
        return "VectorizedUCB", "low rank saves too little, and the horizon tries every cell often"
    if goal == "guarantee" and fits["TensorElimination"]:
        return "TensorElimination", (
            "with the theory's values it has a frequentist guarantee without a prior, at the price of regret, and the "
            f"horizon is longer than its {explored} uniform rounds (if means are of size about 1) and than twice its "
            f"q = {inside_coordinates(problem.sizes, problem.ranks)} coordinates"
        )
    if goal == "guarantee" and problem.often:
        return "VectorizedUCB", "it has a guarantee, and the horizon tries every cell often"
    if not problem.small_core:
        return "TensorEpochGreedy", f"a core of {math.prod(problem.ranks)} entries is too large to sample each round"
    if goal == "compute" and fits["TensorEpochGreedy"]:
        return "TensorEpochGreedy", f"it works least per round, after {s_1} uniform rounds"
    why = "it had the lowest mean regret on the paper's problem, and needs neither horizon, noise nor rank"
    if not problem.gain:
        why = "low rank saves little, but its prior lets it settle before it has tried every cell often"
    if goal == "guarantee":
        why += f"; the guarantee of TensorElimination needs a low rank, no context, {needed} rounds"
    if goal == "compute":
        why += f"; TensorEpochGreedy is cheaper but needs a low rank and more than {s_1} rounds"
    return "TensorThompsonSampling", why


def _elimination_needs(sizes: Cell, ranks: Cell, n: int) -> tuple[int, int]:
    """Uniform rounds of tensor elimination, and the least horizon at which it is worth its exploration."""
    # Cells of size about 1 and equal singular values: the only guess possible before any data.
    sigma = [math.sqrt(math.prod(sizes) / r) for r in ranks]
    explored = initial_rounds(sizes, ranks) + exploration_rounds(sizes, ranks, n, sigma)
    # The last phase has about half of the rounds: with n = 2q, one for each inside coordinate.
    return explored, max(explored + 1, 2 * inside_coordinates(sizes, ranks))

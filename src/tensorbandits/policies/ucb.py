"""Vectorized UCB, the baseline that ignores all structure: UCB1 over single combinations (the paper's section 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell, Rank, check_array, check_positive
from tensorbandits.policies.base import Policy
from tensorbandits.policies.query import Query
from tensorbandits.policies.traits import Traits

Floats = NDArray[np.float64]

_CELLS = 10**8  # at most
_LEAST = 1e-12  # a count that is this small fades no further


class VectorizedUCB(Policy):
    """UCB1 over all combinations as unrelated arms, with one table per context cell.

    Each arm is pulled once first, in index order; then the arm of largest
    ``mean + scale * sqrt(2 log t / N)`` is played, ties to the lowest index. An arm whose reward has not come is tried
    again, but never in more than the square root of the rounds: a broken arm cannot capture the traffic.

    Parameters
    ----------
    shape, context, seed : as for every policy. The policy draws nothing at random.
    scale : multiplies the bonus. UCB1 and the paper use 1, right for rewards within [0, 1] or noise of
        standard deviation up to about 1; give the spread of your rewards otherwise.

    >>> policy = VectorizedUCB((2, 3), context=(0,))
    >>> [policy.ask((1,)) for _ in range(3)]
    [(1, 0), (1, 1), (1, 2)]
    """

    traits = Traits(grows=True, fades=True, deterministic=True)

    def __init__(
        self,
        shape: Sequence[int],
        *,
        context: Sequence[int] = (),
        scale: float = 1.0,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        super().__init__(shape, context=context, seed=seed)
        self.scale = check_positive(scale, "scale")
        if (why := self.refusal(self.shape)) is not None:
            raise ValueError(why)
        self._tables = np.zeros((3, *self.shape))  # pulls issued, rewards told, their sum
        self._bounds = np.zeros((2, *self.shape))  # mean reward, and 1 over the root of how many were told

    @classmethod
    def refusal(cls, shape: Sequence[int], rank: Rank = "auto") -> str | None:
        """Return why there are too many cells, or ``None``."""
        if (cells := math.prod(shape)) <= _CELLS:
            return None
        return (
            f"{cells:.3g} cells are too many for VectorizedUCB, which keeps a number for each and plays each once (at "
            f"most {_CELLS:.0e}); use TensorThompsonSampling, which exploits low rank"
        )

    @classmethod
    def paper(cls, shape: Sequence[int], **arguments: Any) -> Self:
        """Return the policy with the paper's values, which are the defaults."""
        return cls(shape, **({"scale": 1.0} | arguments))

    def _choose(self, query: Query, rng: np.random.Generator) -> Cell:
        issued, told, mean, root = (
            table[query.slices].ravel() for table in (self._tables[0], self._tables[1], *self._bounds)
        )
        allowed = query.mask()
        arms = None if allowed is None else np.flatnonzero(allowed)
        if arms is not None:
            issued, told, mean, root = issued[arms], told[arms], mean[arms], root[arms]
        arm = self._pick(issued, told, mean, root)
        return query.cell(arm if arms is None else int(arms[arm]))

    def _issue(self, cell: Cell, note: Any) -> None:
        self._tables[(0, *cell)] += 1

    def _pick(self, issued: Floats, told: Floats, mean: Floats, root: Floats) -> int:
        """Return the arm to play, of those whose numbers are given."""
        first = int(issued.argmin())
        if issued[first] == 0 and told[first] == 0:
            return first
        rounds = float(told.sum())
        if rounds == 0:
            return first
        if told.min() == 0:
            waiting = np.where((told == 0) & (issued**2 <= issued.sum()), issued, np.inf)
            if waiting[arm := int(waiting.argmin())] < np.inf:
                return arm
            mean = np.where(told > 0, mean, -np.inf)
        # After fading there may be less than one round.
        return int((mean + self.scale * math.sqrt(2.0 * math.log(max(rounds, 1.0))) * root).argmax())

    def _observe(self, cell: Cell, count: float, total: float, note: Any) -> None:
        told = self._tables[(1, *cell)] + count
        total = self._tables[(2, *cell)] + total
        self._tables[(1, *cell)], self._tables[(2, *cell)] = told, total
        self._bounds[(0, *cell)], self._bounds[(1, *cell)] = total / told, 1.0 / math.sqrt(told)

    def _correct(self, cell: Cell, old: float, new: float, note: Any, weight: float) -> None:
        self._observe(cell, 0.0, weight * (new - old), note)

    def _fade(self, factor: float) -> None:
        self._tables[1:] *= np.where(self._tables[1] > _LEAST, factor, 1.0)
        self._bound()

    def _bound(self) -> None:
        """Make the table of means and roots anew."""
        _, told, total = self._tables
        seen = np.where(told > 0, told, 1.0)
        self._bounds = np.array([total / seen, (told > 0) / np.sqrt(seen)])

    def _grow(self, shape: Cell) -> None:
        wider = [(0, 0), *((0, new - old) for new, old in zip(shape, self.shape, strict=True))]
        self._tables = np.pad(self._tables, wider)
        self._bound()

    def _best(self, query: Query) -> Cell:
        means = self._means(self._tables[(slice(None), *query.slices)]).ravel()
        allowed = query.mask()
        return query.cell(int((means if allowed is None else np.where(allowed, means, -np.inf)).argmax()))

    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._means(self._tables[(slice(None), *cells.T)])

    def _means(self, tables: NDArray[np.float64]) -> NDArray[np.float64]:
        """Cell means; an arm never seen gets the mean of all rewards."""
        _, told, total = tables
        return np.where(told > 0, total / np.where(told > 0, told, 1.0), self._ledger.mean)

    def _state(self) -> dict[str, Any]:
        return {"tables": self._tables.copy()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._tables = check_array(state["tables"], "the tables", self._tables.shape)
        if (self._tables[:2] < 0).any():
            raise ValueError("the tables have counts below 0")
        self._bound()

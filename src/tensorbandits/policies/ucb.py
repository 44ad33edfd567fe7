"""Vectorized UCB: the baseline that ignores all structure (the paper's section 5; UCB1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.checks import Cell, Rank, check_positive
from tensorbandits.policies.base import Policy

_CELLS = 10**8  # at most


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
        self._arms: Cell = tuple(self.shape[j] for j in self.decided)
        self._tables = np.zeros((3, *self.shape))  # pulls issued, rewards told, their sum

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

    def _choose(self, levels: Cell) -> Cell:
        issued, told, total = (table[self._index(levels)].ravel() for table in self._tables)
        silent = np.flatnonzero((told == 0) & (issued**2 <= told.sum()))
        if silent.size:
            arm = int(silent[issued[silent].argmin()])
        elif not told.any():
            arm = int(issued.argmin())
        else:
            seen = np.maximum(told, 1)
            bound = total / seen + self.scale * np.sqrt(2.0 * np.log(told.sum()) / seen)
            arm = int(np.where(told > 0, bound, -np.inf).argmax())
        cell = self._cell(levels, arm)
        self._tables[(0, *cell)] += 1
        return cell

    def _observe(self, cell: Cell, reward: float) -> None:
        self._tables[(1, *cell)] += 1
        self._tables[(2, *cell)] += reward

    def _best(self, levels: Cell) -> Cell:
        means = self._means(self._tables[(slice(None), *self._index(levels))])
        return self._cell(levels, int(means.argmax()))

    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._means(self._tables[(slice(None), *cells.T)])

    def _means(self, tables: NDArray[np.float64]) -> NDArray[np.float64]:
        """Cell means; an arm never seen gets the mean of all rewards."""
        _, told, total = tables
        return np.where(told > 0, total / np.maximum(told, 1), self.ledger.mean)

    def _index(self, levels: Cell) -> tuple[int | slice, ...]:
        fixed = self._fixed(levels)
        return tuple(fixed.get(j, slice(None)) for j in range(len(self.shape)))

    def _cell(self, levels: Cell, arm: int) -> Cell:
        fixed = self._fixed(levels) | dict(zip(self.decided, np.unravel_index(arm, self._arms), strict=True))
        return tuple(int(fixed[j]) for j in range(len(self.shape)))

    def _state(self) -> dict[str, Any]:
        return {"tables": self._tables.copy()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._tables = np.array(state["tables"], dtype=np.float64)

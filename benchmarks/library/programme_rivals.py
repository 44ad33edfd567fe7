"""Plain models of revenue on main effects, as teams write them: what the suite ``programme`` compares with."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import expit

from benchmarks.paper.logistic import LogisticThompson
from benchmarks.paper.worlds import Floats
from tensorbandits.base.checks import Cell

_FIT = 20  # rewards from one fit to the next
_SHRINK = 10.0  # purchases at the mean price that a level is believed to have had


class LinearThompson:
    """Linear Thompson sampling: normal rewards about a constant and one effect per level of each mode, ridge 1."""

    def __init__(self, shape: Cell) -> None:
        self.shape, self.heads = shape, 1 + np.cumsum([0, *shape])
        size = int(self.heads[-1])
        self._H, self._b = np.eye(size), np.zeros(size)
        self._count, self._sums = 0, np.zeros(2)  # of rewards and of their squares
        self._mean, self._factor = np.zeros(size), np.eye(size)

    def tell(self, cell: Cell, reward: float) -> None:
        """Learn a reward."""
        at = np.array([0, *(head + level for head, level in zip(self.heads, cell, strict=False))])
        self._H[np.ix_(at, at)] += 1.0
        self._b[at] += reward
        self._count += 1
        self._sums += reward, reward**2
        if self._count % _FIT == 0:
            self._factor = cholesky(self._H, lower=True)
            self._mean = cho_solve((self._factor, True), self._b)

    def values(self, levels: Cell, rng: np.random.Generator) -> Floats:
        """Return a draw of the mean rewards of all arms given the levels of the first modes."""
        mean, square = self._sums / max(self._count, 1)
        noise = np.sqrt(max(square - mean**2, 0.0)) if self._count else 1.0
        drawn = noise * rng.standard_normal(len(self._mean))
        effects = self._mean + solve_triangular(self._factor, drawn, lower=True, trans="T")
        return main_effects(effects, self.heads, self.shape, levels)


def main_effects(effects: Floats, heads: Floats, shape: Cell, levels: Cell) -> Floats:
    """Return the sums of a constant and main effects of all arms, given the levels of the first modes."""
    result = np.asarray(effects[0] + sum(effects[head + level] for head, level in zip(heads, levels, strict=False)))
    for mode in range(len(levels), len(shape)):
        result = result[..., None] + effects[heads[mode] : heads[mode + 1]]
    return result


class LogisticPrices:
    """Logistic Thompson sampling of purchases on main effects, times prices.

    The price of a cell is the mean amount, times for each level of a decided mode the mean amount there beside it.
    """

    def __init__(self, shape: Cell, given: int = 3) -> None:
        self.shape, self.given = shape, given
        self._purchases = LogisticThompson(shape, context=range(given), pairs=False, seed=0)
        self._sums = [np.zeros((2, size)) for size in shape[given:]]  # purchases and amounts of each level
        grids = np.meshgrid(*map(np.arange, shape[given:]), indexing="ij")
        self._arms = np.stack([grid.ravel() for grid in grids], axis=1)

    def tell(self, cell: Cell, reward: float) -> None:
        """Learn a reward."""
        self._purchases.tell(cell, float(reward > 0.0))
        if reward > 0.0:
            for sums, level in zip(self._sums, cell[self.given :], strict=True):
                sums[:, level] += 1.0, reward

    def values(self, levels: Cell, rng: np.random.Generator) -> Floats:
        """Return a draw of the mean rewards of all arms given the levels of the first modes."""
        given = np.tile(levels, (len(self._arms), 1))
        logits = self._purchases.draw(rng).at(np.hstack([given, self._arms]))
        result = np.asarray(expit(logits)).reshape(self.shape[self.given :])
        count, total = self._sums[0].sum(axis=1)
        mean = total / count if count else 1.0
        for mode, (counts, totals) in enumerate(self._sums):
            each = (totals + _SHRINK * mean) / (counts + _SHRINK) / mean
            result = result * each.reshape([-1 if j == mode else 1 for j in range(len(self._sums))])
        return result * mean

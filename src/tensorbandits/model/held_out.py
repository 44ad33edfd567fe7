"""Rewards dealt at random into parts: what a model learns from, and what it is then asked to predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorbandits.base.checks import Cell
from tensorbandits.ledger import Ledger
from tensorbandits.model.counts import estimate_dispersion
from tensorbandits.tensor.tucker import Floats, Ints

_MOST_DRAWN = 10**9  # rewards that NumPy draws from without replacement
_MOST_IN_ALL = 2**62  # whole numbers of a cell, added up
_STAND_INS = 32  # distinct values that stand for the rewards of one cell


class Rewards(NamedTuple):
    """Single rewards, each cell's distinct values with how often they occur.

    ``cells`` (m, d) are sorted and may occur several times, with ``values`` (m,) and ``counts`` (m,).
    """

    shape: Cell
    cells: Ints
    values: Floats
    counts: Ints

    @classmethod
    def of(cls, ledger: Ledger, rng: np.random.Generator, *, whole_numbers: bool = False) -> Rewards:
        """Return single rewards that have the sums of a ledger, which holds no more of them than these.

        If they are zeros and ones, they are known. Otherwise they are drawn as normal rewards are, or as negative
        binomial ones if they are ``whole_numbers``, given their sums, and cells that have many get a few values
        instead, each several times, with the same mean. What has faded counts as the nearest whole number of rewards.

        >>> ledger = Ledger((2, 2)); ledger.add([(1, 1), (0, 1), (1, 1)], [1.0, 0.0, 0.0])
        >>> rewards = Rewards.of(ledger, np.random.default_rng(0))
        >>> rewards.values.tolist(), rewards.counts.tolist()
        ([0.0, 0.0, 1.0], [1, 1, 1])
        """
        order = ledger.order
        whole = np.rint(ledger.counts).astype(np.int64)
        order = order[whole[order] > 0]
        cells, N = ledger.cells[order], whole[order]
        totals = ledger.totals[order]
        if np.array_equal(ledger.squares, ledger.totals) and (ledger.totals >= 0).all():
            ones = np.minimum(np.rint(totals * N / ledger.counts[order]).astype(np.int64), N)
            counts = np.column_stack([N - ones, ones]).ravel()
            cells, values = np.repeat(cells, 2, axis=0), np.tile([0.0, 1.0], len(N))
        elif whole_numbers:
            sums = np.minimum(np.rint(totals * N / ledger.counts[order]), _MOST_IN_ALL).astype(np.int64)
            at, values, counts = _with_sums(sums, N, estimate_dispersion(ledger), rng)
            cells = cells[at]
        else:
            kinds = np.minimum(N, _STAND_INS)
            spread = np.sqrt(ledger.within[order] / ledger.counts[order])
            at = np.repeat(np.arange(len(N)), kinds)
            first = np.arange(len(at)) - np.repeat(np.cumsum(kinds) - kinds, kinds)
            counts = N[at] // kinds[at] + (first < N[at] % kinds[at])
            values = _with_moments(ledger.means[order], spread, at, counts, rng)
            cells = cells[at]
        return cls(ledger.shape, cells[counts > 0], values[counts > 0], counts[counts > 0])

    @property
    def total(self) -> int:
        """How many rewards there are."""
        return int(self.counts.sum())

    def deal(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Rewards]:
        """Return disjoint parts of so many rewards, each way to choose them equally likely, and last what is left.

        >>> rewards = Rewards((2,), np.array([[0], [1]]), np.array([5.0, 6.0]), np.array([3, 4]))
        >>> [part.total for part in rewards.deal([2, 1], np.random.default_rng(0))]
        [2, 1, 4]
        """
        parts, left = [], self.counts
        for size in sizes:
            if (there := int(left.sum())) < _MOST_DRAWN:
                drawn = rng.multivariate_hypergeometric(left, size, method="marginals")
            else:  # a coin for each reward: the size varies a little
                drawn = rng.binomial(left, size / there)
            parts.append(self._replace(counts=drawn))
            left = left - drawn
        return [*parts, self._replace(counts=left)]

    def ledger(self) -> Ledger:
        """Return their ledger."""
        mean = float(self.counts @ self.values) / max(self.total, 1)
        ones = np.ones(len(self.values))
        sums = self.counts * np.array([ones, self.values, self.values**2, (self.values - mean) ** 2])
        return summed(self.shape, self.cells, sums, mean)


def summed(shape: Cell, cells: Ints, sums: Floats, centre: float) -> Ledger:
    """Return the ledger of sums (4, m) over cells (m, d), which are sorted and may occur several times.

    The sums are counts, totals, squares, and squares about the centre.
    """
    cells, sums = cells[sums[0] > 0], sums[:, sums[0] > 0]
    starts = np.flatnonzero(np.r_[True, (cells[1:] != cells[:-1]).any(axis=1)]) if len(cells) else np.zeros(0, int)
    N, Y, Q, about = np.add.reduceat(sums, starts, axis=1) if len(cells) else np.zeros((4, 0))
    within = np.maximum(about - (Y - centre * N) ** 2 / N, 0.0)
    return Ledger.of(shape, cells[starts], N, Y, Q, within)


def _with_sums(sums: Ints, numbers: Ints, dispersion: float, rng: np.random.Generator) -> tuple[Ints, Floats, Ints]:
    """Return whole numbers, how often each occurs, and of which cell, given how many each cell has and their sums.

    Negative binomial numbers with a given sum share it as a Dirichlet law says. Of a cell with many they are drawn in
    groups, within which they are as equal as whole numbers are.
    """
    parts = []
    for at, (total, number) in enumerate(zip(sums.tolist(), numbers.tolist(), strict=True)):
        groups = min(number, _STAND_INS)
        sizes = number // groups + (np.arange(groups) < number % groups)
        shares = rng.standard_gamma(dispersion * sizes) + 1e-300
        each, more = np.divmod(rng.multinomial(total, shares / shares.sum()), sizes)
        for values, counts in ((each, sizes - more), (each + 1, more)):
            parts.append((np.full(groups, at), values.astype(np.float64), counts))
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64)
    found = [np.concatenate(part) for part in zip(*parts, strict=True)]
    return found[0], found[1], found[2]


def _with_moments(means: Floats, spread: Floats, at: Ints, counts: Ints, rng: np.random.Generator) -> Floats:
    """Return normal values of the cells ``at`` (m,), occurring ``counts`` (m,) times, with these means and spreads."""
    values, number = rng.standard_normal(len(at)), np.bincount(at, counts)
    values -= (np.bincount(at, counts * values) / number)[at]
    size = np.sqrt(np.bincount(at, counts * values**2) / number)
    return np.asarray(means[at] + values * np.divide(spread, size, out=np.zeros_like(size), where=size > 0)[at])

"""Which level has moved: recent rewards of the same cells held against older ones.

Who plays by what he has learned plays again what was lucky before, so that rewards of the same cell fall on average
though nothing has changed. What stays right under any way of playing is the ratio of two probabilities of all rewards,
as how cells were chosen cancels in it::

    E = sum of w(level) w(time) P(rewards | the level moved then) / P(rewards | nothing moved)

If nothing moved, ``E`` is 1 on average, whenever one looks, and so above 20 with a probability of at most 1 / 20: that
is the false alarm rate, over all levels and times together.

Notation: a cell has a value ``theta`` (its mean reward; of clicks the log-odds, of counts the logarithm), which is
``N(m, tau^2)`` from cell to cell, ``m`` and ``tau`` being those of the largest likelihood. Where its level moved, its
value is another one afterwards: moved by half, once or twice ``tau``, up or down, all cells alike; or each cell by
itself. Everything is worked out on a grid of values (G,); cells (C, d) that were not rewarded both before and after say
nothing, however traffic has moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tensorbandits.bandit.history import History
from tensorbandits.base.checks import Cell
from tensorbandits.model.effects import Kind

Floats = NDArray[np.float64]

NEWS = 20.0  # evidence, from which on a level is said to have moved
_GRID = 129
_CELLS = 4000  # cells that are compared: those with the most rewards
_MOVES = ((0.5, 0.25), (1.0, 0.25), (2.0, 0.25))  # of tau: how far all cells move, and each from there
_EACH = (0.5, 1.0, 2.0)  # of tau: how far each cell moves by itself
WAYS = 2 * len(_MOVES) + len(_EACH)
_STEPS = 30  # of the likelihood's way to m and tau
_POOLED = 20.0  # rewards as which the noise of all cells counts in that of one
_FEWEST = 10.0  # degrees of freedom of the noise
_SMALLEST = 1e-12
_LARGEST = 700.0  # logarithm of a float


class Move(NamedTuple):
    """A level that moved: its mode and position, or ``None`` and ``None`` for all cells.

    ``ago`` is how many rewards were told since, ``before`` and ``after`` are mean rewards of the same cells, of which
    there are ``cells``; ``log_evidence`` is that for this level, ``share`` its part of that for any.
    """

    mode: int | None
    level: int | None
    ago: int
    before: float
    after: float
    cells: int
    log_evidence: float
    share: float


@dataclass(frozen=True)
class Drift:
    """What moved, the most evident first, and the evidence that anything did: how much better it explains rewards."""

    moves: tuple[Move, ...]
    evidence: float
    rewards: int


def drift(history: History, kind: Kind) -> Drift:
    """Return which levels moved, of rewards that are ``"gaussian"``, ``"bernoulli"`` or ``"count"``.

    >>> rng, history = np.random.default_rng(0), History((3, 4))
    >>> for t in range(3000):
    ...     i, j = rng.integers(3), rng.integers(4)
    ...     _ = history.record((int(i), int(j)), float(i + (j == 2) * (t > 2000) + rng.standard_normal()))
    >>> [(move.mode, move.level, round(move.after - move.before)) for move in drift(history, "gaussian").moves]
    [(1, 2, 1)]
    """
    compared = RepeatedCells.of(history, kind)
    if compared is None or len(history.blocks) < 2:
        return Drift((), 0.0, history.told)
    evidence, strongest, everything = compared.strongest()
    moves: list[Move] = []
    if evidence >= math.log(NEWS):
        levels = _levels(compared)
        # Where nearly all is played of one level, that it moved and that everything did explain the same: then it is
        # said of the level, as nothing is known of the others.
        alone = everything.log_evidence > sum(move.log_evidence for move in levels) + math.log(NEWS)
        moves = [everything] if alone else levels or [strongest]
    return Drift(tuple(moves), math.exp(min(evidence, _LARGEST)), history.told)


def _levels(compared: RepeatedCells | None) -> list[Move]:
    """Return levels that moved, each by cells that those before it do not have."""
    moves: list[Move] = []
    while compared is not None:
        evidence, move, _ = compared.strongest(levels=True)
        if evidence < math.log(NEWS):
            break
        moves.append(move)
        compared = compared.without(move.mode, move.level)
    return moves


class RepeatedCells:
    """The cells that were rewarded in more than one block, and what their values may be.

    ``counts`` and ``totals`` are (B, C): of each block. ``noise`` (C,) divides a log-likelihood.
    """

    def __init__(
        self, kind: Kind, cells: NDArray[np.int64], counts: Floats, totals: Floats, noise: Floats, ages: list[int]
    ) -> None:
        self.kind, self.cells, self.noise, self.ages = kind, cells, noise, ages
        self.counts, self.totals = counts, totals
        self.grid = _grid(kind, counts.sum(axis=0), totals.sum(axis=0), noise)
        values = self.logs(counts.sum(axis=0), totals.sum(axis=0))
        self.prior, self.tau = _prior(self.grid, values)

    @classmethod
    def of(cls, history: History, kind: Kind) -> RepeatedCells | None:
        """Return what can be compared of a history, or ``None``."""
        found: dict[Cell, int] = {}
        at = [[found.setdefault(tuple(cell), len(found)) for cell in block.cells.tolist()] for block in history.blocks]
        counts, totals, within = np.zeros((3, len(history.blocks), len(found)))
        for b, (block, here) in enumerate(zip(history.blocks, at, strict=True)):
            counts[b, here], totals[b, here], within[b, here] = block.counts, block.totals, block.within
        freedom = np.maximum(counts - 1.0, 0.0)
        often = np.flatnonzero((counts > 0).sum(axis=0) > 1)
        if freedom.sum() < _FEWEST or not len(often):
            return None
        noise = _noise(kind, counts, totals, within.sum(axis=0), freedom.sum(axis=0))
        most = np.sort(often[np.argsort(-counts[:, often].sum(axis=0), kind="stable")[:_CELLS]])
        ages = (history.told - np.cumsum(history.lengths)).tolist()
        cells = np.array(list(found), dtype=np.int64)
        return cls(kind, cells[most], counts[:, most], totals[:, most], noise[most], ages)

    def without(self, mode: int | None, level: int | None) -> RepeatedCells | None:
        """Return the cells that have not this level."""
        kept = np.zeros(len(self.cells), dtype=bool) if mode is None else self.cells[:, mode] != level
        if not kept.any():
            return None
        return RepeatedCells(
            self.kind, self.cells[kept], self.counts[:, kept], self.totals[:, kept], self.noise[kept], self.ages
        )

    def logs(self, counts: Floats, totals: Floats) -> Floats:
        """Return the log-likelihoods of sums of rewards (C,) at the values of the grid, (C, G), with 0 as the largest.

        So many rewards that they tell values apart that the grid cannot count as fewer: what is finer is no news.
        """
        known = self.information()
        finest = 1.0 / (self.grid[1] - self.grid[0]) ** 2
        scale = np.minimum(1.0, finest / np.maximum(counts * known, _SMALLEST)) / self.noise
        if self.kind == "gaussian":
            means = totals / np.maximum(counts, _SMALLEST)
            logs = (-0.5 * scale * counts)[:, None] * (self.grid - means[:, None]) ** 2
        else:
            logs = totals[:, None] * self.grid - counts[:, None] * _cumulant(self.kind, self.grid)
            logs = scale[:, None] * logs
        return np.asarray(logs - logs.max(axis=1, keepdims=True))

    def information(self) -> Floats:
        """Return what a reward tells of the value of each cell, (C,)."""
        return _information(self.kind, self.counts.sum(axis=0), self.totals.sum(axis=0)) / self.noise

    def factors(self, before: Floats, after: Floats) -> Floats:
        """Return the logs of how much better each way to move explains each cell than none does, (M, C)."""
        first, second = np.exp(before) * self.prior, np.exp(after)
        still = np.log(np.maximum((first * second).sum(axis=1), 1e-300))
        ways = [np.log(np.maximum(((first @ kernel) * second).sum(axis=1), 1e-300)) for kernel in self._kernels()]
        return np.asarray(np.array(ways) - still)

    def _kernels(self) -> Iterator[Floats]:
        """Yield the laws (G, G) of the values after a move, given those before."""
        apart = self.grid[None, :] - self.grid[:, None]
        ways = [(sign * move, each) for move, each in _MOVES for sign in (-1.0, 1.0)] + [(0.0, each) for each in _EACH]
        for move, each in ways:
            law = np.exp(-0.5 * ((apart / self.tau - move) / each) ** 2) + 1e-300
            yield law / law.sum(axis=1, keepdims=True)

    def strongest(self, *, levels: bool = False) -> tuple[float, Move, Move]:
        """Return the log of all evidence, the move for which there is the most, and that of everything.

        With ``levels``, everything is none of the moves.
        """
        splits = range(1, len(self.counts))
        scores = [self._scores(split) for split in splits]  # for each time: logs of E by candidate
        names = [*scores[0]]  # everything first
        table = np.array([[score[name] for name in names] for score in scores]) - math.log(len(splits))
        total = float(logsumexp(table[:, int(levels) :]))
        best = int(levels) + int(np.argmax(logsumexp(table[:, int(levels) :], axis=0)))
        strongest, everything = (self._move(names[at], table[:, at], total) for at in (best, 0))
        return total, strongest, everything

    def _move(self, name: tuple[int | None, int | None], logs: Floats, total: float) -> Move:
        """Return a candidate's move, at the time for which there is the most evidence, (times,)."""
        split, evidence = 1 + int(np.argmax(logs)), float(logsumexp(logs))
        before, after, cells = self._means(split, *name)
        share = math.exp(min(evidence - total, 0.0))
        return Move(*name, self.ages[split - 1], before, after, cells, evidence, share)

    def _sums(self, split: int) -> tuple[NDArray[np.int64], tuple[Floats, ...]]:
        """Return the cells that were rewarded before and after a time, and counts and sums of both."""
        sums = [part.sum(axis=0) for part in (self.counts[:split], self.counts[split:])]
        both = np.flatnonzero((sums[0] > 0) & (sums[1] > 0))
        parts = (self.counts[:split], self.totals[:split], self.counts[split:], self.totals[split:])
        return both, tuple(part.sum(axis=0) for part in parts)

    def _scores(self, split: int) -> dict[tuple[int | None, int | None], float]:
        """Return for each level, and for all cells, the log of its weighted evidence of a move at a time."""
        both, (n0, y0, n1, y1) = self._sums(split)
        found = self.factors(self.logs(n0, y0), self.logs(n1, y1))  # (M, C)
        seen = np.zeros(len(self.cells), dtype=bool)
        seen[both] = True
        found = np.where(seen, found, 0.0)
        groups, ways = self.cells.shape[1] + 1, math.log(len(found))
        scores: dict[Any, float] = {(None, None): float(logsumexp(found.sum(axis=1)) - ways - math.log(groups))}
        for mode in range(groups - 1):
            levels, at = np.unique(self.cells[:, mode], return_inverse=True)
            sums = np.array([np.bincount(at, weights=row, minlength=len(levels)) for row in found])
            logs = logsumexp(sums, axis=0) - ways - math.log(groups * len(levels))
            scores |= {(mode, level): float(log) for level, log in zip(levels.tolist(), logs, strict=True)}
        return scores

    def _means(self, split: int, mode: int | None, level: int | None) -> tuple[float, float, int]:
        """Return the mean rewards of the same cells before and after, weighted alike, and how many cells these are."""
        both, (n0, y0, n1, y1) = self._sums(split)
        if mode is not None:
            both = both[self.cells[both, mode] == level]
        if not len(both):  # where nothing is news, the best may be a level that says nothing
            return math.nan, math.nan, 0
        weights = n0[both] * n1[both] / (n0[both] + n1[both])
        before, after = (float(np.average(y[both] / n[both], weights=weights)) for n, y in ((n0, y0), (n1, y1)))
        return before, after, len(both)


def _cumulant(kind: Kind, values: Floats) -> Floats:
    """What the log-likelihood of clicks or counts takes off for each: its derivative is the mean reward at a value."""
    return np.logaddexp(0.0, values) if kind == "bernoulli" else np.exp(values)


def _shrunk(counts: Floats, totals: Floats, one: float) -> Floats:
    """Return the mean rewards of cells (C,), to each of which so many rewards of the pooled mean are added."""
    return np.asarray((totals + one * totals.sum() / counts.sum()) / (counts + one))


def _rates(counts: Floats, totals: Floats) -> Floats:
    """Return mean clicks or counts of cells (C,), all above 0, and below 1 for clicks that are not all ones."""
    pooled = (totals.sum() + 0.5) / (counts.sum() + 1.0)
    one = 1.0 / min(pooled, max(1.0 - pooled, 0.5 / (counts.sum() + 1.0))) if pooled < 1.0 else 1.0 / pooled
    return np.asarray((totals + one * pooled) / (counts + one))


def _information(kind: Kind, counts: Floats, totals: Floats) -> Floats:
    """Return what a reward says of the value of each cell (C,), apart from the noise."""
    if kind == "gaussian":
        return np.ones(len(counts))
    rates = _rates(counts, totals)
    return np.asarray(rates * (1.0 - rates) if kind == "bernoulli" else rates)


def _noise(kind: Kind, counts: Floats, totals: Floats, within: Floats, freedom: Floats) -> Floats:
    """Return the variance of rewards of each cell (C,) over what their kind says, from repeats within blocks (B, C)."""
    cells = counts.sum(axis=0)
    if kind == "bernoulli":
        return np.ones(len(cells))
    expected = freedom * _information(kind, cells, totals.sum(axis=0))
    pooled = within.sum() / expected.sum()
    if kind == "count":
        return np.full(len(cells), max(pooled, 1.0))
    return np.asarray(np.maximum((_POOLED * pooled + within) / (_POOLED + freedom), 1e-300))


def _grid(kind: Kind, counts: Floats, totals: Floats, noise: Floats) -> Floats:
    """Return values from below the least to above the largest that cells may have, (G,)."""
    if kind == "gaussian":
        values, margin = _shrunk(counts, totals, 1.0), math.sqrt(float(np.median(noise / counts)))
    else:
        rates, margin = _rates(counts, totals), 0.5
        values = np.log(rates / (1.0 - rates)) if kind == "bernoulli" else np.log(rates)
    low, high = float(values.min()), float(values.max())
    margin += 0.25 * (high - low) + 1e-9 * max(abs(low), abs(high)) + 1e-140
    return np.linspace(low - margin, high + margin, _GRID)


def _prior(grid: Floats, logs: Floats) -> tuple[Floats, float]:
    """Return the law of values (G,) of the largest likelihood (C, G), a normal one, and its standard deviation."""
    step = grid[1] - grid[0]
    m, tau, likelihood = float(grid.mean()), float(grid[-1] - grid[0]) / 4.0, np.exp(logs)
    for _ in range(_STEPS):
        law = np.exp(-0.5 * ((grid - m) / tau) ** 2)
        posterior = likelihood * law
        posterior /= posterior.sum(axis=1, keepdims=True)
        m = float((posterior @ grid).mean())
        tau = max(math.sqrt(float((posterior @ (grid - m) ** 2).mean())), 2.0 * step)
    law = np.exp(-0.5 * ((grid - m) / tau) ** 2)
    return law / law.sum(), tau

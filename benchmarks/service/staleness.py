"""What it costs to decide from snapshots that are some seconds old: the campaign of the tutorial, in slices of time.

Between two snapshots every decision is drawn from the same law, so the decisions of a slice are one multinomial draw
for each segment. Clicks are drawn one by one, each with its own delay. The learner is the bandit itself, which is
brought the sums of all that was known when it learns: a click when it arrives, a 0 when the window ends.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tensorbandits as tb
from tensorbandits.bandit.commands import Ask
from tensorbandits.bandit.published import PublishedSnapshot

SEGMENTS = ["new", "young", "family", "student", "senior", "business", "returning", "vip"]
MODES = {
    "segment": SEGMENTS,
    "offer": [f"offer {number}" for number in range(1, 31)],
    "channel": ["mail", "sms", "push", "web", "call", "letter"],
}
WINDOW, DELAY, LOST = 300.0, 600.0, 0.05  # of the tutorial: seconds of the window, mean seconds to a click, share lost
SHARE = 0.1  # of the floors, and of the holdout
Sums = NDArray[np.float64]  # of each cell


def campaign(seed: int) -> tuple[tb.Space, NDArray[np.float64]]:
    """Return the space of the tutorial, and the click rate of each combination in one world."""
    space = tb.Space(MODES, context=["segment"])
    space.forbid(offer="offer 7", channel="sms")
    people = tb.Audience(space, delay=DELAY, seed=seed)
    cells = np.ndindex(*space.shape)
    return space, np.array([people.rate(space.labels(cell)) for cell in cells]).reshape(space.shape)


class Laws:
    """The probability of every arm in each segment, of one snapshot after the other."""

    def __init__(self, space: tb.Space) -> None:
        self._asks = [Ask((segment,)) for segment in range(space.shape[0])]
        self._cells = [[(ask.levels[0], *arm) for arm in np.ndindex(*space.shape[1:])] for ask in self._asks]
        self._rest: NDArray[np.float64] | None = None  # what floors and the holdout give to each arm

    def of(self, published: PublishedSnapshot) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the policy, and what floors and holdout, play: shape (segments, arms) each."""
        snapshot = published.snapshot()
        own = np.zeros((len(self._asks), len(self._cells[0])))
        shape = published.space.shape[1:]
        for segment, ask in enumerate(self._asks):
            for share, drawn in snapshot.law(ask).outcomes(published.draws):
                own[segment, np.ravel_multi_index(drawn.cell[1:], shape)] += share
        if self._rest is None:
            pairs = zip(self._asks, self._cells, strict=True)
            whole = np.array([snapshot.chances(ask, cells) for ask, cells in pairs], dtype=np.float64)
            whole[:, shape[1] * MODES["offer"].index("offer 7") + MODES["channel"].index("sms")] = 0.0
            self._rest = np.maximum(whole - own, 0.0)
        return own, self._rest


class Waiting:
    """What becomes known at the end of each slice: counts and sums of each cell."""

    def __init__(self, cells: int, every: float) -> None:
        self._every = every
        self._counts: defaultdict[int, Sums] = defaultdict(lambda: np.zeros(cells))
        self._sums: defaultdict[int, Sums] = defaultdict(lambda: np.zeros(cells))
        self._skip = math.floor(WINDOW / every)
        self._later = WINDOW / every - self._skip  # of the windows that begin in a slice end one slice later

    def add(self, at: int, decided: NDArray[np.int64], rates: Sums, rng: np.random.Generator) -> None:
        """Add the decisions of a slice: how many there were of each cell."""
        clicks = rng.binomial(rng.binomial(decided, rates), 1.0 - LOST)
        cell = np.repeat(np.arange(len(clicks)), clicks)
        moment = rng.random(len(cell)) * self._every
        delay = rng.exponential(DELAY, len(cell))
        early = delay < WINDOW
        arrives = at + 1 + np.floor((moment + delay) / self._every).astype(int)
        settled = np.where(early, arrives, at + 1 + np.floor((moment + WINDOW) / self._every).astype(int))
        self._count(self._sums, arrives, cell)
        self._count(self._counts, settled, cell)
        silent = decided - clicks
        later = rng.binomial(silent, self._later)
        self._counts[at + 1 + self._skip] += silent - later
        self._counts[at + 2 + self._skip] += later

    def _count(self, kept: defaultdict[int, Sums], slices: NDArray[np.int64], cells: NDArray[np.int64]) -> None:
        for one in np.unique(slices):
            some = kept[int(one)]
            some += np.bincount(cells[slices == one], minlength=len(some))

    def known(self, at: int) -> tuple[Sums, Sums] | None:
        """Return what becomes known before a slice begins, and forget it."""
        if at not in self._counts and at not in self._sums:
            return None
        return self._counts.pop(at, np.zeros(1)), self._sums.pop(at, np.zeros(1))


def play(
    seed: int, *, rate: float, seconds: float, every: float, late: int = 0, draws: int | None = None
) -> dict[str, float]:
    """Play one campaign; return its regret per decision, of all and of the policy's own, and what was possible.

    A snapshot is made ``every`` so many seconds, and decided from ``late`` slices later: its age is from ``late *
    every`` to ``(late + 1) * every``. ``draws`` are how many posterior draws it has, by default those of the bandit.
    """
    space, rates = campaign(seed)
    segments, shape = space.shape[0], space.shape
    flat, arms = rates.reshape(-1), rates.reshape(segments, -1)
    allowed = np.ones(shape, dtype=bool)
    allowed[:, MODES["offer"].index("offer 7"), MODES["channel"].index("sms")] = False
    best = np.where(allowed.reshape(segments, -1), arms, -1.0).max(axis=1)
    rng = np.random.default_rng([seed, int(every), late])
    bandit = tb.Bandit(space, reward="bernoulli", window="5 min", default=0, floors=SHARE, holdout=SHARE, seed=seed)
    laws, waiting = Laws(space), Waiting(flat.size, every)
    counts, sums = np.zeros(flat.size), np.zeros(flat.size)
    cells = np.array(list(np.ndindex(*shape)))
    snapshots = [laws.of(bandit.snapshot(draws=draws))]
    totals = defaultdict(float)
    for at in range(round(seconds / every)):
        if at and (news := waiting.known(at)) is not None:
            counts += news[0]
            sums += news[1]
            some = counts > 0
            bandit.bring_rewards(tb.Ledger.of(shape, cells[some], counts[some], sums[some], sums[some].copy()))
            snapshots.append(laws.of(bandit.snapshot(draws=draws)))
        elif at:
            snapshots.append(snapshots[-1])
        snapshots = snapshots[-late - 1 :]
        own, rest = snapshots[0]
        decided = np.zeros(arms.shape, dtype=np.int64)
        for segment, visitors in enumerate(rng.multinomial(round(rate * every), np.full(segments, 1.0 / segments))):
            law = np.concatenate([own[segment], rest[segment]])
            found = rng.multinomial(visitors, law / law.sum()).reshape(2, -1)
            lost = best[segment] - arms[segment]
            totals["own regret"] += float(found[0] @ lost)
            totals["regret"] += float(found.sum(axis=0) @ lost)
            totals["own"] += float(found[0].sum())
            totals["decisions"] += float(found.sum())
            totals["possible"] += float(found.sum() * best[segment])
            decided[segment] = found.sum(axis=0)
        waiting.add(at, decided.reshape(-1), flat, rng)
    return {
        "regret": totals["regret"] / totals["decisions"],
        "own": totals["own regret"] / totals["own"],
        "possible": totals["possible"] / totals["decisions"],
        "decisions": totals["decisions"],
        "rewards": float(counts.sum()),
    }


def beside(runs: list[dict[str, Any]], name: str, first: str, other: str) -> tuple[float, float]:
    """Return the ratio of mean regrets of two ways to decide in the same worlds, and its standard error."""
    one = np.array([run[first][name] for run in runs])
    two = np.array([run[other][name] for run in runs])
    ratio = float(two.mean() / one.mean())
    if len(runs) < 2:
        return ratio, math.nan
    return ratio, float(np.std(two - ratio * one, ddof=1) / math.sqrt(len(runs)) / one.mean())

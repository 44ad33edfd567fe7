"""What drift would have been noticed: of which levels there are enough rewards to tell that nothing has moved.

That no move was found says something only of levels whose move would mostly have been found. A level that moved half
way through its rewards, by ``delta`` on the scale of the kind, moves the difference of before and after by so many
standard errors: ``delta sqrt(P)``, where ``P`` adds up, over the cells that were rewarded both before and after,
``1 / (1 / I0 + 1 / I1)``; ``I`` is what the rewards of a cell tell of its value. The evidence is about half the square
of that, less what is paid for having looked at every level, time and way to move; and chance takes some away.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from tensorbandits.bandit.drift import NEWS, WAYS, RepeatedCells
from tensorbandits.bandit.history import History
from tensorbandits.model.effects import Kind

MOVED = {"bernoulli": math.log(2.0), "count": math.log(2.0), "gaussian": 0.5}  # what is to be noticed: see `said_of`
_MISSED = 0.2  # with which such a move is not noticed
_MOSTLY = 0.5  # the share of rewards whose levels can be judged, from which on it is said that nothing has moved
_BLOCKS = 12.0  # of a history, before there is one


class Sensitivity(NamedTuple):
    """Of which levels a move would have been noticed: of each mode the positions of those that can be judged.

    ``judged`` is the share of rewards that are of such levels, ``needed`` about how many rewards it takes until most
    are; of clicks and counts that have not come yet, how many of these (``in_events``).
    """

    levels: tuple[tuple[int, ...], ...]
    judged: float
    needed: float
    in_events: bool

    @property
    def enough(self) -> bool:
        """Whether it can be told that nothing has moved."""
        return self.judged >= _MOSTLY


def said_of(kind: Kind) -> str:
    """Return in words which move is meant: a level that earns half, or twice, what it did."""
    return (
        "by half of the spread of single rewards"
        if kind == "gaussian"
        else "to half of what it earned or to twice that"
    )


def sensitivity(history: History, kind: Kind) -> Sensitivity:
    """Return of which levels a move half way would mostly have been noticed."""
    compared = RepeatedCells.of(history, kind)
    wanted = _wanted(history.shape, len(history.blocks) or _BLOCKS)
    nobody: tuple[tuple[int, ...], ...] = tuple(() for _ in history.shape)
    if compared is None or len(compared.counts) < 2:
        told, earned = history.told, _events(history)
        if kind != "gaussian" and not earned:
            return Sensitivity(nobody, 0.0, _at_first(history, kind, wanted, 1.0), in_events=True)
        each = 1.0 if kind == "gaussian" else min(earned / max(told, 1), 1.0)
        return Sensitivity(nobody, 0.0, max(_at_first(history, kind, wanted, each), 2.0 * told), in_events=False)
    precision, rewards = _by_level(compared, history)
    levels = tuple(tuple(np.flatnonzero(one >= wanted / MOVED[kind] ** 2).tolist()) for one in precision)
    shares = [one[list(some)].sum() / one.sum() for some, one in zip(levels, rewards, strict=True)]
    judged = float(np.mean(shares))
    return Sensitivity(levels, judged, _needed(history, kind, wanted, precision, rewards), in_events=False)


def _wanted(shape: tuple[int, ...], blocks: float) -> float:
    """The square of the standard errors that a move must be worth, so that it mostly is news."""
    looked_at = WAYS * (len(shape) + 1) * float(np.mean(shape)) * max(blocks - 1.0, 1.0)
    return float((math.sqrt(2.0 * math.log(NEWS * looked_at)) - ndtri(_MISSED)) ** 2)


def _at_first(history: History, kind: Kind, wanted: float, each: float) -> float:
    """About how many rewards it takes, if levels are played alike and each reward tells so much."""
    return 4.0 * float(np.median(history.shape)) * wanted / (MOVED[kind] ** 2 * max(each, 1e-9))


def _events(history: History) -> float:
    """How many clicks, or things that were counted, there were."""
    return float(sum(block.totals.sum() for block in history.blocks))


def _by_level(compared: RepeatedCells, history: History) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """``P`` of each level of each mode, and how many rewards each has."""
    ends = np.cumsum(compared.counts.sum(axis=1))
    split = min(1 + int(np.searchsorted(ends, ends[-1] / 2.0)), len(ends) - 1)
    known = compared.information()
    before, after = (part.sum(axis=0) * known for part in (compared.counts[:split], compared.counts[split:]))
    both = before * after / np.maximum(before + after, 1e-300)
    if compared.kind == "gaussian":  # in units of the spread of single rewards
        both = both * compared.noise
    counts = compared.counts.sum(axis=0)
    pairs = list(zip(compared.cells.T, history.shape, strict=True))
    return (
        [np.bincount(at, both, minlength=size) for at, size in pairs],
        [np.bincount(at, counts, minlength=size) for at, size in pairs],
    )


def _needed(
    history: History, kind: Kind, wanted: float, precision: list[np.ndarray], rewards: list[np.ndarray]
) -> float:
    """About how many rewards it takes until half of them are of levels that can be judged."""
    factors = []
    for known, count in zip(precision, rewards, strict=True):
        order = np.argsort(-known)
        half = order[np.searchsorted(count[order].cumsum(), _MOSTLY * count.sum())]
        factors.append(wanted / MOVED[kind] ** 2 / max(float(known[half]), 1e-9))
    return history.told * max(float(np.mean(factors)), 1.0)

"""What would have happened: a bandit that learns beside a caller's own rule, whose arms are the ones that are played.

Of each decision the bandit says beforehand which arm it would have played, with what probability it would have played
the caller's, and what it expects of both. Once the reward ``r`` of the caller's arm is known, the doubly robust
estimate of what the bandit would have earned there is::

    q(would) + w (r - q(played)),    w = P(bandit plays the caller's arm) / P(the caller plays it)

Expectations ``q`` are of before the reward was known, so that errors of the model cancel in the mean wherever the
caller's rule has a chance to play what the bandit would. A rule without chance has probability 1 for its arm; then arms
that it never plays are judged by the model alone.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from tensorbandits.base.checks import Cell, check_array


class Shadow(NamedTuple):
    """What an apprentice said of a decision before it was known what it earned."""

    cell: Cell
    weight: float
    would: float  # expected of its own arm
    played: float  # and of the caller's

    def written(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"cell": list(self.cell), "w": self.weight, "q": [self.would, self.played]}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`written` wrote."""
        return cls(tuple(data["cell"]), data["w"], *data["q"])


class MeanEstimate(NamedTuple):
    """A mean, and how far the truth is from it at most, with probability 0.95."""

    mean: float
    within: float


class Apprentice:
    """Sums over decisions whose rewards are known, and the shadows of those that wait.

    Where decisions that earn nothing are known only when their window ends, those that earn something are known sooner.
    To favour neither, they are then counted in the order in which they were made, as far as all before are known.

    >>> apprentice = Apprentice()
    >>> for number, weight in enumerate([1.0, 0.5, 0.0, 1.0]):
    ...     apprentice.open(str(number), Shadow((0,), weight, 0.6, 0.5), 10)
    >>> for number, reward in [("1", 1.0), ("3", 1.0), ("0", 0.0)]:
    ...     apprentice.reward(number, reward, in_order=True)
    >>> apprentice.count  # the third is not known yet
    2
    >>> apprentice.reward("2", 0.0, in_order=True)
    >>> apprentice.count, round(apprentice.would.mean, 4), apprentice.earned.mean
    (4, 0.6625, 0.5)
    """

    def __init__(self) -> None:
        self._sums = np.zeros(6)  # count; would, earned; their squares; their product
        self._shadows: OrderedDict[str, tuple[Shadow, float | None]] = OrderedDict()
        self._waiting: OrderedDict[str, None] = OrderedDict()  # those not counted yet, in order

    def open(self, number: str, shadow: Shadow, capacity: int) -> None:
        """Remember what was said of a decision; at most ``capacity`` of them, rewarded or not."""
        self.forget(number)  # one of before with the same id, which nobody remembers
        self._shadows[number] = shadow, None
        self._waiting[number] = None
        while len(self._shadows) > capacity:
            self.forget(next(iter(self._shadows)))

    def reward(self, number: str | None, reward: float, *, in_order: bool) -> None:
        """Count the reward of a decision, in the place of one that it had before; decisions without shadow are none."""
        if number is None or number not in self._shadows:
            return
        shadow, before = self._shadows[number]
        self._shadows[number] = shadow, reward
        if number not in self._waiting:
            assert before is not None
            self._add(shadow, before, -1.0)
            self._add(shadow, reward, 1.0)
        elif in_order:
            self._count_known()
        else:
            self._count(number)

    def forget(self, number: str | None) -> None:
        """Forget a decision that was cancelled, or is too old."""
        if number is not None and self._shadows.pop(number, None) is not None:
            self._waiting.pop(number, None)
            self._count_known()

    def count_all(self) -> None:
        """Count all rewards that are known, in whatever order: no window will end the decisions that they wait for."""
        for number in [one for one in self._waiting if self._shadows[one][1] is not None]:
            self._count(number)

    def _count_known(self) -> None:
        while self._waiting and self._shadows[first := next(iter(self._waiting))][1] is not None:
            self._count(first)

    def _count(self, number: str) -> None:
        shadow, reward = self._shadows[number]
        assert reward is not None
        del self._waiting[number]
        self._add(shadow, reward, 1.0)

    def _add(self, shadow: Shadow, reward: float, sign: float) -> None:
        would = shadow.would + shadow.weight * (reward - shadow.played)
        self._sums += sign * np.array([1.0, would, reward, would**2, reward**2, would * reward])

    @property
    def count(self) -> int:
        """Decisions whose rewards are known."""
        return round(float(self._sums[0]))

    @property
    def would(self) -> MeanEstimate:
        """What the bandit would have earned per decision."""
        return self._estimate(self._sums[1], self._sums[3])

    @property
    def earned(self) -> MeanEstimate:
        """What the caller's rule earned per decision."""
        return self._estimate(self._sums[2], self._sums[4])

    @property
    def difference(self) -> MeanEstimate:
        """What the bandit would have earned more, per decision."""
        _, would, earned, would2, earned2, both = self._sums
        return self._estimate(would - earned, would2 - 2 * both + earned2)

    def _estimate(self, total: float, squares: float) -> MeanEstimate:
        count = self._sums[0]
        if count < 2:
            return MeanEstimate(math.nan, math.nan)
        mean = total / count
        variance = max(squares / count - mean**2, 0.0) * count / (count - 1)
        return MeanEstimate(float(mean), float(1.96 * math.sqrt(variance / count)))

    def state(self) -> dict[str, Any]:
        """Return everything as plain arrays and text."""
        shadows = list(self._shadows.values())
        return {
            "sums": self._sums.copy(),
            "ids": np.frombuffer("\n".join(self._shadows).encode(), dtype=np.uint8),
            "cells": np.array([shadow.cell for shadow, _ in shadows], dtype=np.int64),
            "said": np.array([shadow[1:] for shadow, _ in shadows], dtype=np.float64).reshape(-1, 3),
            "known": np.array([reward is not None for _, reward in shadows], dtype=np.int64),
            "rewards": np.array([reward or 0.0 for _, reward in shadows], dtype=np.float64),
            "waiting": np.array([number in self._waiting for number in self._shadows], dtype=np.int64),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """Return what :meth:`state` described."""
        self = cls()
        self._sums = check_array(state["sums"], "sums", (6,)).copy()
        text = np.asarray(state["ids"]).astype(np.uint8).tobytes().decode()
        ids = text.split("\n") if text else []
        parts = ("cells", "said", "known", "rewards", "waiting")
        rows = zip(*(np.asarray(state[name]).tolist() for name in parts), strict=True)
        for number, (cell, said, known, reward, waits) in zip(ids, rows, strict=True):
            self._shadows[number] = Shadow(tuple(cell), *said), reward if known else None
            if waits:
                self._waiting[number] = None
        return self

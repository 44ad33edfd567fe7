"""What would have happened: a bandit that learns beside a caller's own rule, whose arms are the ones that are played.

Of each decision the bandit says beforehand which arm it would have played, with what probability it would have played
the caller's, and what it expects of both. Once the reward ``r`` of the caller's arm is known, the doubly robust
estimate of what the bandit would have earned there is::

    q(would) + w (r - q(played)),    w = P(bandit plays the caller's arm) / P(the caller plays it)

Expectations ``q`` are of before the reward was known, so that errors of the model cancel in the mean wherever the
caller's rule has a chance to play what the bandit would: there the rule *supports* it. What the rule never plays nobody
has seen, and ``q`` is the model's word alone. So ``q(would)`` counts only where the rule has played that cell; the rest
may be worth anything that a reward can be: with rewards from ``a`` to ``b`` the truth is between what it would be if
all of the rest earned ``a``, and if all of it earned ``b``. Where rewards have no bounds, neither has the truth.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from tensorbandits.bandit import intervals
from tensorbandits.bandit.intervals import Looks
from tensorbandits.base.checks import Cell, check_array

_RANGES = {"bernoulli": (0.0, 1.0), "binomial": (0.0, 1.0), "count": (0.0, math.inf), "revenue": (0.0, math.inf)}
_TOLERATED = 0.01  # the share without support beside which there still is one estimate
_FEWEST, _FEWEST_EVENTS = 20, 5  # decisions, and rewards other than 0, before there is an interval
_FEWEST_SEEN = 50.0, 20.0  # rewards other than 0 that corrections are worth, by their weights: of amounts, of clicks
_MATERIAL = 0.05  # the share of the variance from which on that matters
# Of all decisions that count: number, correction w (r - q(played)), its square, reward, its square, their product,
# weight, its square, rewards other than 0.
_COUNT, _C, _CC, _R, _RR, _CR, _W, _WW, _EVENTS = range(9)
# Of those whose own cell the rule has played, and of the others by that cell: number, q, its square, q times the
# correction, q times the reward, correction, reward.
_N, _Q, _QQ, _QC, _QR, _QN_C, _QN_R = range(7)

Judgement = Literal["better", "worse", "open", "unsupported", "too few"]


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


class Estimated(NamedTuple):
    """A mean, NaN where none can be given, and what the truth lies between."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Judged:
    """What a bandit would have earned beside what the caller's rule did, as far as that can be known.

    ``support`` is the share of what it would have played that the rule plays, too. ``bounded`` says whether the rest is
    bounded by what a reward can be. ``verdict`` is better, worse, open while the interval of the difference has zero in
    it, unsupported where that is because of what the rule never plays, or too few.
    """

    count: int
    support: float
    rule: Estimated
    bandit: Estimated
    difference: Estimated
    verdict: Judgement
    bounded: bool
    intervals: Looks


class Apprentice:
    """Sums over decisions whose rewards are known, and the shadows of those that wait.

    Where decisions that earn nothing are known only when their window ends, those that earn something are known sooner.
    To favour neither, they are then counted in the order in which they were made, as far as all before are known.

    >>> apprentice = Apprentice()
    >>> for number, weight in enumerate([1.0, 0.5, 0.0, 1.0]):
    ...     apprentice.open(str(number), Shadow((0,), weight, 0.6, 0.5), (0,), 10)
    >>> for number, reward in [("1", 1.0), ("3", 1.0), ("0", 0.0)]:
    ...     apprentice.reward(number, reward, in_order=True)
    >>> apprentice.count  # the third is not known yet
    2
    >>> apprentice.reward("2", 0.0, in_order=True)
    >>> apprentice.count, round(apprentice.judged("bernoulli").bandit.mean, 4), apprentice.earned
    (4, 0.6625, 0.5)
    """

    def __init__(self) -> None:
        self._sums = np.zeros(9)
        self._supported = np.zeros(7)
        self._others: dict[Cell, np.ndarray[Any, np.dtype[np.float64]]] = {}
        self._played: set[Cell] = set()  # by the caller's rule, whether its reward is known or not
        self._shadows: OrderedDict[str, tuple[Shadow, float | None]] = OrderedDict()
        self._waiting: OrderedDict[str, None] = OrderedDict()  # those not counted yet, in order

    def open(self, number: str, shadow: Shadow, played: Cell, capacity: int) -> None:
        """Remember what was said of a decision; at most ``capacity`` of them, rewarded or not."""
        self.forget(number)  # one of before with the same id, which nobody remembers
        self._shadows[number] = shadow, None
        self._waiting[number] = None
        self._play(played)
        while len(self._shadows) > capacity:
            self.forget(next(iter(self._shadows)))

    def _play(self, cell: Cell) -> None:
        """Take note that the caller's rule plays a cell."""
        if cell not in self._played:
            self._played.add(cell)
            self._supported += self._others.pop(cell, 0.0)

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

    def rename(self, names: Mapping[str, str]) -> None:
        """Put other ids in the place of those of decisions."""
        if names.keys() & self._shadows.keys():
            self._shadows = type(self._shadows)((names.get(one, one), known) for one, known in self._shadows.items())
            self._waiting = OrderedDict((names.get(one, one), None) for one in self._waiting)

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
        q, w = shadow.would, shadow.weight
        c = w * (reward - shadow.played)
        numbers = [1.0, c, c * c, reward, reward * reward, c * reward, w, w * w, float(reward != 0.0)]
        self._sums += sign * np.array(numbers)
        more = sign * np.array([1.0, q, q * q, q * c, q * reward, c, reward])
        if shadow.cell in self._played:
            self._supported += more
        else:
            self._others[shadow.cell] = self._others.get(shadow.cell, np.zeros(7)) + more

    @property
    def count(self) -> int:
        """Decisions whose rewards are known."""
        return round(float(self._sums[_COUNT]))

    @property
    def earned(self) -> float:
        """What the caller's rule earned per decision; NaN before it is known."""
        return float(self._sums[_R] / self._sums[_COUNT]) if self.count else math.nan

    @property
    def wanted(self) -> list[Cell]:
        """The cells that the bandit would have played, of the decisions that are remembered, the newest first."""
        return [shadow.cell for shadow, _ in reversed(self._shadows.values())]

    def judged(self, kind: str | None, *, level: float = 0.95, looks: Looks = "anytime") -> Judged:
        """Return what the bandit would have earned, what the rule did, and the difference."""
        n, others = float(self._sums[_COUNT]), sum(self._others.values(), np.zeros(7))
        unknown = Estimated(math.nan, math.nan, math.nan)
        if n < 1:
            return Judged(0, math.nan, unknown, unknown, unknown, "too few", False, looks)
        least, most = _RANGES.get(str(kind), (-math.inf, math.inf))
        lacking, slack = float(others[_N] / n), self._slack(float(1.0 - others[_N] / n), level, looks)
        earned = self._interval(0.0, others, least, most, level, looks, of="rule")
        rule = Estimated(earned.mean, max(earned.low, least), min(earned.high, most))
        means = {}
        for of, minus in (("bandit", 0.0), ("difference", 1.0)):
            spread = (most - least) * slack if slack else 0.0
            low = self._interval(minus, others, least, most, level, looks, of="low").low - spread
            high = self._interval(minus, others, least, most, level, looks, of="high").high + spread
            middle = (self._supported[_Q] + others[_Q] + self._sums[_C] - minus * self._sums[_R]) / n
            sure = lacking + slack <= _TOLERATED
            # Whatever it would have earned: between what a reward can be.
            floor, ceiling = (least - rule.high, most - rule.low) if minus else (least, most)
            means[of] = Estimated(float(middle) if sure else math.nan, max(low, floor), min(high, ceiling))
        difference = means["difference"]
        if difference.low > 0 or difference.high < 0:
            verdict: Any = "better" if difference.low > 0 else "worse"
        elif lacking + slack > _TOLERATED:
            verdict = "unsupported"
        else:
            few = n < _FEWEST or self._sums[_EVENTS] < _FEWEST_EVENTS
            verdict = "too few" if few or not math.isfinite(difference.high - difference.low) else "open"
        bounded = math.isfinite(difference.low) or math.isfinite(difference.high)
        support = max(1.0 - lacking - slack, 0.0)
        return Judged(self.count, support, rule, means["bandit"], difference, verdict, bounded, looks)

    def _slack(self, support: float, level: float, looks: Looks) -> float:
        """How much of the support is past: the rule once played it, but weights, whose mean is the support, lack it."""
        n, w, squares = (float(self._sums[at]) for at in (_COUNT, _W, _WW))
        if n < _FEWEST or squares <= 0:
            return 0.0
        error = math.sqrt(max(squares / n - (w / n) ** 2, 0.0) / n)
        found = intervals.amount(w / n, error, w * w / squares, level, looks)
        return max(support - found.high.item(), 0.0)

    def _interval(
        self, minus: float, others: Any, least: float, most: float, level: float, looks: Looks, *, of: str
    ) -> Estimated:
        """The bounds of what the rule earned; or of what the bandit would have, less so much of the rule, at an end.

        The end is what each decision earns whose own cell the rule has never played: the least, or the most.
        """
        n, c, cc, r, rr, cr, w, ww, events = self._sums.tolist()
        s, u = self._supported, others
        if of == "rule":
            mean, squares, correction = r / n, rr, 0.0
        else:
            end = least if of == "low" else most
            if not math.isfinite(end) and u[_N] > 0:
                return Estimated(math.nan, -math.inf, math.inf)
            end = end if u[_N] > 0 else 0.0
            x, xr = s[_Q] + c + end * u[_N], s[_QR] + cr + end * u[_QN_R]
            xx = s[_QQ] + 2.0 * s[_QC] + cc + end * end * u[_N] + 2.0 * end * u[_QN_C]
            mean, squares = (x - minus * r) / n, xx - 2.0 * minus * xr + minus * minus * rr
            correction = max(cc / n - (c / n) ** 2, 0.0)
        if n < _FEWEST or events < _FEWEST_EVENTS:
            return Estimated(float(mean), -math.inf, math.inf)
        variance = max(squares / n - mean * mean, 0.0)
        if (least, most) == (0.0, 1.0):  # few clicks, or none, are no proof that there are none
            share = (r + 1.0) / (n + 2.0)
            variance = max(variance, (1.0 if of == "rule" else minus) * share * (1.0 - share))
        usual = intervals.errors(events, level, looks).item()
        half = usual * math.sqrt(variance / n)
        if correction > 0 and ww > 0:  # which rests on few decisions where weights are large
            seen = events / n * w * w / ww
            if seen < _FEWEST_SEEN[(least, most) == (0.0, 1.0)] and correction > _MATERIAL * variance:
                return Estimated(float(mean), -math.inf, math.inf)
            rare = intervals.errors(seen, level, looks).item()
            half += max(rare - usual, 0.0) * math.sqrt(correction / n)
        return Estimated(float(mean), float(mean - half), float(mean + half))

    def state(self) -> dict[str, Any]:
        """Return everything as plain arrays and text."""
        shadows = list(self._shadows.values())
        return {
            "all": self._sums.copy(),
            "supported": self._supported.copy(),
            "unplayed": np.array(list(self._others), dtype=np.int64),
            "others": np.array(list(self._others.values()), dtype=np.float64).reshape(-1, 7),
            "played": np.array(sorted(self._played), dtype=np.int64),
            "ids": np.frombuffer("\n".join(self._shadows).encode(), dtype=np.uint8),
            "cells": np.array([shadow.cell for shadow, _ in shadows], dtype=np.int64),
            "said": np.array([shadow[1:] for shadow, _ in shadows], dtype=np.float64).reshape(-1, 3),
            "known": np.array([reward is not None for _, reward in shadows], dtype=np.int64),
            "rewards": np.array([reward or 0.0 for _, reward in shadows], dtype=np.float64),
            "waiting": np.array([number in self._waiting for number in self._shadows], dtype=np.int64),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any], played: Callable[[str], Cell | None]) -> Self:
        """Return what :meth:`state` described.

        States of before support was kept know nothing of what the rule plays: of these, decisions are counted again
        whose cells, as ``played`` tells them by id, are still known.
        """
        self = cls()
        text = np.asarray(state["ids"]).astype(np.uint8).tobytes().decode()
        ids = text.split("\n") if text else []
        parts = ("cells", "said", "known", "rewards", "waiting")
        rows = list(zip(*(np.asarray(state[name]).tolist() for name in parts), strict=True))
        for number, (cell, said, known, reward, waits) in zip(ids, rows, strict=True):
            self._shadows[number] = Shadow(tuple(cell), *said), reward if known else None
            if waits:
                self._waiting[number] = None
        if "all" in state:
            self._sums = check_array(state["all"], "all", (9,)).copy()
            self._supported = check_array(state["supported"], "supported", (7,)).copy()
            cells = [tuple(cell) for cell in np.asarray(state["unplayed"]).tolist()]
            sums = check_array(state["others"], "others", (len(cells), 7))
            self._others = {cell: row.copy() for cell, row in zip(cells, sums, strict=True)}
            self._played = {tuple(cell) for cell in np.asarray(state["played"]).tolist()}
            return self
        check_array(state["sums"], "sums", (6,))
        for number in ids:
            cell = played(number)
            if cell is None:
                del self._shadows[number]
                self._waiting.pop(number, None)
            else:
                self._played.add(cell)
        for number, (shadow, known) in self._shadows.items():
            if known is not None and number not in self._waiting:
                self._add(shadow, known, 1.0)
        return self

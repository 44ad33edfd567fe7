"""Who decided, with what chance, and what it earned: sums from which sides can be compared as in an experiment.

Each decision is made by one of three sides: the bandit's own policy, the holdout's baseline, or a caller's own rule.
Which one is drawn at random, with chances that are known. Sums are kept apart for each set of chances (*stratum*), so
that sides can be weighed alike however often shares were changed. Decisions that no draw could have given to another
side are counted, and compared with nothing.

A reward that is there is known sooner than that none will come. So decisions are counted in the order in which they
were made, as far as it is settled what all before earned: their window has ended, or they have a reward and so have the
next twenty, as otherwise those would be counted first that click at once. Without a window nobody says that none will
come; there a decision is settled once it has a reward, or waited longer than 99 % of rewards took. Rewards that come or
change after that correct the sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit.visitors import PARTS, grouped, parted
from tensorbandits.base.checks import check_array, check_count

Floats = NDArray[np.float64]

SIDES = ("policy", "holdout", "caller")
POLICY, HOLDOUT, CALLER = range(3)
DECISIONS, REWARDS, EVENTS, TOTAL, SQUARES = range(5)  # events are rewards other than 0
_OF_PARTS = [DECISIONS, REWARDS, TOTAL, SQUARES]
_ONE = np.array([1.0, 0.0, 0.0, 0.0, 0.0])  # decision
_UNKNOWN = (-1.0, 0.0)  # chances of decisions that were made before chances were kept
_NEVER = -1e300  # before any time
_ROUNDING = 1e-12  # of chances
_LAGS, _LEAST_LAG = 64, -10  # of seconds, by powers of two
_ENOUGH, _NEARLY = 20, 0.99  # lags that are known, and the share of them to wait for


NO_WINDOW, SECONDS, ROUNDS = range(3)
_TOGETHER = 20  # decisions that are all known before the first counts, whose window has not ended


class Waits(NamedTuple):
    """How long a decision waits: until its window ends, by which clock; or when it was made, if it has none."""

    when: float
    clock: int


class Compared(NamedTuple):
    """A copy of the sums: chances of the sides (strata, 3), sums (strata, 3, 5), and decisions that are not settled.

    ``parts`` (strata, 3, 128, 4) are decisions, rewards, their sum and that of their squares of known visitors, where
    sides were drawn once for each.
    """

    chances: Floats
    sums: Floats
    waiting: Floats  # (strata, 3)
    parts: Floats | None = None

    def side(self, side: int, able: Any = slice(None)) -> Floats | None:
        """Return the parts of a side in some strata."""
        return None if self.parts is None else self.parts[able, side]


class SideSums:
    """Sums of decisions and rewards by stratum and side, and what is not settled yet.

    >>> comparison = SideSums()
    >>> group = [comparison.group((0.9, 0.1), side) for side in (POLICY, HOLDOUT)]
    >>> for order, side in enumerate([POLICY, HOLDOUT, POLICY], start=1):
    ...     comparison.enter(order, group[side], Waits(0.0, NO_WINDOW), 100)
    >>> comparison.reward(2, group[HOLDOUT], None, 1.0)
    >>> comparison.settled  # the first is not known yet
    0
    >>> comparison.reward(1, group[POLICY], None, 0.0)
    >>> comparison.settled, comparison.compared().sums[0, :2, TOTAL].tolist()
    (2, [0.0, 1.0])
    """

    def __init__(self) -> None:
        self._strata: dict[tuple[float, float], int] = {}  # by the chances of policy and holdout
        self._sums = np.zeros((0, 3, 5))
        self.salt = ""  # by which visitors get their places, where a bandit has no name
        self._parts: dict[int, Floats] = {}  # of strata with known visitors, (3, 128, 4)
        # Decisions by their place: group, how long it waits, reward, and whether it ended without one.
        self._pending: dict[int, tuple[int, float, int, float | None, bool]] = {}
        self.settled, self._last = 0, 0  # the places up to which all are settled, and of the last decision
        self._open = 1  # the first place after that of a decision that is still open
        self._now, self._round = _NEVER, 0.0
        self._lags = np.zeros(_LAGS, dtype=np.int64)

    @property
    def pending(self) -> int:
        """How many decisions are not settled, those included that wait for one before them."""
        return len(self._pending)

    def group(self, chances: tuple[float, float], side: int, part: int | None = None) -> int:
        """Return the number by which a side that was drawn with the others by these chances is known."""
        at = self._strata.get(chances)
        if at is None:
            at = self._strata[chances] = len(self._strata)
            self._sums = np.concatenate([self._sums, np.zeros((1, 3, 5))])
        return grouped(3 * at + side, part)

    def enter(self, order: int, group: int, waits: Waits, capacity: int) -> None:
        """Take note of a decision by its place among all that were shown; at most ``capacity`` of them wait."""
        if not self._pending:
            self.settled = order - 1
        self._pending[order], self._last = (group, *waits, None, False), order
        while len(self._pending) > capacity:
            self._pass()

    def reward(self, order: int, group: int, old: float | None, new: float | None) -> None:
        """Take the reward of a decision in the place of the ``old`` one; ``None`` is for no reward."""
        if (one := self._pending.get(order)) is not None:
            self._pending[order] = (*one[:3], new, one[4])
            self._open = min(self._open, order)
            self._settle()
        elif group >= 0:
            for value, sign in ((old, -1.0), (new, 1.0)):
                if value is not None:
                    self._add(group, sign * np.array([0.0, 1.0, float(value != 0.0), value, value * value]))

    def _add(self, group: int, change: Floats) -> None:
        """Add to the sums of a group, and to those of its part of the visitors."""
        group, part = parted(group)
        self._sums[group // 3, group % 3] += change
        if part >= 0:
            at = self._parts.setdefault(group // 3, np.zeros((3, PARTS, len(_OF_PARTS))))
            at[group % 3, part] += change[_OF_PARTS]

    def end(self, order: int) -> None:
        """Take note that the window of a decision has ended without a reward."""
        if (one := self._pending.get(order)) is not None:
            self._pending[order] = (*one[:4], True)
            self._settle()

    def cancel(self, order: int, group: int) -> None:
        """Count a decision no more, which was not carried out."""
        if self._pending.pop(order, None) is not None:
            self._settle()
        elif group >= 0:
            self._add(group, -_ONE)

    def lag(self, seconds: float) -> None:
        """Take note of how long a reward took."""
        exponent = math.frexp(seconds)[1] if seconds > 0 else _LEAST_LAG
        self._lags[min(max(exponent - _LEAST_LAG, 0), _LAGS - 1)] += 1

    @property
    def patience(self) -> float:
        """The seconds after which nearly all rewards have come, at most twice as many; infinite if too few have."""
        count = int(self._lags.sum())
        if count < _ENOUGH:
            return math.inf
        at = int(np.searchsorted(self._lags.cumsum(), _NEARLY * count))
        return math.ldexp(1.0, at + _LEAST_LAG)

    def settle(self, now: float, rounds: float) -> None:
        """Count decisions as far as what they earned is settled at a time, after so many decisions."""
        self._now, self._round = max(now, self._now), max(rounds, self._round)
        self._settle()

    def _settle(self) -> None:
        while self.settled < self._last:
            one = self._pending.get(self.settled + 1)
            if one is None:  # it was cancelled
                self.settled += 1
            elif self._is_settled(*one[1:]):
                self._pass()
            else:
                break

    def _is_settled(self, when: float, clock: int, reward: float | None, ended: bool) -> bool:
        """Whether the first decision that waits is settled."""
        if clock == NO_WINDOW:
            return reward is not None or ended or (self._now > when and self._now - when > self.patience)
        if reward is None:
            return ended
        return when < (self._round if clock == ROUNDS else self._now) or self._together()

    def _together(self) -> bool:
        """Whether the first twenty decisions that wait are known."""
        self._open = max(self._open, self.settled + 1)
        until = self.settled + _TOGETHER
        while self._open <= min(until, self._last):
            one = self._pending.get(self._open)
            if one is not None and one[3] is None and not one[4]:
                return False
            self._open += 1
        return self._open > until

    def _pass(self) -> None:
        """Count the first decision that waits, as it is."""
        while (one := self._pending.pop(self.settled + 1, None)) is None:
            self.settled += 1
        self.settled += 1
        group, _, _, reward, _ = one
        if group >= 0:
            self._add(group, _ONE)
            self.reward(self.settled, group, None, reward)

    def seed(self, sums: Floats, chances: tuple[float, float] | None) -> list[int]:
        """Start from sums by side (3, 5) of before there was a comparison; return the groups of the sides."""
        groups = [self.group(_UNKNOWN if chances is None else chances, side) for side in range(3)]
        self._sums[groups[0] // 3] += sums
        return groups

    # Reading.

    def compared(self) -> Compared:
        """Return a copy of the sums."""
        pairs = np.array(list(self._strata), dtype=float).reshape(-1, 2)
        rest = 1.0 - pairs.sum(axis=1, keepdims=True)
        chances = np.where(pairs[:, :1] < 0.0, 0.0, np.hstack([pairs, np.where(rest > _ROUNDING, rest, 0.0)]))
        waiting = np.zeros((len(pairs), 3))
        for group, *_ in self._pending.values():
            group, _ = parted(group)
            if group >= 0:
                waiting[group // 3, group % 3] += 1.0
        parts = None
        if self._parts:
            parts = np.zeros((len(pairs), 3, PARTS, len(_OF_PARTS)))
            parts[list(self._parts)] = list(self._parts.values())
        return Compared(chances, self._sums.copy(), waiting, parts)

    # Saving and making again.

    def state(self) -> dict[str, Any]:
        """Return everything as plain arrays and numbers."""
        rows = list(self._pending.values())
        return {
            "chances": np.array(list(self._strata), dtype=float).reshape(-1, 2),
            "sums": self._sums.copy(),
            "salt": self.salt,
            "visited": np.array(list(self._parts), dtype=np.int64),  # strata with known visitors
            "parts": np.array(list(self._parts.values())).reshape(-1, 3, PARTS, len(_OF_PARTS)),
            "settled": self.settled,
            "last": self._last,
            "clock": np.array([self._now, self._round]),
            "lags": self._lags.copy(),
            "orders": np.array(list(self._pending), dtype=np.int64),
            "groups": np.array([row[0] for row in rows], dtype=np.int64),
            "times": np.array([row[1] for row in rows], dtype=float),
            "clocks": np.array([row[2] for row in rows], dtype=np.int64),
            "told": np.array([row[3] is not None for row in rows], dtype=np.int64),
            "rewards": np.array([row[3] or 0.0 for row in rows], dtype=float),
            "ended": np.array([row[4] for row in rows], dtype=np.int64),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """Return what :meth:`state` described."""
        self = cls()
        chances = np.asarray(state["chances"], dtype=float)
        for pair in check_array(chances, "chances", (len(chances), 2)).tolist():
            self._strata[tuple(pair)] = len(self._strata)
        self._sums = check_array(state["sums"], "sums", (len(chances), 3, 5)).copy()
        self._restore_parts(state)
        self.settled = check_count(state["settled"], "settled", 0)
        self._last = check_count(state["last"], "last", 0)
        self._now, self._round = check_array(state["clock"], "clock", (2,)).tolist()
        self._lags = check_array(state["lags"], "lags", (_LAGS,), integers=True).astype(np.int64)
        count = len(np.asarray(state["orders"]))
        whole = ("orders", "groups", "clocks", "told", "ended")
        columns = {
            name: check_array(state[name], name, (count,), integers=name in whole).tolist()
            for name in (*whole, "times", "rewards")
        }
        for order, group, clock, told, ended, time, reward in zip(*columns.values(), strict=True):
            if not -1 <= parted(group)[0] < 3 * len(chances) or parted(group)[1] >= PARTS:
                raise ValueError(f"a decision is of group {group}, of which there are {3 * len(chances)}")
            self._pending[order] = group, time, clock, reward if told else None, bool(ended)
        return self

    def _restore_parts(self, state: Mapping[str, Any]) -> None:
        if "visited" not in state:  # which was not there at first
            return
        self.salt = str(state["salt"])
        visited = check_array(state["visited"], "visited", (len(state["visited"]),), integers=True).tolist()
        shape = (len(visited), 3, PARTS, len(_OF_PARTS))
        parts = check_array(state["parts"], "parts", shape)
        if len(set(visited)) < len(visited) or not all(0 <= at < len(self._strata) for at in visited):
            raise ValueError(f"visitors are counted in the strata {visited}, of which there are {len(self._strata)}")
        self._parts = {at: one.copy() for at, one in zip(visited, parts, strict=True)}

"""The book of decisions: which wait for their reward, which have it, and what a reward changes.

A decision is inactive until it is shown, then open until its reward comes, its window ends, or it is cancelled. The
book knows no policy: it answers with the change that a ledger has to make. It keeps open decisions up to a number, and
the last closed ones up to another, so that its memory is bounded; of older ones only their ids are known to be old.
"""

from __future__ import annotations

import math
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Self

import numpy as np

from tensorbandits.bandit.spans import Span
from tensorbandits.bandit.timeline import Timeline
from tensorbandits.base.checks import Cell, check_array, check_cells, check_count

_STATES = ("inactive", "open", "rewarded", "timed out", "cancelled")
INACTIVE, OPEN, REWARDED, TIMED_OUT, CANCELLED = _STATES
_LONGEST_ID = 200


class UnknownDecisionError(LookupError):
    """No decision ever had this id here."""


class ExpiredDecisionError(LookupError):
    """The decision was closed so long ago that it is forgotten."""


class CancelledDecisionError(ValueError):
    """The decision was cancelled, and takes no reward."""


class ClosedDecisionError(ValueError):
    """The decision has another reward already, or one that cannot be taken back."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a ledger has to do: record ``new`` for a cell, or replace ``old`` by it; and the note of the decision."""

    cell: Cell
    old: float | None
    new: float
    note: Any
    record: Record | None = field(default=None, compare=False, repr=False)
    state: str = field(default=OPEN, compare=False, repr=False)  # of the decision before


class Record:
    """One decision: its cell, its note, the reward that was told of it, until when it waits, and its state.

    Whoever tells a policy the reward writes here when that was: the number of the reward, and the era of fading.
    ``mark`` says where the timeline counts the decision, -1 for nowhere, and ``held`` whether the holdout made it;
    ``time`` is when it was made, and ``order`` its place among all that were shown, 0 before.
    """

    __slots__ = ("cell", "due", "era", "held", "mark", "note", "number", "order", "reward", "state", "time")

    def __init__(self, cell: Cell, note: Any, due: float, state: str, held: bool = False, time: float = 0.0) -> None:
        self.cell, self.note, self.due, self.state, self.held, self.time = cell, note, due, state, held, time
        self.reward: float | None = None
        self.number, self.era, self.mark, self.order = 0, 0, -1, 0


class Book:
    """Decisions by id.

    Parameters
    ----------
    window : how long an active decision waits, if not for ever.
    default : the reward of a decision whose window ends without one; ``None`` tells nothing then.
    adds : whether the rewards of one decision may add up.
    capacity : decisions that may wait at once; beyond, the oldest is closed as if its window had ended.
    remember : closed decisions that are kept, so that what is told twice is noticed and what was wrong can be amended.
    timeline : counts decisions that were shown, and their rewards, over time.

    >>> book = Book(window=Span.of("10 min", "window"), default=0.0)
    >>> one = book.open((0, 1), time=0.0)
    >>> book.expire(time=700.0)
    [Change(cell=(0, 1), old=None, new=0.0, note=None)]
    >>> book.tell(one, 1.0)  # late: it takes the place of the default
    Change(cell=(0, 1), old=0.0, new=1.0, note=None)
    >>> book.tell(one, 1.0), book.status(one)
    (None, 'rewarded')
    """

    def __init__(
        self,
        *,
        window: Span | None = None,
        default: float | None = None,
        adds: bool = False,
        capacity: int = 1_000_000,
        remember: int = 100_000,
        timeline: Timeline | None = None,
    ) -> None:
        self.window, self.default, self.adds, self.timeline = window, default, adds, timeline
        self.capacity = check_count(capacity, "capacity")
        self.remember = check_count(remember, "remember", 0)
        self.rounds = 0  # decisions that became active so far
        # Plain dicts would look for the oldest among all that were removed before it.
        self._inactive: OrderedDict[str, Record] = OrderedDict()
        self._open: OrderedDict[str, Record] = OrderedDict()  # in order of their windows' ends
        self._closed: OrderedDict[str, Record] = OrderedDict()  # in order of the last change
        self._cells: dict[Cell, Cell] = {}  # one tuple for all decisions of a cell
        self._issued: dict[str, int] = {}  # by the token that ids start with
        self.renew()

    def renew(self) -> None:
        """Let ids start with another token from now on, as a copy of the book could give the same ones elsewhere."""
        self._token = uuid.uuid4().hex[:12]
        self._issued[self._token] = 0

    def __len__(self) -> int:
        """Return how many decisions wait, shown or not."""
        return len(self._open) + len(self._inactive)

    def __contains__(self, number: object) -> bool:
        """Say whether a decision with this id is kept."""
        return number in self._open or number in self._inactive or number in self._closed

    def issue(self) -> str:
        """Return an id that no decision has had."""
        serial = self._issued[self._token]
        self._issued[self._token] = serial + 1
        return f"{self._token}-{serial}"

    def open(
        self,
        cell: Cell,
        note: Any = None,
        *,
        time: float,
        active: bool = True,
        held: bool = False,
        number: str | None = None,
    ) -> str:
        """Enter a decision, ``held`` if the holdout made it, and return its id, which may be given as ``number``.

        :meth:`expire` then says what else is to be done.
        """
        if number is None:
            number = self.issue()
        elif check_id(number) in self:
            raise ClosedDecisionError(f"a decision has the id {number!r} already; give each its own, or none")
        if len(self._cells) > self.capacity:
            self._cells.clear()
        record = Record(self._cells.setdefault(cell, cell), note, 0.0, INACTIVE, held, time)
        if active:
            self._activate(number, record, time)
        else:
            self._inactive[number] = record
        return number

    def _activate(self, number: str, record: Record, time: float) -> None:
        self.rounds += 1
        record.state, record.order = OPEN, self.rounds
        if self.timeline is not None:
            record.mark = self.timeline.enter(record.cell, time=time, held=record.held)
        if self.window is not None:
            record.due = (self.rounds if self.window.rounds else time) + self.window.length
        self._open[number] = record

    def activate(self, number: Any, *, time: float) -> None:
        """Say that a decision was shown: its window begins. That of one which is active, or closed, is left alone."""
        if self.awaits_showing(number):
            self._activate(number, self._inactive.pop(number), time)

    def awaits_showing(self, number: Any) -> bool:
        """Say whether a decision was not shown yet; refuse one that was cancelled."""
        record = self._find(number)
        if record.state == CANCELLED:
            raise _cancelled(number, "it cannot be shown any more: ask again")
        return record.state == INACTIVE

    def cancel(self, number: Any) -> None:
        """Say that a decision was not carried out, and takes no reward; again is no matter."""
        may, record = self.may_cancel(number), self._find(number)
        if self.timeline is not None and record.mark >= 0 and may:
            self.timeline.cancel(record.mark, record.cell, held=record.held)
        self._close(number, record, CANCELLED)

    def may_cancel(self, number: Any) -> bool:
        """Say whether a decision is not cancelled yet; refuse one that has a reward."""
        record = self._find(number)
        if record.reward is not None:
            raise ClosedDecisionError(
                f"decision {number!r} has the reward {record.reward:g} already, and cannot be cancelled; amend it with "
                "tell(id, reward, amend=True)"
            )
        return record.state != CANCELLED

    def tell(
        self,
        number: Any,
        reward: float,
        *,
        amend: bool = False,
        add: bool = False,
        check: Callable[[float], float] = float,
    ) -> Change | None:
        """Enter the reward of a decision, and return what it changes; the same again changes nothing.

        ``check`` is applied to what the ledger would be told, before anything is changed.
        """
        value = self.plan(number, reward, amend=amend, add=add, check=check)
        return None if value is None else self.enter(number, value)

    def plan(
        self,
        number: Any,
        reward: float,
        *,
        amend: bool = False,
        add: bool = False,
        check: Callable[[float], float] = float,
    ) -> float | None:
        """Return the reward that a decision would have after :meth:`tell`, or ``None`` if it is told that already."""
        record = self._find(number)
        if record.state == CANCELLED:
            raise _cancelled(number, "it takes no reward: tell(arm=..., context=..., reward=...) needs no decision")
        if add and not self.adds:
            raise ValueError("add is True, but rewards do not add up here; make the bandit with adds=True")
        value = check(reward)
        before = record.reward if record.state == REWARDED else None
        if before is not None and add:
            value = check(before + value)
        elif before is not None and value != before and not amend:
            raise ClosedDecisionError(
                f"decision {number!r} has the reward {before:g} already, and {value:g} is told now; to replace it, use "
                "amend=True" + (", to add to it, add=True" if self.adds else "")
            )
        return None if value == before else value

    def enter(self, number: Any, reward: float) -> Change | None:
        """Give a decision a reward, whatever it had before; return what that changes."""
        record = self._find(number)
        old, state = record.reward, record.state
        self._reward(record, reward)
        self._close(number, record, REWARDED)
        return None if reward == old else Change(record.cell, old, reward, record.note, record, state)

    def expire(self, *, time: float) -> list[Change]:
        """Close the decisions whose window has ended, and those that are too many; return what that changes."""
        ended, dropped = self.overdue(time=time)
        changes = [change for number in ended if (change := self.time_out(number, self.default)) is not None]
        for number in dropped:
            self.cancel(number)
        return changes

    def overdue(self, *, time: float) -> tuple[list[str], list[str]]:
        """Return the ids of decisions whose window has ended, or that are too many, and of unshown ones too many."""
        now = self.rounds if self.window is not None and self.window.rounds else time
        excess = len(self._open) - self.capacity
        ended: list[str] = []
        for number, record in self._open.items():
            if len(ended) >= excess and (self.window is None or now <= record.due):
                break
            ended.append(number)
        return ended, list(islice(self._inactive, max(len(self._inactive) - self.capacity, 0)))

    def settled(self) -> float:
        """Return up to which place among the decisions that were shown all rewards are known, defaults included.

        Where unrewarded decisions are told nothing there is nothing to wait for.
        """
        if self.default is None:
            return math.inf
        return next(iter(self._open.values())).order - 1 if self._open else self.rounds

    def by_order(self, places: Iterable[int]) -> dict[int, Record]:
        """Return those decisions that are kept, by their place among those that were shown."""
        wanted = set(places)
        return {record.order: record for _, record in self._all() if record.order in wanted} if wanted else {}

    def time_out(self, number: str, reward: float | None) -> Change | None:
        """Close a decision whose window has ended, with a reward if there is one; return what that changes."""
        record = self._find(number)
        self._close(number, record, TIMED_OUT)
        if reward is None:
            return None
        self._reward(record, reward)
        return Change(record.cell, None, reward, record.note, record)

    def _reward(self, record: Record, reward: float | None) -> None:
        """Give a decision a reward, or another; the timeline has none of a decision that was never shown."""
        if self.timeline is not None and record.mark >= 0:
            self.timeline.reward(record.mark, record.cell, record.reward, reward, held=record.held)
        record.reward = reward

    def _close(self, number: str, record: Record, state: str) -> None:
        for held in (self._inactive, self._open, self._closed):
            held.pop(number, None)
        record.state = state
        self._closed[number] = record
        while len(self._closed) > self.remember:
            self._closed.popitem(last=False)

    def status(self, number: Any) -> str:
        """Return the state of a decision: inactive, open, rewarded, timed out or cancelled."""
        return self._find(number).state

    def time(self, number: Any) -> float:
        """Return when a decision was made."""
        return self._find(number).time

    def oldest(self, count: int) -> list[tuple[str, Record]]:
        """Return the decisions that wait longest, shown or not."""
        some = [*islice(self._open.items(), count), *islice(self._inactive.items(), count)]
        return sorted(some, key=lambda pair: pair[1].time)[:count]

    def reward(self, number: Any) -> float | None:
        """Return the reward of a decision, or its default once that was told; ``None`` while there is none."""
        return self._find(number).reward

    def revert(self, change: Change) -> None:
        """Let a decision have the reward that it had before a change that was refused."""
        if change.record is not None and change.record.reward == change.new:
            self._reward(change.record, change.old)
            change.record.state = change.state

    def _find(self, number: Any) -> Record:
        if not isinstance(number, str):
            raise TypeError(f"the id is {number!r}; give the id of a decision, which is text: decision.id")
        for held in (self._open, self._inactive, self._closed):
            if number in held:
                return held[number]
        token, _, serial = number.rpartition("-")
        if serial.isascii() and serial.isdigit() and len(serial) < 20 and int(serial) < self._issued.get(token, 0):
            raise ExpiredDecisionError(
                f"decision {number!r} was closed long ago, and is forgotten; at most {self.capacity:,} decisions wait, "
                f"and {self.remember:,} closed ones are kept: make the bandit with more, or use "
                "tell(arm=..., context=..., reward=...), which needs no decision"
            )
        raise UnknownDecisionError(
            f"no decision has the id {number!r}; give one that ask returned, of this bandit: decision.id"
        )

    # Saving and making again.

    def _all(self) -> Iterator[tuple[str, Record]]:
        return chain(self._inactive.items(), self._open.items(), self._closed.items())

    def state(self) -> dict[str, Any]:
        """Return all decisions as plain arrays, and how many ids were given."""
        ids = "\n".join(number for number, _ in self._all())
        records = [record for _, record in self._all()]
        return {
            "rounds": self.rounds,
            "issued": dict(self._issued),
            "ids": np.frombuffer(ids.encode(), dtype=np.uint8),
            "cells": np.array([record.cell for record in records], dtype=np.int64),
            "states": np.array([_STATES.index(record.state) for record in records], dtype=np.int64),
            "due": np.array([record.due for record in records]),
            "times": np.array([record.time for record in records]),
            "told": np.array([record.reward is not None for record in records], dtype=np.int64),
            "rewards": np.array([record.reward or 0.0 for record in records]),
            "numbers": np.array([record.number for record in records], dtype=np.int64),
            "eras": np.array([record.era for record in records], dtype=np.int64),
            "notes": {str(at): record.note for at, record in enumerate(records) if record.note is not None},
            "marks": np.array([record.mark for record in records], dtype=np.int64),
            "orders": np.array([record.order for record in records], dtype=np.int64),
            "held": np.array([record.held for record in records], dtype=np.int64),
            "timeline": None if self.timeline is None else self.timeline.state(),
        }

    def restore(self, state: Mapping[str, Any], shape: Cell) -> Self:
        """Take back what :meth:`state` returned, of cells within a shape; ids start with another token."""
        self.rounds = check_count(state["rounds"], "rounds", 0)
        self._issued = {str(token): check_count(count, "issued", 0) for token, count in state["issued"].items()}
        ids = _read_ids(state["ids"], list(self._issued))
        count = len(ids)
        cells = check_cells(state["cells"], shape)
        states, told = (check_array(state[name], name, (count,), integers=True) for name in ("states", "told"))
        due, rewards = (check_array(state[name], name, (count,)) for name in ("due", "rewards"))
        times = check_array(state.get("times", np.zeros(count)), "times", (count,))  # states did not always have it
        when = [  # states did not always have it
            check_array(state.get(name, np.zeros(count, dtype=np.int64)), name, (count,), integers=True).tolist()
            for name in ("numbers", "eras", "orders")
        ]
        if count and not 0 <= states.min() <= states.max() < len(_STATES):
            raise ValueError(f"states are from {states.min()} to {states.max()}; they are from 0 to {len(_STATES) - 1}")
        marks, holdout = self._restore_timeline(state, shape, count)
        columns = (column.tolist() for column in (cells, states, due, times, told, rewards))
        notes, shared = state["notes"], self._cells.setdefault
        holding = [
            self._inactive if name == INACTIVE else self._open if name == OPEN else self._closed for name in _STATES
        ]
        for at, row in enumerate(zip(ids, *columns, *when, marks, holdout, strict=True)):
            identity, levels, code, end, time, has, reward, number, era, order, mark, held = row
            cell = tuple(levels)
            record = Record(shared(cell, cell), notes.get(str(at)) if notes else None, end, _STATES[code], held)
            record.mark, record.time, record.order, record.number, record.era = mark, time, order, number, era
            record.reward = reward if has else None
            holding[code][identity] = record
        self.renew()
        return self

    def _restore_timeline(self, state: Mapping[str, Any], shape: Cell, count: int) -> tuple[list[int], list[bool]]:
        """Take back the timeline, and return where it counts each decision; states did not always have it."""
        if self.timeline is None or state.get("timeline") is None:
            return [-1] * count, [False] * count
        self.timeline.restore(state["timeline"], shape)
        marks, held = (check_array(state[name], name, (count,), integers=True) for name in ("marks", "held"))
        if ((marks < -1) | (marks >= self.timeline.count)).any():
            raise ValueError("a decision is counted in no block of the timeline; give what state returned, whole")
        return marks.tolist(), held.astype(bool).tolist()


def check_id(number: Any) -> str:
    """Return an id that a caller gives, checked.

    >>> check_id("order 17")
    'order 17'
    """
    if not isinstance(number, str):
        raise TypeError(f"the id is {number!r}; give text of at most {_LONGEST_ID} characters")
    if not 0 < len(number) <= _LONGEST_ID or not number.isprintable():
        shown = number if len(number) <= _LONGEST_ID else number[:20] + "…"
        raise ValueError(
            f"the id is {shown!r}, of {len(number)} characters; give 1 to {_LONGEST_ID} of them that can be printed"
        )
    return number


def _read_ids(saved: Any, tokens: list[str]) -> list[str]:
    """Return the ids that a state holds; pairs of a token's place and a serial, at first."""
    array = np.asarray(saved)
    if array.ndim == 2:
        pairs = check_array(array, "ids", (len(array), 2), integers=True).tolist()
        return [f"{tokens[check_count(at, 'a token', 0)]}-{check_count(serial, 'a serial', 0)}" for at, serial in pairs]
    text = check_array(array, "ids", (len(array),), integers=True).astype(np.uint8).tobytes().decode()
    ids = text.split("\n") if text else []
    if len(set(ids)) != len(ids):
        raise ValueError("two decisions have the same id; give what state returned, whole")
    return [check_id(number) for number in ids]


def _cancelled(number: str, remedy: str) -> CancelledDecisionError:
    return CancelledDecisionError(f"decision {number!r} was cancelled; {remedy}")

"""The book of decisions: which wait for their reward, which have it, and what a reward would change.

A decision is inactive until it is shown, then open until its reward comes, its window ends, or it is cancelled. The
book knows no policy and no clock. ``plan_...`` says what a call would do and changes nothing; the other methods do it.
Decisions that wait are kept up to a number, and the last closed ones up to another, so that memory is bounded.
Records are immutable: a copy of the book costs one copy of its dictionary. They are kept as plain tuples of numbers and
text, which Python's garbage collector leaves alone: a look at a hundred thousand of them would stop all threads.
"""

from __future__ import annotations

import copy
import heapq
import math
import os
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit.journal import Journal
from tensorbandits.bandit.spans import Span
from tensorbandits.base import pieces
from tensorbandits.base.checks import Cell, check_array, check_cells, check_count
from tensorbandits.base.errors import TensorbanditsError

_STATES = ("inactive", "open", "rewarded", "timed out", "cancelled")
INACTIVE, OPEN, REWARDED, TIMED_OUT, CANCELLED = _STATES
_LONGEST_ID = 200
_SPARE = 1_000  # entries of queues that may be out of date, before they are made anew


class UnknownDecisionError(TensorbanditsError, LookupError):
    """No decision ever had this id here."""


class ExpiredDecisionError(TensorbanditsError, LookupError):
    """The decision was closed so long ago that it is forgotten."""


class CancelledDecisionError(TensorbanditsError, ValueError):
    """The decision was cancelled, and takes no reward."""


class InactiveDecisionError(TensorbanditsError, ValueError):
    """The decision was not shown yet, as far as is known, and takes no reward where that has to be said first."""


class ClosedDecisionError(TensorbanditsError, ValueError):
    """The decision has another reward already, or one that cannot be taken back."""


class Record(NamedTuple):
    """One decision as it is now.

    ``order`` is its place among all that were shown, 0 before. ``number`` and ``era`` say when its reward was told:
    its number among rewards, and the step of fading. ``stamp`` counts decisions that were made or closed: it is that of
    the last of the two.
    """

    cell: Cell
    time: float  # when it was made
    state: str = INACTIVE
    note: Any = None  # of the policy
    side: int = 0  # who made it: the policy, the holdout, or a caller's own rule
    due: float = math.inf  # when its window ends, in seconds or in rounds
    in_rounds: bool = False  # which of the two
    order: int = 0
    reward: float | None = None
    number: int = 0
    era: int = 0
    stamp: int = 0
    group: int = -1  # in which it is compared; below 0 for none


_FIELDS = {name: at for at, name in enumerate(Record._fields)}


class Ids:
    """Ids for decisions, unlike all others: a random token of this object, and a number.

    >>> ids = Ids()
    >>> one, two = ids.issue(()), ids.issue(())
    >>> one != two, ids.issued(one), ids.issued(one + "9")
    (True, True, False)
    """

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts = dict(counts or {})  # ids given so far, by token; the last token is the one in use
        self.renew()

    def renew(self) -> None:
        """Start with another token, as a copy of this object could give the same ids elsewhere."""
        self._token = uuid.uuid4().hex[:12]
        self._counts[self._token] = 0

    def issue(self, taken: Any, *, secret: bool = False) -> str:
        """Return an id that is not among those taken, which a caller may have chosen to look like ours.

        A ``secret`` one ends in something random, so that nobody can take the next one away.
        """
        while True:
            serial = self._counts[self._token]
            self._counts[self._token] = serial + 1
            found = f"{self._token}-{serial}-{os.urandom(4).hex()}" if secret else f"{self._token}-{serial}"
            if found not in taken:
                return found

    def issued(self, number: str) -> bool:
        """Say whether an id was given by this object, or by the one that it goes on from."""
        token, _, serial = number.rpartition("-")
        return serial.isascii() and serial.isdigit() and len(serial) < 20 and int(serial) < self._counts.get(token, 0)

    def state(self) -> dict[str, int]:
        """Return how many ids were given, by token."""
        return dict(self._counts)


class Book:
    """Decisions by id.

    Parameters
    ----------
    window : how long an active decision waits, if not for ever.
    default : the reward of a decision whose window ends without one; ``None`` tells nothing then.
    adds : whether the rewards of one decision may add up.
    capacity : decisions that may wait at once; beyond, the oldest is closed as if its window had ended.
    remember : closed decisions that are kept, so that what is told twice is noticed and what was wrong can be amended.
    ids : those that were given here, to tell ids that are forgotten from those that never were.

    >>> book = Book(window=Span.of("10 min", "window"), default=0.0)
    >>> book.open("d1", (0, 1), time=0.0)
    >>> book.overdue(time=700.0)
    (['d1'], [])
    >>> book.time_out("d1", 0.0).reward, book.plan_tell("d1", 1.0), book.enter("d1", 1.0).reward, book["d1"].state
    (None, 1.0, 0.0, 'rewarded')
    """

    def __init__(
        self,
        *,
        window: Span | None = None,
        default: float | None = None,
        adds: bool = False,
        capacity: int = 1_000_000,
        remember: int = 100_000,
        ids: Ids | None = None,
    ) -> None:
        self.window, self.default, self.adds = window, default, adds
        self.capacity = check_count(capacity, "capacity")
        self.remember = check_count(remember, "remember", 0)
        self.ids = Ids() if ids is None else ids
        self.journal = Journal()
        self.rounds = 0  # decisions that became active so far
        self.inactive, self.open_count, self.closed = 0, 0, 0  # how many are in these states
        self._records: dict[str, tuple[Any, ...]] = {}  # each a Record without its class
        self._stamp = 0
        # Queues, in which an entry counts only while its record is as it was when the entry was made.
        self._hidden: deque[tuple[int, str]] = deque()  # not shown yet, oldest first
        self._shown: deque[tuple[int, str]] = deque()  # open, in order
        # Open ones, as heaps by the end of their windows: of windows in seconds, and of those in rounds.
        self._ends: dict[bool, list[tuple[float, int, str]]] = {False: [], True: []}
        self._closings: deque[tuple[int, str]] = deque()  # closed, in order of the last change
        self._cells: dict[Cell, Cell] = {}  # one tuple for all decisions of a cell

    def __len__(self) -> int:
        """Return how many decisions wait, shown or not."""
        return self.inactive + self.open_count

    @property
    def kept(self) -> int:
        """How many decisions are known, closed ones too."""
        return len(self._records)

    def __contains__(self, number: object) -> bool:
        """Say whether a decision with this id is kept."""
        return number in self._records

    def __getitem__(self, number: Any) -> Record:
        """Return a decision, or raise an error that says whether it is forgotten or never was."""
        if not isinstance(number, str):
            raise TypeError(f"the id is {number!r}; give the id of a decision, which is text: decision.id")
        if (row := self._records.get(number)) is not None:
            return Record._make(row)
        if self.ids.issued(number):
            raise ExpiredDecisionError(
                f"decision {number!r} was closed long ago, and is forgotten; at most {self.capacity:,} decisions wait, "
                f"and {self.remember:,} closed ones are kept: make the bandit with more, or use "
                "tell(arm=..., context=..., reward=...), which needs no decision"
            )
        raise UnknownDecisionError(
            f"no decision has the id {number!r}; give one that ask returned, of this bandit: decision.id"
        )

    def get(self, number: Any) -> Record | None:
        """Return a decision if it is kept."""
        row = self._records.get(number)
        return None if row is None else Record._make(row)

    def records(self) -> Iterator[Record]:
        """Yield all decisions that are kept."""
        return map(Record._make, self._records.values())

    # What calls would do.

    def refuse_taken(self, number: Any) -> str:
        """Return an id that a caller gives, if it can be that of a new decision."""
        if check_id(number) in self._records:
            raise ClosedDecisionError(f"a decision has the id {number!r} already; give each its own, or none")
        return str(number)

    def plan_activate(self, number: Any) -> bool:
        """Say whether a decision was not shown yet; refuse one that was cancelled."""
        record = self[number]
        if record.state == CANCELLED:
            raise _cancelled(number, "it cannot be shown any more: ask again")
        return record.state == INACTIVE

    def plan_cancel(self, number: Any) -> bool:
        """Say whether a decision is not cancelled yet; refuse one that has a reward."""
        record = self[number]
        if record.reward is not None:
            raise ClosedDecisionError(
                f"decision {number!r} has the reward {record.reward:g} already, and cannot be cancelled; amend it with "
                "tell(id, reward, amend=True)"
            )
        return record.state != CANCELLED

    def plan_tell(
        self,
        number: Any,
        reward: Any,
        *,
        amend: bool = False,
        add: bool = False,
        check: Callable[[Any], float] = float,
    ) -> float | None:
        """Return the reward that a decision would have, checked, or ``None`` if it has been told that already."""
        record = self[number]
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

    def overdue(self, *, time: float) -> tuple[list[str], list[str]]:
        """Return the ids of decisions whose window has ended, or that are too many, and of unshown ones too many."""
        over = self._ended(self._ends[False], time) + self._ended(self._ends[True], self.rounds)
        ended = [number for _, number in sorted(set(over))]
        if (excess := self.open_count - self.capacity) > len(ended):
            known = set(ended)
            oldest = (number for order, number in self._shown if self._is_open(order, number))
            ended += [number for number in _first(oldest, excess) if number not in known][: excess - len(ended)]
        many = max(self.inactive - self.capacity, 0)
        return ended, _first(self._unshown(), many) if many else []

    def _ended(self, ends: list[tuple[float, int, str]], now: float) -> list[tuple[int, str]]:
        """Places and ids of open decisions that end before now; entries that are out of date go."""
        kept = []
        while ends and ends[0][0] < now:
            entry = heapq.heappop(ends)
            if self._waits(*entry) or self.journal.trying:
                kept.append(entry)
        for entry in kept:
            heapq.heappush(ends, entry)
        return [(order, number) for due, order, number in kept if self._waits(due, order, number)]

    # What changes the book.

    def open(
        self,
        number: str,
        cell: Cell,
        note: Any = None,
        *,
        time: float,
        active: bool = True,
        side: int = 0,
        group: int = -1,
    ) -> None:
        """Enter a decision, whose window begins at once if it is ``active``."""
        if len(self._cells) > self.capacity:
            self._cells.clear()
        self.journal.assign(self, "_stamp", self._stamp + 1)
        cell = self._cells.setdefault(cell, cell)
        if active:
            order, due, rounds = self._begin(number, time)
            more = {"stamp": self._stamp, "group": group}
            self._put(number, Record(cell, time, OPEN, note, side, due, rounds, order, **more))
        else:
            self._put(number, Record(cell, time, INACTIVE, note, side, stamp=self._stamp, group=group))
            self.journal.assign(self, "inactive", self.inactive + 1)
            self.journal.append(self._hidden, (self._stamp, number))

    def activate(self, number: str, *, time: float) -> Record | None:
        """Begin the window of a decision, and return it; that of one which is active, or closed, is left alone."""
        record = self[number]
        if record.state != INACTIVE:
            return None
        self.journal.assign(self, "inactive", self.inactive - 1)
        order, due, rounds = self._begin(number, time)
        record = record._replace(state=OPEN, order=order, due=due, in_rounds=rounds)
        self._put(number, record)
        return record

    def _begin(self, number: str, time: float) -> tuple[int, float, bool]:
        """Count a decision as shown; return its place, and when its window ends, in seconds or in rounds."""
        order, due, rounds = self.rounds + 1, math.inf, False
        self.journal.assign(self, "rounds", order)
        self.journal.assign(self, "open_count", self.open_count + 1)
        self.journal.append(self._shown, (order, number))
        if self.window is not None:
            rounds = self.window.rounds
            due = (order if rounds else time) + self.window.length
            heapq.heappush(self._ends[rounds], (due, order, number))  # in a trial it is left, like one out of date
        return order, due, rounds

    def cancel(self, number: str) -> Record:
        """Close a decision that takes no reward, and return it as it was."""
        record = self[number]
        self._close(number, record, CANCELLED, record.reward)
        return record

    def enter(self, number: str, reward: float) -> Record:
        """Give a decision a reward, whatever it had before, and return it as it was."""
        record = self[number]
        self._close(number, record, REWARDED, reward)
        return record

    def time_out(self, number: str, reward: float | None) -> Record:
        """Close a decision whose window has ended, with a reward if there is one, and return it as it was."""
        record = self[number]
        self._close(number, record, TIMED_OUT, record.reward if reward is None else reward)
        return record

    def revert(self, number: str, before: Record) -> None:
        """Let a closed decision have the state and the reward that it had before, as far as it is still kept."""
        if (record := self.get(number)) is not None and before.state not in (INACTIVE, OPEN):
            self._put(number, record._replace(state=before.state, reward=before.reward))

    def mark(self, number: str, told: int, era: int) -> None:
        """Write down when the reward of a decision was told, if it is still kept."""
        if (record := self.get(number)) is not None:
            self._put(number, record._replace(number=told, era=era))

    def times(self) -> Iterator[tuple[str, float]]:
        """Yield the id of each decision that is kept, and when it was made."""
        at = _FIELDS["time"]
        return ((number, row[at]) for number, row in self._records.items())

    def rename(self, names: Mapping[str, str]) -> None:
        """Put other ids in the place of those of decisions, wherever the book has them."""
        self._records = {names.get(number, number): row for number, row in self._records.items()}
        for queue in (self._hidden, self._shown, self._closings):
            entries = [(at, names.get(number, number)) for at, number in queue]
            queue.clear()
            queue.extend(entries)
        for ends in self._ends.values():
            ends[:] = [(due, order, names.get(number, number)) for due, order, number in ends]
            heapq.heapify(ends)

    def _put(self, number: str, record: Record) -> None:
        self.journal.set(self._records, number, tuple(record))

    def _close(self, number: str, record: Record, state: str, reward: float | None) -> None:
        if record.state == INACTIVE:
            self.journal.assign(self, "inactive", self.inactive - 1)
        elif record.state == OPEN:
            self.journal.assign(self, "open_count", self.open_count - 1)
        closed = self.closed + (record.state in (INACTIVE, OPEN))
        self.journal.assign(self, "_stamp", self._stamp + 1)
        self._put(number, record._replace(state=state, reward=reward, stamp=self._stamp, due=math.inf))
        self.journal.append(self._closings, (self._stamp, number))
        while closed > self.remember:
            stamp, oldest = self.journal.popleft(self._closings)
            if (one := self.get(oldest)) is not None and one.stamp == stamp:
                self.journal.pop(self._records, oldest)
                closed -= 1
        self.journal.assign(self, "closed", closed)

    def _is_hidden(self, stamp: int, number: str) -> bool:
        record = self.get(number)
        return record is not None and record.state == INACTIVE and record.stamp == stamp

    def _unshown(self) -> Iterator[str]:
        return (number for stamp, number in self._hidden if self._is_hidden(stamp, number))

    def _is_open(self, order: int, number: str) -> bool:
        row = self._records.get(number)  # not as a Record: this is asked for each decision
        return row is not None and row[_FIELDS["order"]] == order and row[_FIELDS["state"]] == OPEN

    def _waits(self, due: float, order: int, number: str) -> bool:
        """Whether a decision is open, and its window ends then."""
        return self._is_open(order, number) and self[number].due == due

    def tidy(self) -> None:
        """Drop entries of queues that are out of date; not while changes may be taken back."""
        if len(self._shown) > 2 * self.open_count + _SPARE:
            self._shown = deque(entry for entry in self._shown if self._is_open(*entry))
        while self._shown and not self._is_open(*self._shown[0]):
            self._shown.popleft()
        for ends in self._ends.values():
            if len(ends) > 2 * self.open_count + _SPARE:
                ends[:] = list({entry for entry in ends if self._waits(*entry)})
                heapq.heapify(ends)
        if len(self._hidden) > 2 * self.inactive + _SPARE:
            self._hidden = deque(entry for entry in self._hidden if self._is_hidden(*entry))
        if len(self._closings) > 2 * self.closed + _SPARE:
            self._closings = deque(
                (stamp, one) for stamp, one in self._closings if one in self and self[one].stamp == stamp
            )

    # Reading.

    def settled(self) -> float:
        """Return up to which place among the decisions that were shown all rewards are known, defaults included.

        Where unrewarded decisions are told nothing there is nothing to wait for.
        """
        if self.default is None:
            return math.inf
        first = next((order for order, number in self._shown if self._is_open(order, number)), None)
        return self.rounds if first is None else first - 1

    def compare(self, groups: Sequence[int]) -> None:
        """Let all decisions be compared in the group of their side, as when they were made nobody said in which."""
        for number, row in self._records.items():
            record = Record._make(row)
            self._records[number] = tuple(record._replace(group=groups[record.side]))

    def give(self, one: int, other: int) -> None:
        """Count what a side decided as another's."""
        for number, row in self._records.items():
            if row[_FIELDS["side"]] == one:
                self._records[number] = tuple(Record._make(row)._replace(side=other))

    def oldest(self, count: int) -> list[tuple[str, Record]]:
        """Return the decisions that wait longest, shown or not."""
        shown = (number for order, number in self._shown if self._is_open(order, number))
        some = [(number, self[number]) for part in (shown, self._unshown()) for number in _first(part, count)]
        return sorted(some, key=lambda pair: pair[1].time)[:count]

    def by_order(self, places: Iterable[int]) -> list[str]:
        """Return the ids of decisions by their places among those that were shown; "" for one that is forgotten."""
        order = _FIELDS["order"]
        found = {row[order]: number for number, row in self._records.items() if row[order]}
        return [found.get(place, "") for place in places]

    def copy(self) -> Book:
        """Return a copy to be read, at little cost."""
        book = copy.copy(self)
        book.journal, book._records = Journal(), self._records.copy()
        book._hidden, book._shown = self._hidden.copy(), self._shown.copy()
        book._ends = {rounds: ends.copy() for rounds, ends in self._ends.items()}
        book._closings = self._closings.copy()
        return book

    # Saving and making again.

    def _listed(self) -> Iterator[str]:
        """Ids of decisions that are not shown, that are open, and that are closed, each in its order."""
        yield from self._unshown()
        yield from (number for order, number in self._shown if self._is_open(order, number))
        state, stamp, rows = _FIELDS["state"], _FIELDS["stamp"], self._records
        closed = (number for number, row in rows.items() if row[state] not in (INACTIVE, OPEN))
        yield from sorted(closed, key=lambda number: rows[number][stamp])

    def state(self) -> dict[str, Any]:
        """Return all decisions as plain arrays."""
        numbers = list(self._listed())
        rows = [self._records[number] for number in numbers]

        def column(name: str, made: Callable[[Any], Any] = lambda value: value, kind: type = np.int64) -> NDArray[Any]:
            at = _FIELDS[name]
            return np.fromiter((made(row[at]) for row in pieces.gently(rows, pieces.PIECE)), kind, len(rows))

        due, note, modes = column("due", kind=float), _FIELDS["note"], len(rows[0][_FIELDS["cell"]]) if rows else 0
        levels = [column("cell", itemgetter(mode)) for mode in range(modes)]
        return {
            "rounds": self.rounds,
            "issued": self.ids.state(),
            "ids": np.frombuffer("\n".join(numbers).encode(), dtype=np.uint8),
            "cells": np.stack(levels, axis=1) if rows else np.empty(0, dtype=np.int64),
            "states": column("state", _STATES.index),
            "due": np.where(np.isfinite(due), due, 0.0),
            "clocks": np.isfinite(due) * (1 + column("in_rounds")),
            "times": column("time", kind=float),
            "told": column("reward", lambda reward: reward is not None),
            "rewards": column("reward", lambda reward: reward or 0.0, float),
            "notes": {str(at): row[note] for at, row in enumerate(rows) if row[note] is not None},
            **{f"{name}s": column(name) for name in ("number", "era", "order")},
            "held": column("side"),
            "groups": column("group"),
        }

    def restore(self, state: Mapping[str, Any], shape: Cell) -> Self:
        """Take back what :meth:`state` returned, of cells within a shape; ids start with another token."""
        self.rounds = check_count(state["rounds"], "rounds", 0)
        issued = {str(token): check_count(count, "issued", 0) for token, count in state["issued"].items()}
        ids = _read_ids(state["ids"], list(issued))
        count = len(ids)
        cells = check_cells(state["cells"], shape)
        states, told = (check_array(state[name], name, (count,), integers=True) for name in ("states", "told"))
        due, rewards = (check_array(state[name], name, (count,)) for name in ("due", "rewards"))
        times = check_array(state.get("times", np.zeros(count)), "times", (count,))  # states did not always have it
        none = np.zeros(count, dtype=np.int64)  # nor these
        more = [
            check_array(state.get(name, none), name, (count,), integers=True).tolist()
            for name in ("numbers", "eras", "orders", "held")
        ]
        more.append(check_array(state.get("groups", none - 1), "groups", (count,), integers=True).tolist())
        usual = np.full(count, 0 if self.window is None else 1 + self.window.rounds)
        more.append(check_array(state.get("clocks", usual), "clocks", (count,), integers=True).tolist())
        if count and not 0 <= states.min() <= states.max() < len(_STATES):
            raise ValueError(f"states are from {states.min()} to {states.max()}; they are from 0 to {len(_STATES) - 1}")
        columns = (column.tolist() for column in (cells, states, due, times, told, rewards))
        notes, shared = state["notes"], self._cells.setdefault
        for at, row in enumerate(zip(ids, *columns, *more, strict=True)):
            name, levels, code, end, time, has, reward, number, era, order, side, group, clock = row
            cell = tuple(levels)
            note = notes.get(str(at)) if notes else None
            record = Record(shared(cell, cell), time, _STATES[code], note, side, order=order)
            record = record._replace(reward=reward if has else None, number=number, era=era, group=group)
            if record.state == OPEN and clock:  # else it waits for ever, or no more
                record = record._replace(due=end, in_rounds=clock == 2)
            self._restored(name, record)
        self.ids = Ids(issued)
        return self

    def _restored(self, number: str, record: Record) -> None:
        """Enter a decision of a state in its queues."""
        self._stamp += 1
        if record.state == INACTIVE:
            self.inactive += 1
            self._hidden.append((self._stamp, number))
        elif record.state == OPEN:
            self.open_count += 1
            self._shown.append((record.order, number))
            if math.isfinite(record.due):
                heapq.heappush(self._ends[record.in_rounds], (record.due, record.order, number))
        else:
            self.closed += 1
            self._closings.append((self._stamp, number))
        self._records[number] = tuple(record._replace(stamp=self._stamp))


def check_id(number: Any, what: str = "id") -> str:
    """Return an id that a caller gives, of a decision or of whom it is for, checked.

    >>> check_id("order 17")
    'order 17'
    """
    if not isinstance(number, str):
        raise TypeError(f"the {what} is {number!r}; give text of at most {_LONGEST_ID} characters")
    if not 0 < len(number) <= _LONGEST_ID or not number.isprintable():
        shown = number if len(number) <= _LONGEST_ID else number[:20] + "…"
        raise ValueError(
            f"the {what} is {shown!r}, of {len(number)} characters; give 1 to {_LONGEST_ID} of them that can be printed"
        )
    return number


def _first(some: Iterable[str], count: int) -> list[str]:
    return [number for number, _ in zip(some, range(count), strict=False)]


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

"""Handing decisions and rewards to a sink: in batches, in a thread of its own, with bounded memory.

No answer waits for it. While a sink cannot be written to, events wait; beyond a bound decisions are dropped and
counted, and rewards are refused, so that whoever tells them knows.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from tensorbandits.base.errors import TensorbanditsError
from tensorbandits.decider.arms import ReadyArm
from tensorbandits.decider.tokens import Token

Kind = Literal["decisions", "rewards"]
KINDS: tuple[Kind, Kind] = ("decisions", "rewards")

_LOG = logging.getLogger("tensorbandits.decider")
_PAUSE, _LONGEST_PAUSE = 0.05, 30.0  # seconds between two attempts, at first and at most


class SinkFullError(TensorbanditsError, ConnectionError):
    """A reward was not taken, as too many events wait for the sink; tell it again later."""


class DecidedEvent(NamedTuple):
    """A decision as it waits for the sink."""

    id: str
    milliseconds: int  # when it was made
    arm: ReadyArm


class ToldEvent(NamedTuple):
    """A reward as it waits for the sink; ``token`` is what the verified id says of the decision.

    It is ``None`` for an id that is no token, which only sinks get that know such ids.
    """

    id: str
    time: float
    reward: float
    amend: bool
    token: Token | None


class EventBatch(NamedTuple):
    """Some decisions, or some rewards, of one bandit; ``number`` grows with each batch of a process.

    ``events`` are in the order in which they came. A batch that could not be written is written again as it was.
    """

    kind: Kind
    bandit: str
    uid: str
    number: int
    events: Sequence[Any]

    @property
    def decided(self) -> list[float]:
        """When the decisions were made that the events are about, in seconds."""
        if self.kind == "decisions":
            return [event.milliseconds / 1e3 for event in self.events]
        return [event.token.time for event in self.events]  # a sink that knows other ids asks for no times

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of the events, times in microseconds since 1970.

        Decisions have ``id, time, snapshot, draw, by, propensity, policy_chance, holdout_chance, cell``, rewards ``id,
        time, reward, amend, decided, cell, by, propensity``.
        """
        if self.kind == "decisions":
            drawn = [event.arm.drawn for event in self.events]
            return {
                "id": [event.id for event in self.events],
                "time": [event.milliseconds * 1_000 for event in self.events],
                "snapshot": [event.arm.version for event in self.events],
                "draw": [one.draw for one in drawn],
                "by": [one.by for one in drawn],
                "propensity": [one.propensity for one in drawn],
                "policy_chance": [one.chances[0] for one in drawn],
                "holdout_chance": [one.chances[1] for one in drawn],
                "cell": [one.cell for one in drawn],
            }
        tokens = [event.token for event in self.events]
        return {
            "id": [event.id for event in self.events],
            "time": [round(event.time * 1e6) for event in self.events],
            "reward": [event.reward for event in self.events],
            "amend": [event.amend for event in self.events],
            "decided": [round(token.time * 1e6) for token in tokens],
            "cell": [token.cell for token in tokens],
            "by": [token.by for token in tokens],
            "propensity": [token.propensity for token in tokens],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return the events one by one, each with the names of :meth:`columns`."""
        columns = self.columns()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def only(self, places: Sequence[int]) -> EventBatch:
        """Return a batch of some of the events."""
        return self._replace(events=[self.events[at] for at in places])


class Sink(Protocol):
    """Where decisions and rewards go. A batch is handed over when it has ``rows`` events, or after ``seconds``."""

    rows: int
    seconds: float

    def write(self, batch: EventBatch) -> int:
        """Write a batch so that it lasts, and return how many of its events are refused for good; raise to try again.

        The same batch may come again, after an error that came late: an event counts once, by its id.
        """
        ...

    def own_again(self) -> None:
        """Be of use in a child process: share no connection and no name of files with the parent."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class EventSender:
    """Hands events to a sink. Any thread may add some.

    ``room`` is how many decisions, and how many rewards, may wait; ``about`` tells the bandit's name and uid.
    """

    def __init__(self, sink: Sink, room: int, about: Callable[[], tuple[str, str]]) -> None:
        self.sink, self.room, self._about = sink, room, about
        self._own()

    def _own(self) -> None:
        self.dropped, self.refused = 0, 0
        self.sent = dict.fromkeys(KINDS, 0)
        self.problem: str | None = None
        self.waiting: dict[Kind, deque[Any]] = {"decisions": deque(), "rewards": deque()}
        self.decisions = self.waiting["decisions"]
        self._batch: EventBatch | None = None  # that could not be written yet
        self._number = 0
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._news, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def own_again(self) -> None:
        """Be of use in a child process; what waits is sent by the parent."""
        self._own()
        self.sink.own_again()

    def start(self) -> None:
        """Send from now on, in a thread of its own."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="events", daemon=True)
            self._thread.start()

    # Called by whoever decides or tells.

    def add_decision(self, event: tuple[str, int, ReadyArm]) -> None:
        """Let a decision wait to be sent, or drop it if too many wait already."""
        queue = self.decisions
        if len(queue) >= self.room:
            with self._lock:
                self.dropped += 1
            return
        queue.append(event)
        if len(queue) >= self.sink.rows and not self._news.is_set():
            self._news.set()

    def add_rewards(self, events: Sequence[ToldEvent]) -> None:
        """Let rewards wait to be sent, or refuse all of them if too many wait already."""
        queue = self.waiting["rewards"]
        if len(queue) + len(events) > self.room:
            why = f", which cannot be written to: {self.problem}" if self.problem else ""
            raise SinkFullError(
                f"{len(queue):,} rewards wait for the sink{why}, and {self.room:,} may; nothing was taken: tell it "
                "again later"
            )
        queue.extend(events)
        if len(queue) >= self.sink.rows and not self._news.is_set():
            self._news.set()

    @property
    def backlog(self) -> int:
        """How many events wait."""
        held = self._batch
        return sum(map(len, self.waiting.values())) + (len(held.events) if held is not None else 0)

    # The thread's work.

    def send(self, *, all: bool, seconds: float = -1.0) -> bool:
        """Write batches that are full, or all that wait; say whether that went well.

        If another thread is at it, wait for it so many ``seconds``, or as long as it takes.
        """
        if not self._writing.acquire(timeout=seconds):
            return False
        try:
            for kind in KINDS:
                while self._batch is not None or len(self.waiting[kind]) >= (1 if all else self.sink.rows):
                    if not self._write(kind):
                        return False
            return True
        finally:
            self._writing.release()

    def _write(self, kind: Kind) -> bool:
        if self._batch is None:
            queue = self.waiting[kind]
            events = [queue.popleft() for _ in range(min(len(queue), self.sink.rows))]
            if kind == "decisions":
                events = [DecidedEvent._make(event) for event in events]
            self._number += 1
            self._batch = EventBatch(kind, *self._about(), self._number, events)
        batch = self._batch
        try:
            refused = self.sink.write(batch)
        except Exception as error:
            if self.problem is None:
                _LOG.warning("events cannot be written (%s); %s wait, and it is tried again", error, self.backlog)
            self.problem = str(error) or type(error).__name__
            return False
        if self.problem is not None:
            _LOG.info("events are written again")
        self.problem, self._batch = None, None
        self.refused += refused
        self.sent[batch.kind] += len(batch.events) - refused
        return True

    def _run(self) -> None:
        """Send full batches as they come, and all else after the seconds of the sink."""
        due, failures = time.monotonic() + self.sink.seconds, 0
        while not self._stop.is_set():
            over = time.monotonic() >= due
            fine = self.send(all=over)
            due = time.monotonic() + self.sink.seconds if over else due
            failures = 0 if fine else failures + 1
            if failures:
                self._stop.wait(min(_PAUSE * 2.0 ** min(failures, 10), _LONGEST_PAUSE))
            elif self._news.wait(max(due - time.monotonic(), 0.0)):
                self._news.clear()

    def flush(self, seconds: float) -> bool:
        """Send all that waits, trying again for so many seconds; say whether nothing waits any more."""
        until = time.monotonic() + seconds
        while not self.send(all=True, seconds=max(until - time.monotonic(), 0.0)):
            left = until - time.monotonic()
            if left <= 0.0:
                return False
            time.sleep(min(_PAUSE, left))
        return True

    def close(self, seconds: float) -> bool:
        """Send what waits, and end; say whether nothing is lost. A write that hangs is not waited for any longer."""
        self._stop.set()
        self._news.set()
        done = self.flush(seconds)
        if not done:
            why = self.problem or "the sink has not answered"
            _LOG.warning("%d events could not be written and are lost: %s", self.backlog, why)
        if self._writing.acquire(blocking=False):
            self._writing.release()
            self.sink.close()
        return done

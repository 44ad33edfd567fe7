"""One thread that writes: requests that come while it commits make up the next transaction (group commit).

A request is an :class:`Order`: it plans events once its bandit's turn is held and the events of others are folded, so
that every order is checked against all that happened before it. Nothing is folded, and nobody is answered, before the
transaction is durable. Orders about the same decision never share a transaction, so that each sees what the other did.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from tensorbandits.service.engine.desk import MOST, Desk, Outcome
from tensorbandits.service.engine.replica import Replica
from tensorbandits.store import Event, FoldedError, New, Store, StoreError, Turn, UnknownBanditError

TOGETHER = 50  # orders of a transaction that are no decisions


class Host(Protocol):
    """What the writer knows of a bandit: its number in the store, and its state here."""

    id: int
    name: str
    replica: Replica


class Settled(Exception):  # noqa: N818  (it is no error)
    """Raised by a plan when there is nothing to write, with the answer."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer)
        self.answer = answer


@dataclass(eq=False, slots=True)
class Order:
    """What somebody wants written.

    ``plan`` returns events, given the turn; it raises what the caller is to be told, or :class:`Settled`. ``answer``
    makes the answer, of the events as they were written, once they are folded; ``repeat`` makes that of an order whose
    key is in the log already, of the event that has it.
    """

    host: Host
    plan: Callable[[Turn], Sequence[New]]
    answer: Callable[[Sequence[Event]], Any]
    repeat: Callable[[Event], Any]
    key: str | None = None
    about: str | None = None  # the id of a decision
    alone: bool = False  # what changes levels, rules, settings or many decisions: the others of its bandit wait
    soon: bool = False  # a decision, which somebody waits for: it is written before many rewards that came at once
    waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]] | None = None  # of whoever awaits it
    done: Future[Any] | None = None  # of whoever waits in a thread
    events: list[Event] = field(default_factory=list)
    before: Event | None = None
    raised: Exception | None = None

    def planned(self, turn: Turn, known: dict[str, Event]) -> Sequence[New]:
        """Return the events to write; what is not to be written is noted."""
        self.before = known.get(self.key) if self.key is not None else None
        if self.before is not None:
            return ()
        try:
            return self.plan(turn)
        except Exception as error:
            self.raised = error
            return ()

    def outcome(self) -> Any:
        """Return the answer, or raise, after all is durable and folded."""
        if isinstance(self.raised, Settled):
            return self.raised.answer
        if self.raised is not None:
            raise self.raised
        return self.answer(self.events) if self.before is None else self.repeat(self.before)


class Writer:
    """The thread, and its queue.

    ``committed`` is told which orders took how many seconds; ``renew`` brings a bandit up to date of which events were
    folded away before they were read here.
    """

    def __init__(
        self,
        store: Store,
        committed: Callable[[Sequence[Order], float], None] = lambda orders, seconds: None,
        renew: Callable[[Any], None] = lambda host: None,
    ) -> None:
        self._store, self._committed, self._renew = store, committed, renew
        self._queue: queue.SimpleQueue[list[Order] | None] = queue.SimpleQueue()
        self._desk = Desk(self._queue.put)
        self._waiting: list[Order] = []  # taken from the queue, for a later transaction
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)

    def start(self) -> Self:
        """Begin to write."""
        self._thread.start()
        return self

    def submit(self, order: Order) -> Future[Any]:
        """Have an order written; its future has the answer once that is durable."""
        self._check()
        done = order.done = Future()
        self._queue.put([order])
        return done

    def enter(self, order: Order) -> None:
        """Have an order written that the event loop, which calls this, awaits."""
        self._check()
        self._desk.enter(order)

    def _check(self) -> None:
        if self._stopped:
            raise StoreError("the service is stopping; ask again, or ask another server")

    def stop(self) -> None:
        """Write what is waiting, and end."""
        self._desk.hand_over()
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while not self._stopped or self._waiting:
            batch = self._next()
            failed = None
            try:
                if batch:
                    self._write(batch)
            except Exception as error:  # whatever it was, nobody is left waiting, and the thread goes on
                failed = error
            self._answer(batch, failed)
        late = [order for orders in self._drained() for order in orders or ()]
        self._answer(late, StoreError("the service has stopped; ask again, or ask another server"))

    def _drained(self) -> Iterator[list[Order] | None]:
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._queue.get_nowait()

    def _next(self) -> list[Order]:
        """Return the orders of the next transaction, waiting for the first."""
        candidates, self._waiting = self._waiting, []
        with contextlib.suppress(queue.Empty):
            while len(candidates) < MOST:
                orders = self._queue.get(block=not candidates and not self._stopped)
                if orders is None:
                    self._stopped = True
                else:
                    candidates += orders
        return self._apart(candidates)

    def _apart(self, candidates: list[Order]) -> list[Order]:
        """Return those that may share a transaction, in order; keep for later what must see what others did."""
        batch: list[Order] = []
        taken: set[tuple[int, str, str]] = set()
        busy: set[int] = set()  # bandits that have an order in the batch
        closed: set[int] = set()  # bandits of which nothing more may join it
        others = 0
        for order in candidates:
            bandit = order.host.id
            names = {(bandit, kind, name) for kind, name in (("id", order.about), ("key", order.key)) if name}
            waits = bandit in closed or bool(names & taken) or (order.alone and bandit in busy)
            waits = waits or (others >= TOGETHER and not order.soon)
            (self._waiting if waits else batch).append(order)
            others += not waits and not order.soon
            taken |= names
            busy.add(bandit)
            if order.alone:
                closed.add(bandit)
        return batch

    def _write(self, batch: list[Order]) -> None:
        """Plan, append and commit; then fold."""
        hosts = {order.host.id: order.host for order in batch}
        started = time.perf_counter()
        with self._store.turn(sorted(hosts)) as turn:
            for bandit, host in hosts.items():
                self._catch_up(turn, host)
                news = _plan(turn, [order for order in batch if order.host is host], host.replica.seq + 1)
                if news:
                    turn.append(bandit, host.replica.seq + 1, news)
        for order in batch:
            order.host.replica.fold(order.events)
        self._committed(batch, time.perf_counter() - started)

    def _catch_up(self, turn: Turn, host: Host) -> None:
        """Fold what others have written."""
        try:
            events = turn.events(host.id, host.replica.seq)
        except FoldedError:
            self._renew(host)
            events = turn.events(host.id, host.replica.seq)
        host.replica.fold(events)

    def _answer(self, batch: list[Order], failed: Exception | None) -> None:
        """Tell everybody how their order went; all who wait in one event loop at once, as waking it takes long."""
        together: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
        for order in batch:
            value, raised = None, failed
            try:
                value = order.outcome() if failed is None else None
            except Exception as error:
                raised = error
            if order.waiter is not None:
                together.setdefault(order.waiter[0], []).append((order.waiter[1], value, raised))
            elif order.done is not None:
                if raised is None:
                    order.done.set_result(value)
                else:
                    order.done.set_exception(raised)
        for loop, outcomes in together.items():
            with contextlib.suppress(RuntimeError):  # it was closed: nobody waits any more
                loop.call_soon_threadsafe(self._desk.wake, outcomes)


def _plan(turn: Turn, orders: list[Order], first: int) -> list[New]:
    """Have the orders of one bandit plan, and number their events from the first."""
    bandit = orders[0].host.id
    if orders[0].host.replica.closed:
        for order in orders:
            order.raised = UnknownBanditError(
                f"bandit {order.host.name!r} was deleted; GET /v1/bandits lists the others"
            )
        return []
    keys = [order.key for order in orders if order.key is not None]
    known = turn.keyed(bandit, keys) if keys else {}
    news: list[New] = []
    for order in orders:
        planned = order.planned(turn, known)
        start = first + len(news)
        order.events = [
            Event(bandit, start + at, new.time, new.kind, new.decision, new.key, new.body)
            for at, new in enumerate(planned)
        ]
        news += planned
    return news

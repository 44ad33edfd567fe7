"""The writer: threads that plan orders, append their events to the log, and answer once that is durable.

Orders of one bandit that come while its last ones are written make up its next transaction (group commit). A
transaction is of one bandit, and is appended where the log is known to end: if another server was first, what it wrote
is taken in, and the orders are planned anew. So nobody holds a lock that others wait for while a message travels.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Self

from tensorbandits.bandit import events as e
from tensorbandits.bandit.actors import MARK
from tensorbandits.bandit.state import State
from tensorbandits.service.engine.deadline import check_deadline
from tensorbandits.service.engine.gathering import MOST, Gathering, Outcome
from tensorbandits.service.engine.host import Host
from tensorbandits.service.engine.orders import Order, adopts
from tensorbandits.store import (
    BehindError,
    DamagedError,
    Event,
    FoldedError,
    RepeatedError,
    Store,
    StoreError,
    StoreUnavailableError,
    UnknownBanditError,
)

TOGETHER = 50  # orders of a transaction that are no decisions
_PATIENCE = 10.0  # seconds for which one tries to append while others are first
_LONGEST = 8.0  # seconds that an order waits for others: with 10 for the store itself, callers know within 20
_SOON = 1.0  # the same, while the store does not answer
_LATE = "the store does not answer, or not in time, so that this has waited for too long; ask again, or another server"
_STOPPING = "the service is stopping; ask again, or ask another server"


class Writer:
    """The threads, and the queue of bandits that have orders.

    ``now`` returns the time as the store has it; ``committed`` is told which orders took how many seconds,
    ``failing`` what failed as a whole.
    """

    def __init__(
        self,
        store: Store,
        now: Callable[[], float] = time.time,
        committed: Callable[[Sequence[Order], float], None] = lambda orders, seconds: None,
        failing: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        self._store, self._now, self._committed, self._failing = store, now, committed, failing
        self._ready: queue.SimpleQueue[Host | None] = queue.SimpleQueue()
        self._flags = threading.Lock()  # over which bandits are in the queue, and whether more may come
        self._gatherings: dict[Host, Gathering] = {}  # of the event loop, for each bandit
        self._stopped = False
        self._silent = False  # whether the store did not answer the last time
        self._threads = [
            threading.Thread(target=self._work, name=f"writer-{at}", daemon=True) for at in range(store.writers)
        ]

    def start(self) -> Self:
        """Begin to write."""
        for thread in self._threads:
            thread.start()
        return self

    def submit(self, order: Order) -> Future[Any]:
        """Have an order written; its future has the answer once that is durable."""
        done = order.done = Future()
        self.take([order])
        return done

    def enter(self, orders: Sequence[Order]) -> None:
        """Have orders of one bandit written that the event loop, which calls this, awaits."""
        if self._stopped:
            raise StoreError(_STOPPING)
        host = orders[0].host
        if (gathering := self._gatherings.get(host)) is None:
            gathering = self._gatherings[host] = Gathering(self.take)
        gathering.enter(orders)

    def take(self, orders: Sequence[Order]) -> None:
        """Put orders into the inboxes of their bandits."""
        with self._flags:
            if not self._stopped:
                for order in orders:
                    order.host.inbox.append(order)
                    self._schedule(order.host)
                return
        self._answer(list(orders), StoreError(_STOPPING))

    def _schedule(self, host: Host) -> None:
        if not host.scheduled:
            host.scheduled = True
            self._ready.put(host)

    def flush(self) -> None:
        """Take what was gathered on the event loop, which calls this; to be done before :meth:`stop`."""
        for gathering in self._gatherings.values():
            gathering.hand_over()

    def stop(self) -> None:
        """Write what is waiting, and end."""
        with self._flags:
            self._stopped = True
        for _ in self._threads:
            self._ready.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (host := self._ready.get()) is not None:
            batch: list[Order] = []
            failed = None
            try:
                self._refuse_late(host)
                batch = self._next(host)
                if batch:
                    self._write(host, batch)
            except Exception as error:  # whatever it was, nobody is left waiting, and the thread goes on
                failed = error
                self._failing(error)
            self._answer(batch, failed)
            with contextlib.suppress(Exception):  # which is said to whoever looks next
                host.taught()
            with self._flags:
                host.scheduled = False
                if host.inbox:
                    self._schedule(host)

    def _refuse_late(self, host: Host) -> None:
        """Refuse the orders that have waited too long, as the store did not answer those before them."""
        late: list[Order] = []
        with self._flags:
            while host.inbox and self._left(host.inbox[0]) < 0.0:
                late += _first_request(host)
        self._answer(late, StoreUnavailableError(_LATE))

    def _left(self, order: Order) -> float:
        """Return for how many seconds an order may still wait for others."""
        return order.since + (_SOON if self._silent else _LONGEST) - time.monotonic()

    def _next(self, host: Host) -> list[Order]:
        """Return the orders of the next transaction: those that may share one, in order."""
        batch: list[Order] = []
        kept: list[Order] = []
        names: set[tuple[str, str]] = set()  # keys, and ids that callers chose: the next one with the same waits
        others = 0
        with self._flags:
            while host.inbox and len(batch) < MOST:
                request = _first_request(host)
                order = request[0]
                if (batch or kept) and (order.alone or len(batch) + len(request) > MOST):
                    kept += request
                    break
                theirs = {name for one in request for name in one.names}
                if theirs & names or (others >= TOGETHER and not order.soon):
                    kept += request
                    continue
                batch += request
                others += not order.soon
                names |= theirs
                if order.alone:
                    break
            host.inbox.extendleft(reversed(kept))
        return batch

    def _write(self, host: Host, batch: list[Order]) -> None:
        """Plan and append until it succeeds, or cannot."""
        started = time.perf_counter()
        if not host.turn.acquire(timeout=max(min(map(self._left, batch)), 0.0)):
            raise StoreUnavailableError(_LATE)
        try:
            self._append_patiently(host, batch)
            self._silent = False
        except StoreUnavailableError:
            self._silent = host.unsure  # else it did answer, and others were first all the time
            raise
        finally:
            host.turn.release()
        self._committed(batch, time.perf_counter() - started)

    def _append_patiently(self, host: Host, batch: list[Order]) -> None:
        """Plan and append until nobody else was first; the turn is held."""
        end = time.monotonic() + _PATIENCE
        while True:
            if host.closed:
                raise UnknownBanditError(f"bandit {host.name!r} was deleted; GET /v1/bandits lists the others")
            if time.monotonic() > end:
                raise StoreUnavailableError(f"other servers write to bandit {host.name!r} all the time; ask again")
            if host.unsure:
                host.catch_up(self._store)
            self._plan(host, batch)
            while refused := [order for order in batch if order.raised is not None and order.names]:
                if not self._find_repeats(host, refused):
                    break
                self._plan(host, batch)  # what was done already may not be possible a second time
            try:
                if self._append(host, batch) or not host.catch_up(self._store):
                    break  # else others have written what the plans did not know of
            except BehindError as error:  # another server was first
                host.unsure = True
                with contextlib.suppress(FoldedError):  # in which case it reads all there is
                    host.follow(error.events)
                    host.unsure = not error.events  # if there are more, the next append will say so
            except RepeatedError:
                host.unsure = True
                self._find_repeats(host, batch)
            except DamagedError as error:
                host.quarantine(error.seq, error.why)
                raise
            except StoreError:
                host.unsure = True
                raise

    def _plan(self, host: Host, batch: list[Order]) -> None:
        """Plan each order on the state after those before it; what one may not do is its own error.

        Of a request of several orders one refuses all, as its caller gets no other answer: nobody sees what it planned.
        """
        now, core, at = self._now(), host.core, 0
        with core.lock, core.state.trial() as journal:
            while at < len(batch):
                request = batch[at].together or batch[at : at + 1]
                at += len(request)
                mark = journal.mark()
                for order in request:
                    self._plan_one(core.state, order, now)
                several = len(request) > 1
                if several and (why := next(filter(None, (order.refusal() for order in request)), None)) is not None:
                    journal.back_to(mark)
                    for order in request:
                        if order.before is None:
                            order.raised, order.planned = why, []

    def _plan_one(self, state: State, order: Order, now: float) -> None:
        """Plan an order, unless it was carried out already, and let those after it see what it does."""
        if order.before is not None or order.events:
            return
        order.raised, order.planned = None, []
        try:
            check_deadline(order.until, time.monotonic())
            order.planned = list(order.plan(now))
            for event in order.planned if order.seen else ():
                state.enter(event)
        except Exception as error:
            order.raised, order.planned = error, []

    def _append(self, host: Host, batch: list[Order]) -> bool:
        """Append what was planned, and apply it; say whether there was anything: then the state was current."""
        orders = [order for order in batch if order.planned and not order.events]
        mark = host.core.state.actors.writer()
        news = [order.news(mark) for order in orders]
        if not orders:
            return False
        try:
            rows = self._store.append(host.id, host.head, [new for part in news for new in part])
        except ValueError as error:  # something that cannot be written: whose it is, is to be found out
            requests = {id(order.together or order): list(order.together) or [order] for order in orders}
            if len(requests) > 1:
                for request in requests.values():  # each by itself, so that one which cannot be written fails alone
                    self._append_patiently(host, request)
                return True
            for order in orders:
                order.raised, order.planned = error, []
            return True
        self._apply(host, [event.signed(order.actor) for order in orders for event in order.planned], rows)
        at = 0
        for order, part in zip(orders, news, strict=True):
            order.events = rows[at : at + len(part)]
            at += len(part)
        return True

    def _apply(self, host: Host, events: Sequence[e.BanditEvent], rows: Sequence[Event]) -> None:
        core = host.core
        try:
            with core.lock:
                for row in rows:
                    core.state.actors.learn(row.body.get(MARK))
                core.apply(events)
                core.state.seq, core.state.chain = rows[-1].seq, rows[-1].chain
        except Exception as error:
            host.quarantine(rows[0].seq, str(error))
            raise

    def _find_repeats(self, host: Host, batch: list[Order]) -> bool:
        """Find the events that the log has for keys and ids of these orders; say whether it has any."""
        keyed = self._store.keyed(host.id, [order.key for order in batch if order.key is not None])
        ids = [order.chosen_id for order in batch if order.chosen_id is not None]
        ids += [str(event.decision) for order in batch for event in order.planned if isinstance(event, e.Decided)]
        made = self._store.of_decisions(host.id, ids)
        found = False
        for order in batch:
            order.written.update(str(one.decision) for one in order.planned if adopts(one) and one.decision in made)
            if order.key is not None and order.key in keyed:
                order.before = keyed[order.key]
            elif order.chosen_id is not None and made.get(order.chosen_id):
                order.before = made[order.chosen_id][0]
            if order.before is not None:
                found, order.raised, order.planned = True, None, []
        return found

    def _answer(self, batch: list[Order], failed: Exception | None) -> None:
        """Tell everybody how their order went; all who wait in one event loop at once, as waking it takes long."""
        together: dict[tuple[asyncio.AbstractEventLoop, Host], list[Outcome]] = {}
        for order in batch:
            value, raised = None, failed if not order.events else None
            try:
                value = order.outcome(self._store) if raised is None else None
            except Exception as error:
                raised = error
            if order.waiter is not None:
                together.setdefault((order.waiter[0], order.host), []).append((order.waiter[1], value, raised))
            elif order.done is not None:
                if raised is None:
                    order.done.set_result(value)
                else:
                    order.done.set_exception(raised)
        for (loop, host), outcomes in together.items():
            with contextlib.suppress(RuntimeError):  # it was closed: nobody waits any more
                loop.call_soon_threadsafe(self._wake, host, outcomes)

    def _wake(self, host: Host, outcomes: Sequence[Outcome]) -> None:
        """Let those go on who wait in the event loop, which calls this."""
        (self._gatherings.get(host) or Gathering(self.take)).wake(outcomes)
        if host.closed:
            self._gatherings.pop(host, None)


def _first_request(host: Host) -> list[Order]:
    """Take the orders of the first request out of the inbox: they were put there at once, and stay together."""
    return [host.inbox.popleft() for _ in host.inbox[0].together or (None,)]

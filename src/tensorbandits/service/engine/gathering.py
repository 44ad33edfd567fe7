"""Where the event loop gathers the orders of a bandit for a moment, so that many of them share a transaction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorbandits.service.engine.orders import Order

MOST = 1_000  # orders of a transaction
MOMENT, LONGEST = 0.0003, 0.002  # seconds that orders wait for others: after the last one, and in all
_MOST_SKIPPED = 63  # transactions that wait for nobody, after waiting was in vain

Outcome = tuple["asyncio.Future[Any]", Any, Exception | None]


class Gathering:
    """Where the event loop gathers orders, and hands them to the writer together.

    Handed over one by one, the first would make a transaction of its own while the others are still being read, and
    those that come while it is written another: with callers who wait for their answers and then ask again,
    transactions would stay small for ever. So those who were just answered are expected back, for a moment. Where they
    do not come, nobody is waited for in the next transactions, twice as many each time.
    """

    def __init__(self, put: Callable[[list[Order]], None]) -> None:
        self._put = put
        self._orders: list[Order] = []
        self._busy = False  # whether the writer has orders from here
        self._watching = False
        self._usual, self._expected = 1, 1  # orders that came together of late, and that should now
        self._skipped, self._skip = 0, 0  # transactions for which nobody is waited for: so far, and in all
        self._seen, self._since, self._begun = 0, 0.0, 0.0  # orders at the last look, since when, and the first look
        self._waited = False

    def enter(self, orders: Sequence[Order]) -> None:
        """Take in some orders."""
        self._orders += orders
        if not self._busy and not self._watching:
            self._watch(orders[0])

    def _watch(self, order: Order) -> None:
        assert order.waiter is not None
        self._watching, self._loop = True, order.waiter[0]
        self._seen, self._begun, self._waited = 0, time.perf_counter(), False
        self._loop.call_soon(self._look)  # after all that it has read already

    def _look(self) -> None:
        count, now = len(self._orders), time.perf_counter()
        if count != self._seen:
            self._seen, self._since = count, now
        patient = self._skipped >= self._skip and now - self._since < MOMENT and now - self._begun < LONGEST
        if count < self._expected and patient:
            self._waited = True
            self._loop.call_soon(self._look)
            return
        self._watching = False
        self._note(count)
        self.hand_over()

    def _note(self, count: int) -> None:
        """Note whether those came who were waited for."""
        if count >= self._expected:
            self._skip = 0 if self._waited else self._skip
        elif self._skipped < self._skip:
            self._skipped += 1
        else:
            self._skipped, self._skip = 0, min(2 * self._skip + 1, _MOST_SKIPPED)
        self._usual = count if count < self._expected else min(count, self._usual + 1)

    def hand_over(self) -> None:
        """Let the writer have what there is."""
        if self._orders:
            orders, self._orders, self._busy = self._orders, [], True
            self._put(orders)

    def wake(self, outcomes: Sequence[Outcome]) -> None:
        """Let those go on who wait, and have the writer begin again."""
        for future, value, raised in outcomes:
            if future.done():  # whoever waited has gone
                continue
            if raised is None:
                future.set_result(value)
            else:
                future.set_exception(raised)
        self._busy = False
        self._expected = min(len(outcomes) + len(self._orders), self._usual + 1)
        if self._orders and not self._watching:
            self._watch(self._orders[0])

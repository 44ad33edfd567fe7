"""Writes that wait until the service is back, in order; each carries its key, so that none counts twice."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import NamedTuple

from tensorbandits.base.checks import check_count
from tensorbandits.client.messages import HttpRequest

_log = logging.getLogger("tensorbandits.client")


class Waiting(NamedTuple):
    """A write that waits, of so many rewards; that a ``quiet`` one is refused nobody wants to hear."""

    request: HttpRequest
    rewards: int = 1
    quiet: bool = False


class Flushed(NamedTuple):
    """What became of writes that waited.

    ``sent`` are those that were sent since the last report, ``waiting`` those that still wait, and ``refused`` the
    errors of those that the service refused, which are gone.
    """

    sent: int
    waiting: int
    refused: tuple[Exception, ...]


class Outbox:
    """A queue of writes with a bound; one sender at a time.

    >>> box = Outbox(2)
    >>> [box.add(Waiting(HttpRequest("POST", f"/{number}"))) for number in range(3)]
    [True, True, False]
    >>> box.begin(), box.begin(), box.next().request.path
    (True, False, '/0')
    >>> box.drop([]); box.next().request.path
    '/1'
    """

    def __init__(self, bound: int) -> None:
        self.bound = check_count(bound, "buffer", 0)
        self._lock = threading.Lock()  # held for microseconds, and never while something is sent
        self._waiting: deque[Waiting] = deque()
        self._refused: deque[Exception] = deque(maxlen=max(self.bound, 1))
        self._count = self._sent = 0
        self._sending = False

    def __len__(self) -> int:
        """Return how many rewards and other writes wait."""
        return self._count

    def add(self, write: Waiting) -> bool:
        """Let a write wait, if there is room."""
        with self._lock:
            if self._count + write.rewards > self.bound:
                return False
            self._waiting.append(write)
            self._count += write.rewards
            return True

    def begin(self) -> bool:
        """Become the sender, unless somebody is."""
        with self._lock:
            taken, self._sending = self._sending, True
            return not taken

    def next(self) -> Waiting | None:
        """Return the first that waits. If none does, the sender is one no more."""
        with self._lock:
            if not self._waiting:
                self._sending = False
                return None
            return self._waiting[0]

    def drop(self, refused: list[Exception]) -> None:
        """Forget the first, which was sent, or refused for some reasons."""
        with self._lock:
            write = self._waiting.popleft()
            self._count -= write.rewards
            found = [] if write.quiet else refused
            self._sent += 0 if write.quiet else write.rewards - len(found)
            self._refused.extend(found)
        for error in found:
            _log.warning("a write that had waited was refused: %s", error)

    def end(self) -> None:
        """Stop sending while some still wait."""
        with self._lock:
            self._sending = False

    def report(self) -> Flushed:
        """Return what became of writes since the last report."""
        with self._lock:
            flushed = Flushed(self._sent, self._count, tuple(self._refused))
            self._sent = 0
            self._refused.clear()
            return flushed

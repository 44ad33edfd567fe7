"""Whether a process should be sent requests: what it says at ``/readyz``, and why not.

A thread of its own asks the store now and then, so that one which does not answer is noticed, whatever else
waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tensorbandits.service import logs
from tensorbandits.store.errors import StoreError, StoreFullError, StoreReadOnlyError

LOOK = 2.0  # seconds between two looks at the store
_CANNOT_WRITE = (StoreFullError, StoreReadOnlyError)


class Health:
    """What is known of the store, and whether this process is about to stop.

    ``read`` asks the store something, and raises if it cannot be asked; ``write`` tries to write something that can be
    spared. ``away`` is for how many seconds the store may not answer.

    >>> health = Health(read=lambda: None, write=lambda: None)
    >>> health.troubles()
    []
    >>> health.drain()
    >>> health.troubles()
    ['this server is about to stop: ask another one']
    """

    def __init__(
        self,
        read: Callable[[], object],
        write: Callable[[], object],
        *,
        away: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._write, self._away, self._clock = read, write, away, clock
        self._log = logs.get("health")
        self._answered = clock()
        self._cannot_write = ""
        self.draining = False
        self._said: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="health", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._answered = self._clock()
        self._thread.start()

    def stop(self) -> None:
        """End; a look that waits for the store is not waited for."""
        self._stop.set()

    def drain(self) -> None:
        """Say from now on that no more requests should come."""
        self.draining = True

    def failed(self, error: BaseException) -> None:
        """Take note of what the store answered to a write."""
        if isinstance(error, _CANNOT_WRITE):
            self._cannot_write = str(error)

    def wrote(self) -> None:
        """Take note that the store could be written."""
        self._cannot_write = ""

    def troubles(self) -> list[str]:
        """Return why no requests should be sent here; nothing if they should."""
        found = ["this server is about to stop: ask another one"] if self.draining else []
        silent = self._clock() - self._answered
        if silent > self._away:
            found.append(f"the store has not answered for {silent:.0f} seconds")
        if self._cannot_write:
            found.append(f"the store cannot be written: {self._cannot_write}")
        return found

    def look(self) -> None:
        """Ask the store; where it could not be written, try again whether it can."""
        with suppress(StoreError):
            self._read()
            self._answered = self._clock()
            if self._cannot_write:
                self._write()
                self.wrote()
        found = self.troubles()
        if bool(found) != bool(self._said):
            if found:
                self._log.error("not ready any more", why=found)
            else:
                self._log.info("ready again")
        self._said = found

    def _follow(self) -> None:
        while not self._stop.wait(LOOK):
            try:
                self.look()
            except Exception:
                self._log.exception("looking at the store failed")

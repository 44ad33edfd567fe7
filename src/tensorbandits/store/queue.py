"""Who is next: processes that share an SQLite file stand in line for its one lock."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: whoever comes in the right moment is next
    fcntl = None  # type: ignore[assignment]

LONGEST_PAUSE = 0.001  # seconds between tries


class Queue:
    """The place of the one who is next, held by locking a file of its own.

    SQLite gives its lock to whoever asks in the moment it is free, which is nearly always the process that has just
    released it: others would wait for seconds. Only the one who is next asks for it, so that a process which wants to
    write again cannot pass him by. It is a courtesy: SQLite's lock keeps writers apart with or without it.
    """

    def __init__(self, path: Path, mode: int) -> None:
        self._file: int | None = None
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a read-only directory; SQLite will say so
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)

    @contextlib.contextmanager
    def head(self, end: float) -> Iterator[None]:
        """Be next, as soon as nobody else is; at the latest at a time, should that one be stuck."""
        held = False
        while self._file is not None and not held and time.monotonic() < end:
            held = self._try()
            if not held:
                time.sleep(LONGEST_PAUSE * (0.5 + random.random()))
        try:
            yield
        finally:
            if held and self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _try(self) -> bool:
        """Say whether the lock could be had at once."""
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without such locks
            self.close()
            return False
        return True

    def close(self) -> None:
        """Leave the file alone; it stays for others."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

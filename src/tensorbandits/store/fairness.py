"""Pauses by which several processes that append to one log all get their turn."""

from __future__ import annotations

import random
import time

LONGEST = 0.05  # seconds of a pause
_AFTER = 1.0  # seconds for which somebody who was met is believed to be there


class Pauses:
    """Short random pauses after appends to a log to which another process appends as well.

    Whoever has just appended knows the end of the log, and may always be first again: the other reads, plans, and comes
    too late. So it pauses for about as long as the other needs, which that one says when it was late. Where nobody else
    was met of late there is no pause.
    """

    def __init__(self) -> None:
        self._met: dict[int, float] = {}  # bandit -> when somebody else was there
        self._needs: dict[int, float] = {}  # bandit -> seconds that others need
        self._next: dict[int, float] = {}  # bandit -> when we may append again
        self._late: dict[int, float] = {}  # bandit -> when we were late

    def keep(self, bandit: int) -> None:
        """Wait until we may append."""
        if (due := self._next.pop(bandit, None)) is not None:
            time.sleep(max(0.0, due - time.monotonic()))

    def need(self, bandit: int) -> float | None:
        """Return the seconds since we were late, None if we were not."""
        late = self._late.get(bandit)
        return None if late is None else time.monotonic() - late

    def lost(self, bandit: int) -> None:
        """Note that we were late: somebody else was first."""
        self._met[bandit] = self._late[bandit] = time.monotonic()

    def asked(self, bandit: int, seconds: float) -> None:
        """Note that somebody else was late, and needs so many seconds."""
        self._met[bandit] = time.monotonic()
        self._needs[bandit] = min(seconds, LONGEST)

    def won(self, bandit: int, started: float) -> None:
        """Note that we appended, having started at a time."""
        self._late.pop(bandit, None)
        met = self._met.get(bandit)
        if met is not None:
            now = time.monotonic()
            if now - met < _AFTER:
                seconds = random.random() * (2 * (now - started) + 2 * self._needs.get(bandit, 0.0))
                self._next[bandit] = now + min(seconds, LONGEST)
            else:
                self._met.pop(bandit, None)
                self._needs.pop(bandit, None)

"""Lines of the log for answers of 5xx: why, of which bandit, to which request; of many alike the first, and a count."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from tensorbandits.service import logs
from tensorbandits.service.http.redact import redact

SECONDS = 10.0  # in which of alike answers only the first are written down
FIRST = 5
_MOST = 1_000  # kinds that are counted apart
_LONGEST = 500  # characters of a reason

Kind = tuple[str, str, str]  # the code, the bandit, the route


class Complaints:
    """Writes answers of 5xx down. Those of one code, bandit and route are alike.

    Whoever runs the service wants to know what is wrong, and how often; three thousand lines of a disk that is full
    would help to fill it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = logs.get("access"), clock
        self._counts: dict[Kind, int] = {}
        self._timed = False
        self._since = 0.0

    def write(self, kind: Kind, reason: str, **fields: Any) -> bool:
        """Write a line, or count it; return whether it was written."""
        if self._timed and self._clock() - self._since > 2 * SECONDS:
            self.sum_up()  # the loop that was to do it has ended
        if not self._timed:
            self._timed, self._since = True, self._clock()
            asyncio.get_running_loop().call_later(SECONDS, self.sum_up)
        if kind not in self._counts and len(self._counts) >= _MOST:
            kind = (kind[0], "", "")
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count > FIRST:
            return False
        code, bandit, route = kind
        words = redact(reason[:_LONGEST])
        self._log.error("request", **fields, route=route, code=code, bandit=bandit, reason=words)
        return True

    def sum_up(self) -> None:
        """Say how many more there were of each kind, and begin to count anew."""
        seconds = round(self._clock() - self._since, 1)
        for (code, bandit, route), count in self._counts.items():
            if count > FIRST:
                more = {"code": code, "bandit": bandit, "route": route, "seconds": seconds}
                self._log.error("more requests failed alike", count=count - FIRST, **more)
        self._counts, self._timed = {}, False

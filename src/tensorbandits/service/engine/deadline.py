"""Until when a request wants an answer: set where it comes in, and read where an order is made of it.

An order that has not been written by then is not written any more, so that nobody is told of a decision too late.
"""

from __future__ import annotations

import math
from contextvars import ContextVar

from tensorbandits.service.engine.errors import DeadlineError

UNTIL: ContextVar[float] = ContextVar("until", default=math.inf)  # by time.monotonic()


def check_deadline(until: float, now: float) -> None:
    """Refuse what comes too late.

    >>> check_deadline(math.inf, 5.0)
    """
    if now > until:
        raise DeadlineError("the time that the request gave itself passed before it was written: nothing was done")

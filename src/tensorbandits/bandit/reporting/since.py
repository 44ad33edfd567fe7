"""When the period of a report began: a duration before now, or a date."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tensorbandits.bandit.spans import Span

_HOW = "give a duration before now, such as '7d' or '24 hours', or a date, such as '2026-11-01' (UTC)"
_DATES = (1e8, 1e11)  # seconds between which a clock tells the time of day


def began(since: Any, now: float) -> float:
    """Return the time at which the period begins, in seconds; ``None`` is from the first decision on.

    >>> began("7d", 1e9) == 1e9 - 7 * 86_400, began("1970-01-02", 2e8), began(None, 5.0)
    (True, 86400.0, -inf)
    """
    if since is None:
        return -math.inf
    dated = isinstance(since, str) and since.strip()[:4].isdigit() and "-" in since
    if dated or isinstance(since, date):
        begin = _seconds(_date(since) if isinstance(since, str) else since)
        if not _DATES[0] < now < _DATES[1]:
            raise ValueError(f"since is {str(since)!r}, but the clock of this bandit tells no date; give a duration")
        if begin > now:
            raise ValueError(f"since is {str(since)!r}, which is yet to come; {_HOW}")
        return begin
    if not isinstance(since, str | timedelta):
        raise TypeError(f"since is {since!r}; {_HOW}")
    try:
        length = Span.of(since, "since")
    except ValueError:
        length = None
    if length is None:
        raise ValueError(f"since is {since!r}; {_HOW}")
    return now - length.length


def _date(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"since is {text!r}, which is no date; {_HOW}") from None


def _seconds(given: date) -> float:
    moment = given if isinstance(given, datetime) else datetime(given.year, given.month, given.day)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def shown(seconds: float) -> str:
    """Return a time in words; of a clock that tells no date, its seconds.

    >>> shown(1_793_404_800.0), shown(12.5)
    ('31 October 2026, 00:00', '12.5 s')
    """
    if not _DATES[0] < seconds < _DATES[1]:
        return f"{seconds:,.4g} s"
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.day} {moment:%B %Y, %H:%M}"

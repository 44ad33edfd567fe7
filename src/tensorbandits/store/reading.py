"""A log, page by page, of which every event is known to be what was written."""

from __future__ import annotations

from typing import NamedTuple

from tensorbandits.store import statements
from tensorbandits.store.backend import Session
from tensorbandits.store.errors import DamagedError, FoldedError
from tensorbandits.store.events import Event, Head, Row, Standing, raw_events_of, verified

CHANGED = "its checksum is not the one that was read before: the database was replaced by another"


class Page(NamedTuple):
    """Some events of a log, where they end, and whether these are the last that there are."""

    events: list[Event]
    end: Head
    last: bool


def standing(session: Session, bandit: int) -> Standing | None:
    """Return how the log of a bandit stands, also of one that was deleted; None if there is no such bandit."""
    rows = session.rows(statements.standing, bandit=bandit)
    return Standing.of(rows[0]) if rows else None


def replaced(last: int) -> str:
    """Return the words for a log that ends before what was read from it."""
    return (
        f"it was read before, but the log ends at event {last} now: the database was replaced by an older copy; "
        f"restart all servers that use it"
    )


def read_page(session: Session, bandit: int, after: int | Head, count: int, until: int, verify: bool) -> Page:
    """Return the next events after a number or a head, at most ``count``, up to and with ``until``.

    A head must be in the log; a number may be beyond its end. All events up to the one that was the last when the
    reading began must be there.
    """
    head = after if isinstance(after, Head) else Head(after)
    found = standing(session, bandit)
    if found is None and verify and session.rows(statements.tail, bandit=bandit, limit=1):
        raise DamagedError(bandit, 0, "its events are there, but the bandit itself is missing")
    if found is None or head.seq > found.head.seq:
        if isinstance(after, Head) and after.seq and verify:
            raise DamagedError(bandit, head.seq, replaced(0 if found is None else found.head.seq))
        return Page([], head, last=True)
    if head.seq == 0:
        head = found.base
    if head.seq < found.base.seq:
        raise FoldedError(folded_away(bandit, head.seq, found.base.seq))
    end = min(until, found.head.seq, head.seq + count)
    # The event before the first comes as well: it must be the one that is known, and its checksum begins the chain.
    rows: list[Row] = list(
        session.rows(statements.log, bandit=bandit, after=head.seq - 1, until=end, limit=statements.LARGEST)
    )
    if not verify:
        events = raw_events_of(bandit, [row for row in rows if row[0] > head.seq])
        return Page(events, Head(end), last=end >= min(until, found.head.seq))
    try:
        events = _whole(bandit, head, found.base, rows, end)
    except DamagedError:
        now = standing(session, bandit)
        if now is not None and now.base != found.base:  # nothing is wrong: some were folded in between
            return read_page(session, bandit, after, count, until, verify)
        raise
    if events:
        head = Head(events[-1].seq, events[-1].chain)
    return Page(events, head, last=end >= min(until, found.head.seq))


def _whole(bandit: int, head: Head, base: Head, rows: list[Row], end: int) -> list[Event]:
    """Return the events after a head up to a number, which must all be there."""
    if rows and rows[0][0] == head.seq:
        before = Head(head.seq, rows[0][6])
        rows = rows[1:]
    elif head.seq == base.seq:
        before = base
    else:
        raise DamagedError(bandit, head.seq, "it is missing")
    if head.chain is not None and head.chain != before.chain:
        raise DamagedError(bandit, head.seq, CHANGED)
    events = verified(bandit, before, rows)
    last = events[-1].seq if events else head.seq
    if last < end:
        raise DamagedError(bandit, last + 1, f"it is missing, though the log goes on to event {end} at least")
    return events


def folded_away(bandit: int, after: int, folded: int) -> str:
    """Return the words for events that are no longer there."""
    return (
        f"the events after {after} of bandit {bandit} are no longer there: those up to {folded} were folded into the "
        f"base; start again from it"
    )

"""A turn: the one transaction in which a bandit's log is read and added to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorbandits.store import statements
from tensorbandits.store.backend import Session
from tensorbandits.store.errors import ConflictError, FoldedError, StoreError, UnknownBanditError
from tensorbandits.store.events import DELETED, Event, New, events_of, rows_of


class Turn:
    """Holds the locks of some bandits: no other process adds to their logs before it ends.

    Made by :meth:`Store.turn`. What it read stays true until the end, and what it appends is written at the end, all or
    nothing. An error of :meth:`append` may be raised there, or when the turn ends.
    """

    def __init__(self, session: Session, bandits: Sequence[int]) -> None:
        self._session = session
        self._bandits = bandits
        self._last: dict[int, int] = {}  # number of the last event, of bandits whose end was seen
        self._ended: set[int] = set()  # bandits that were deleted

    def events(self, bandit: int, after: int) -> list[Event]:
        """Return the events after a number, in order; a :class:`FoldedError` if some of them were folded away.

        With ``after=0`` it returns all that are left.
        """
        self._check(bandit)
        # The last event that the caller knows comes as well: where it still is, the log is the one that he knows.
        rows = self._session.rows(
            statements.log, bandit=bandit, after=after - 1, until=statements.LARGEST, limit=statements.LARGEST
        )
        if rows and rows[0][0] == after:
            self._saw(bandit, rows[-1][0], deleted=rows[-1][2] == DELETED)
            del rows[0]
            return events_of(bandit, rows)
        folded, last = self._standing(bandit)
        if 0 < after < folded:
            raise FoldedError(folded_away(bandit, after, folded))
        if after > last:
            raise StoreError(
                f"the log of bandit {bandit} ends at event {last}, but event {after} was read from it; the database "
                f"was replaced by an older copy: restart all servers that use it"
            )
        return events_of(bandit, rows)

    def keyed(self, bandit: int, keys: Iterable[str]) -> dict[str, Event]:
        """Return the events that carry these idempotency keys; a key that nothing carries is left out."""
        backend, wanted = self._session.backend, list(keys)
        if not wanted:
            return {}
        rows = self._session.rows(backend.listed.keyed, bandit=bandit, keys=backend.listing(wanted))
        return {str(event.key): event for event in events_of(bandit, rows)}

    def of_decisions(self, bandit: int, ids: Iterable[str]) -> dict[str, list[Event]]:
        """Return all events of these decisions, in order; an id without events is left out."""
        return of_decisions(self._session, bandit, ids)

    def append(self, bandit: int, first_seq: int, news: Sequence[New]) -> None:
        """Add events, numbered from ``first_seq`` on, which must be the number after the last one."""
        self._check(bandit)
        if bandit not in self._last:
            self._standing(bandit)
        if bandit in self._ended:
            raise UnknownBanditError(f"bandit {bandit} was deleted; nothing can be added to its log")
        if first_seq != self._last[bandit] + 1:
            raise ConflictError(
                f"an event of bandit {bandit} was to get the number {first_seq}, but the next is "
                f"{self._last[bandit] + 1}; read the events of others before you append"
            )
        rows = rows_of(bandit, first_seq, news)
        if rows:
            self._session.backend.append(self._session, rows)
            self._last[bandit] += len(rows)

    def _check(self, bandit: int) -> None:
        """Refuse a bandit whose lock is not held."""
        if bandit not in self._bandits:
            raise ValueError(f"bandit {bandit} is not of this turn, which holds {list(self._bandits)}; name it there")

    def _standing(self, bandit: int) -> tuple[int, int]:
        """Return the numbers of the base and of the last event."""
        rows = self._session.rows(statements.standing, bandit=bandit)
        if not rows:
            raise UnknownBanditError(f"there is no bandit with number {bandit}")
        [(folded, deleted, last)] = rows
        self._saw(bandit, last, deleted is not None)
        return folded, last

    def _saw(self, bandit: int, last: int, deleted: bool) -> None:
        """Remember how a log ends."""
        self._last[bandit] = last
        if deleted:
            self._ended.add(bandit)


def of_decisions(session: Session, bandit: int, ids: Iterable[str]) -> dict[str, list[Event]]:
    """Return all events of these decisions, in order."""
    wanted = list(ids)
    found: dict[str, list[Event]] = {}
    if wanted:
        rows = session.rows(session.backend.listed.of_decisions, bandit=bandit, ids=session.backend.listing(wanted))
        for event in events_of(bandit, rows):
            found.setdefault(str(event.decision), []).append(event)
    return found


def folded_away(bandit: int, after: int, folded: int) -> str:
    """Return the words for events that are no longer there."""
    return (
        f"the events after {after} of bandit {bandit} are no longer there: those up to {folded} were folded into the "
        f"base; start again from it"
    )

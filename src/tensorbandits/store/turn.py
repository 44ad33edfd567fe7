"""A turn: the one transaction in which a bandit's log is read and added to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorbandits.store import statements
from tensorbandits.store.backend import Session
from tensorbandits.store.errors import ConflictError, FoldedError, StoreError, UnknownBanditError
from tensorbandits.store.events import Event, New, events_of, rows_of


class Turn:
    """Holds the locks of some bandits: no other process adds to their logs before it ends.

    Made by :meth:`Store.turn`. What it read stays true until the end, and what it appends is written at the end, all or
    nothing. An error of :meth:`append` may be raised there, or when the turn ends.
    """

    def __init__(self, session: Session, bandits: Sequence[int]) -> None:
        self._session = session
        self._bandits = bandits
        self._standings = session.start(session.backend.listed.standings, ids=session.backend.listing(bandits))
        self._folded: dict[int, int] | None = None  # of each bandit; fetched with the first answer
        self._deleted: set[int] = set()
        self._last: dict[int, int] = {}  # number of the last event, of bandits whose end was seen

    def events(self, bandit: int, after: int) -> list[Event]:
        """Return the events after a number, in order; a :class:`FoldedError` if some were folded away.

        With ``after=0`` it returns all that are left.
        """
        # The last event that the caller knows comes as well: if it is not there, this is not the log he knows.
        answer = self._session.start(
            statements.log, bandit=bandit, after=max(after - 1, 0), until=statements.LARGEST, limit=statements.LARGEST
        )
        folded = self._base(bandit)
        rows = answer.rows()
        if 0 < after < folded:
            raise FoldedError(folded_away(bandit, after, folded))
        if after > folded:
            if not rows or rows[0][0] != after:
                raise StoreError(
                    f"the log of bandit {bandit} ends before event {after}, which was read from it; the database was "
                    f"replaced by an older copy: restart all servers that use it"
                )
            del rows[0]
        self._last[bandit] = rows[-1][0] if rows else max(after, folded)
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
        self._base(bandit)
        if bandit in self._deleted:
            raise UnknownBanditError(f"bandit {bandit} was deleted; nothing can be added to its log")
        if bandit not in self._last:
            [(_, _, self._last[bandit])] = self._session.rows(statements.standing, bandit=bandit)
        if first_seq != self._last[bandit] + 1:
            raise ConflictError(
                f"an event of bandit {bandit} was to get the number {first_seq}, but the next is "
                f"{self._last[bandit] + 1}; read the events of others before you append"
            )
        rows = rows_of(bandit, first_seq, news)
        if rows:
            self._session.backend.append(self._session, rows)
            self._last[bandit] += len(rows)

    def _base(self, bandit: int) -> int:
        """Return the number of the base of a bandit, which must be of this turn."""
        if self._folded is None:
            standings = self._standings.rows()
            self._folded = {one: folded for one, folded, _ in standings}
            self._deleted = {one for one, _, deleted in standings if deleted is not None}
        if bandit not in self._bandits:
            raise ValueError(f"bandit {bandit} is not of this turn, which holds {list(self._bandits)}; name it there")
        if bandit not in self._folded:
            raise UnknownBanditError(f"there is no bandit with number {bandit}")
        return self._folded[bandit]


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

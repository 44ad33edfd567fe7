"""The store: bandits and their logs, snapshots of their states, and keys."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from tensorbandits.base.checks import check_installed
from tensorbandits.store import copying, statements
from tensorbandits.store.address import parse
from tensorbandits.store.backend import Backend, Session
from tensorbandits.store.errors import ConflictError, FoldedError, NameTakenError, UnknownBanditError
from tensorbandits.store.events import DELETED, BanditRow, Event, KeyRow, New, check_text, events_of, rows_of
from tensorbandits.store.migrate import migrate
from tensorbandits.store.turn import Turn, folded_away, of_decisions

PAGE = 2000  # events that are read at once
_CACHES = 2  # snapshots that are kept


class Store:
    """All that happened to some bandits, kept for good. Threads may share one; processes open their own.

    A method raises a :class:`StoreError` when the database cannot be used; the next call tries again, so that a
    database which comes back is used again.

    >>> store = Store.open("sqlite://")
    >>> bandit = store.create("campaign", [New("Created", 0.0, {"settings": {}})])
    >>> with store.turn([bandit.id]) as turn:
    ...     last = turn.events(bandit.id, after=0)[-1].seq
    ...     turn.append(bandit.id, last + 1, [New("Decided", 1.0, {"cell": [0, 1]}, decision="d1")])
    >>> [event.kind for event in store.events(bandit.id)]
    ['Created', 'Decided']
    >>> store.close()
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.url = backend.url  # without a password, for messages

    @classmethod
    def open(cls, url: str | os.PathLike[str]) -> Self:
        """Open a store, and make or upgrade its tables; several processes may do so at once.

        ``url`` is a path or ``sqlite:///path``, ``postgresql://user:password@host/database``, or ``sqlite://`` for one
        that is gone when it is closed.
        """
        store = cls(_backend(url))
        try:
            migrate(store._backend)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close all connections."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Bandits.

    def create(self, name: str, events: Sequence[New]) -> BanditRow:
        """Add a bandit with its first events, numbered from 1 on; a :class:`NameTakenError` if the name is in use."""
        created = events[0].time if events else time.time()
        check_text(name, "a name")
        try:
            with self._backend.writing() as session:
                [(bandit,)] = session.rows(statements.create, name=name, created=created)
                if events:
                    self._backend.append(session, rows_of(bandit, 1, events))
        except ConflictError:
            if self.find(name) is None:
                raise
            raise NameTakenError(f"a bandit named {name!r} exists; delete it or choose another name") from None
        return BanditRow(bandit, name, created)

    def bandits(self) -> list[BanditRow]:
        """Return the bandits that were not deleted."""
        with self._backend.reading() as session:
            return [BanditRow(*row) for row in session.rows(statements.present)]

    def find(self, name: str) -> BanditRow | None:
        """Return the bandit of a name."""
        if "\0" in name:
            return None
        with self._backend.reading() as session:
            rows = session.rows(statements.named, name=name)
        return BanditRow(*rows[0]) if rows else None

    def delete(self, bandit: int, event: New) -> None:
        """Append a last event and free the name; the events stay. An :class:`UnknownBanditError` if it was deleted."""
        with self._backend.writing([bandit]) as session:
            _, last = self._standing(session, bandit)
            if event.kind != DELETED:
                raise ValueError(f"the last event is of kind {event.kind!r}; give one of kind {DELETED!r}")
            self._backend.append(session, rows_of(bandit, last + 1, [event]))
            session.start(statements.remove, bandit=bandit, time=event.time)

    def ended(self, name: str, key: str) -> bool:
        """Say whether a bandit of this name was deleted by a request with this idempotency key."""
        if "\0" in name:
            return False
        with self._backend.reading() as session:
            return bool(session.rows(statements.ended, name=name, kind=DELETED, key=key))

    def heads(self) -> dict[int, int]:
        """Return the number of the last event of each bandit that was not deleted."""
        with self._backend.reading() as session:
            return dict(session.rows(statements.heads))

    def _standing(self, session: Session, bandit: int) -> tuple[int, int]:
        """Return the numbers of the base and of the last event."""
        rows = session.rows(statements.standing, bandit=bandit)
        if not rows or rows[0][1] is not None:
            raise UnknownBanditError(f"there is no bandit with number {bandit}, or it was deleted")
        return rows[0][0], rows[0][2]

    # Events.

    @contextmanager
    def turn(self, bandits: Iterable[int]) -> Iterator[Turn]:
        """Return the turn of some bandits: while it lasts, no other process adds to their logs.

        It commits at the end, after which what was appended is durable; on an exception it rolls back. A
        :class:`StoreUnavailableError` at the end means that the outcome is unknown: the connection was lost while the
        answer to the commit was awaited.
        """
        wanted = sorted(set(bandits))
        with self._backend.writing(wanted) as session:
            yield Turn(session, wanted)

    def events(
        self, bandit: int, after: int = 0, until: int | None = None, limit: int | None = None
    ) -> Iterator[Event]:
        """Yield the events after a number, up to and with ``until``, at most ``limit`` of them.

        They are read in pages: it may take long, holds up nobody, and sees what is added meanwhile. A
        :class:`FoldedError` says that some were folded into the base; with ``after=0`` all that are left come.
        """
        last, left = after, statements.LARGEST if limit is None else limit
        while left > 0:
            count = min(left, PAGE)
            page = self._page(bandit, last, statements.LARGEST if until is None else until, count)
            yield from page
            if len(page) < count:
                return
            last, left = page[-1].seq, left - len(page)

    def _page(self, bandit: int, last: int, until: int, count: int) -> list[Event]:
        """Return the next events; a :class:`FoldedError` if some before them are gone."""
        with self._backend.reading() as session:
            folded = self._folded(session, bandit)
            start = last or folded
            # Both ends are given, as numbers have no gaps: no database is tempted to look at all that follow.
            end = min(until, start + count)
            rows = session.rows(statements.log, bandit=bandit, after=start, until=end, limit=count)
            if len(rows) < count:
                folded = self._folded(session, bandit)  # it may have moved in between
        if start < folded:
            raise FoldedError(folded_away(bandit, start, folded))
        return events_of(bandit, rows)

    def _folded(self, session: Session, bandit: int) -> int:
        """Return the number of the base, 0 without one."""
        rows = session.rows(statements.standing, bandit=bandit)
        return int(rows[0][0]) if rows else 0

    def of_decisions(self, bandit: int, ids: Iterable[str]) -> dict[str, list[Event]]:
        """Return all events of these decisions, in order; an id without events is left out."""
        with self._backend.reading() as session:
            return of_decisions(session, bandit, ids)

    def tail(self, bandit: int, count: int) -> list[Event]:
        """Return the last events, newest first."""
        with self._backend.reading() as session:
            return events_of(bandit, session.rows(statements.tail, bandit=bandit, limit=count))

    def wait(self, seconds: float) -> bool:
        """Return True as soon as another store has written since the last call, False after so many seconds.

        It may be True without need, and a write may be seen late: look at :meth:`heads` now and then in any case.
        """
        return self._backend.wait(seconds)

    # Snapshots.

    def put_snapshot(self, bandit: int, seq: int, state: bytes) -> None:
        """Keep the state after an event, beside the one kept before; older ones go. It is a cache."""
        with self._backend.writing([bandit]) as session:
            folded, last = self._standing(session, bandit)
            if seq > last:
                raise ValueError(f"the state is after event {seq}, but the last event of bandit {bandit} is {last}")
            if seq <= folded:
                return  # the base is as new, and has to stay
            known = [number for (number,) in session.rows(statements.cached, bandit=bandit)]
            kept = sorted({*known, seq}, reverse=True)[:_CACHES]
            for number in known:
                if number == seq or number not in kept:
                    session.start(statements.drop_cached, bandit=bandit, seq=number)
            if seq in kept:
                self._put(session, bandit, seq, state, base=False)

    def snapshot(self, bandit: int, until: int | None = None) -> tuple[int, bytes] | None:
        """Return the newest state at or before an event with its number; the base counts. None if there is none."""
        with self._backend.reading() as session:
            rows = session.rows(
                statements.newest_snapshot, bandit=bandit, until=statements.LARGEST if until is None else until
            )
        return (rows[0][0], bytes(rows[0][1])) if rows else None

    def drop_snapshots(self, bandit: int | None = None) -> None:
        """Forget the caches of a bandit, or of all; a base stays."""
        with self._backend.writing() as session:
            if bandit is None:
                session.start(statements.drop_all_caches)
            else:
                session.start(statements.drop_caches, bandit=bandit)

    def fold(self, bandit: int, seq: int, state: bytes) -> int:
        """Make a state the base: the events up to its number are deleted. Return how many.

        Their idempotency keys are forgotten with them.
        """
        with self._backend.writing([bandit]) as session:
            folded, last = self._standing(session, bandit)
            if not folded < seq <= last:
                raise ValueError(f"bandit {bandit} can be folded up to an event from {folded + 1} to {last}, not {seq}")
            session.start(statements.drop_states, bandit=bandit, seq=seq)
            session.start(statements.forget, bandit=bandit, seq=seq)
            session.start(statements.move_base, bandit=bandit, seq=seq)
            self._put(session, bandit, seq, state, base=True)
        return seq - folded

    def base(self, bandit: int) -> int:
        """Return the number of the base, 0 without one."""
        with self._backend.reading() as session:
            return self._folded(session, bandit)

    def _put(self, session: Session, bandit: int, seq: int, state: bytes, base: bool) -> None:
        """Write a snapshot."""
        session.start(statements.put_snapshot, bandit=bandit, seq=seq, base=base, time=time.time(), state=state)

    # Keys.

    def add_key(self, row: KeyRow) -> None:
        """Add an API key."""
        values = row._asdict() | {"bandits": None if row.bandits is None else json.dumps(row.bandits)}
        with self._backend.writing() as session:
            session.start(statements.put_key, **values)

    def keys(self) -> list[KeyRow]:
        """Return all keys, revoked ones too, oldest first."""
        with self._backend.reading() as session:
            rows = session.rows(statements.all_keys)
        return [KeyRow(*row)._replace(bandits=None if row[4] is None else json.loads(row[4])) for row in rows]

    def revoke_key(self, key: str, time: float) -> bool:
        """Revoke a key; say whether there was one that was not revoked before."""
        with self._backend.writing() as session:
            return bool(session.rows(statements.revoke_key, key=key, time=time))

    # Copies.

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy all of it, as it is at one moment, into a new SQLite file; others go on writing meanwhile."""
        copying.backup(self._backend, path)

    def copy_from(self, other: Store) -> None:
        """Copy all of another store into this one, which must be empty."""
        copying.copy(other._backend, self._backend)


def _backend(url: str | os.PathLike[str]) -> Backend:
    """Return the database of a URL."""
    parts = parse(url)
    if parts.get_backend_name() == "sqlite":
        from tensorbandits.store.sqlite import SQLite

        return SQLite(parts)
    check_installed("a store in PostgreSQL", "psycopg", extra="postgres")
    from tensorbandits.store.postgres import Postgres

    return Postgres(parts)

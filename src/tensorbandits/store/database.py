"""The store: bandits and their logs, snapshots of their states, and keys."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tensorbandits.base.checks import check_installed
from tensorbandits.store import copying, statements
from tensorbandits.store.address import parse
from tensorbandits.store.backend import Backend, Call
from tensorbandits.store.errors import (
    BehindError,
    ConflictError,
    DamagedError,
    NameTakenError,
    RepeatedError,
    StoreUnavailableError,
    UnknownBanditError,
)
from tensorbandits.store.events import (
    DELETED,
    BanditRow,
    Event,
    Head,
    KeyRow,
    New,
    Row,
    Standing,
    check_text,
    events_of,
    redacted,
    rows_of,
    verified,
)
from tensorbandits.store.migrate import State, migrate, state
from tensorbandits.store.reading import CHANGED, read_page, replaced
from tensorbandits.store.reading import standing as _standing

PAGE = 2000  # events that are read at once


class Store:
    """All that happened to some bandits, kept for good. Threads may share one; processes open their own.

    A method raises a :class:`StoreError` when the database cannot be used; the next call tries again, so that a
    database which comes back is used again.

    >>> store = Store.open("sqlite://")
    >>> bandit = store.create("campaign", [New("Created", 0.0, {"settings": {}})])
    >>> head = store.head(bandit.id)
    >>> decided = store.append(bandit.id, head, [New("Decided", 1.0, {"cell": [0, 1]}, decision="d1")])
    >>> [event.kind for event in store.events(bandit.id)]
    ['Created', 'Decided']
    >>> store.append(bandit.id, head, [New("Decided", 1.0, {"cell": [0, 1]}, decision="d2")])
    Traceback (most recent call last):
    ...
    tensorbandits.store.errors.BehindError: bandit 1 has events after 1, the last one that was known: ...
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

    @staticmethod
    def look(url: str | os.PathLike[str]) -> tuple[State, int]:
        """Return whether a store is ready, new, or of an older release, and how many keys it has; change nothing."""
        parts = parse(url)
        if parts.get_backend_name() == "sqlite":
            file = Path(parts.database) if parts.database else None
            if file is None or not file.exists():
                if file is not None and not os.access(file.parent, os.W_OK):
                    raise StoreUnavailableError(f"the folder {file.parent} of the store is not there, or is read-only")
                return "new", 0
        store = Store(_backend(url))
        try:
            found = state(store._backend)
            return found, len(store.keys()) if found == "ready" else 0
        finally:
            store.close()

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
        created = float(events[0].time if events else time.time())
        check_text(name, "a name")
        try:
            bandit = self._backend.create(name, created, rows_of(0, Head(), events))
        except RepeatedError:
            raise
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

    def delete(self, bandit: int, event: New, head: Head | None = None) -> Event:
        """Append a last event and free the name; the events stay. An :class:`UnknownBanditError` if it was deleted.

        A :class:`BehindError` says that the log has events after ``head``; without it the event follows the last one.
        """
        if event.kind != DELETED:
            raise ValueError(f"the last event is of kind {event.kind!r}; give one of kind {DELETED!r}")
        while True:
            known = self._standing(bandit).head if head is None else head
            try:
                return self._append(bandit, known, [event], last=True)[0]
            except BehindError:
                if head is not None:
                    raise

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

    def last_before(self, bandit: int, time: float) -> int:
        """Return the number of the last event before the first one of a time or later; 0 if there is none."""
        with self._backend.reading() as session:
            found = session.rows(statements.first_from, bandit=bandit, time=time)[0][0]
        return self.head(bandit).seq if found is None else max(int(found) - 1, 0)

    def head(self, bandit: int) -> Head:
        """Return the number and the checksum of a bandit's last event."""
        with self._backend.reading() as session:
            found = _standing(session, bandit)
        if found is None:
            raise UnknownBanditError(f"there is no bandit with number {bandit}")
        return found.head

    def _standing(self, bandit: int) -> Standing:
        """Return how the log of a bandit stands that was not deleted."""
        with self._backend.reading() as session:
            found = _standing(session, bandit)
        if found is None or found.deleted:
            raise UnknownBanditError(f"there is no bandit with number {bandit}, or it was deleted")
        return found

    # Events.

    def append(self, bandit: int, head: Head, news: Sequence[New]) -> list[Event]:
        """Add events to a log that ends at ``head``, all or none, and return them; they are durable then.

        A :class:`BehindError` says that the log has other events after ``head``: somebody else was first. A
        :class:`RepeatedError` says that an idempotency key, or the id of a decision made, is in the log already. In
        both cases nothing was written. No lock is held but while the database writes.
        """
        return self._append(bandit, head, news) if news else []

    def _append(self, bandit: int, head: Head, news: Sequence[New], last: bool = False) -> list[Event]:
        """Add events, of which the last may be the very last."""
        if head.seq and head.chain is None:
            head = Head(head.seq, self._chain(bandit, head.seq))
        rows = rows_of(bandit, head, news)
        end = rows[-1]
        removal = {"bandit": bandit, "seq": end["seq"], "chain": end["chain"], "time": end["time"]}
        then: list[Call] = [(statements.remove, removal)] if last else []
        for row, new in zip(rows, news, strict=True):
            if new.subject is not None:
                named = {"bandit": bandit, "subject": check_text(new.subject, "a subject"), "decision": new.decision}
                then.append((statements.put_subject, named | {"seq": row["seq"], "chain": row["chain"]}))
        others = self._backend.append(bandit, head, rows, *then)
        if others is not None:
            raise self._refusal(bandit, head, others)
        return [
            Event(bandit, row["seq"], row["time"], new.kind, new.decision, new.key, new.body, row["chain"])
            for row, new in zip(rows, news, strict=True)
        ]

    def _chain(self, bandit: int, seq: int) -> str | None:
        """Return the checksum of an event, None where it has none."""
        with self._backend.reading() as session:
            if rows := session.rows(statements.chain_at, bandit=bandit, seq=seq):
                return None if rows[0][0] is None else str(rows[0][0])
            found = _standing(session, bandit)
        return found.base.chain if found is not None and found.base.seq == seq else None

    def _refusal(self, bandit: int, head: Head, others: list[Row]) -> Exception:
        """Return why nothing could be appended after a head."""
        behind = (
            f"bandit {bandit} has events after {head.seq}, the last one that was known: read them before you append"
        )
        if others and others[0][0] == head.seq + 1 and others[-1][2] != DELETED:
            return BehindError(behind, verified(bandit, head, others))
        found = self._standing(bandit)
        if found.head.seq < head.seq:
            return DamagedError(bandit, head.seq, replaced(found.head.seq))
        if found.head.seq == head.seq and found.head.chain != head.chain:
            return DamagedError(bandit, head.seq, CHANGED)
        return BehindError(behind)

    def events(
        self,
        bandit: int,
        after: int | Head = 0,
        until: int | None = None,
        limit: int | None = None,
        *,
        verify: bool = True,
    ) -> Iterator[Event]:
        """Yield the events after a number or a head, up to and with ``until``, at most ``limit`` of them.

        They are read in pages: it may take long, holds up nobody, and sees what is added meanwhile. A
        :class:`FoldedError` says that some were folded into the base; with ``after=0`` all that are left come.

        What was read is what was written: a :class:`DamagedError` says that a number is missing, a checksum is wrong,
        or the log does not hold the head. ``verify=False`` yields what there is, for tools that repair a log.
        """
        head, left = after, statements.LARGEST if limit is None else limit
        end = statements.LARGEST if until is None else until
        while left > 0:
            with self._backend.reading() as session:
                page = read_page(session, bandit, head, min(left, PAGE), end, verify)
            yield from page.events
            if page.last:
                return
            head, left = page.end, left - len(page.events)

    def check(self) -> list[str]:
        """Return what the database finds wrong with its files; it reads all of an SQLite file, and takes long."""
        return self._backend.check()

    def free_bytes(self) -> int | None:
        """Return the space that is left where an SQLite file is; ``None`` for a database that runs elsewhere."""
        return self._backend.free_bytes()

    def keyed(self, bandit: int, keys: Iterable[str]) -> dict[str, Event]:
        """Return the events that carry these idempotency keys; a key that nothing carries is left out."""
        wanted = list(keys)
        if not wanted:
            return {}
        with self._backend.reading() as session:
            listed, given = self._backend.listed, self._backend.listing(wanted)
            events = events_of(bandit, session.rows(listed.keyed, bandit=bandit, keys=given))
        return {str(event.key): event for event in events}

    def of_decisions(self, bandit: int, ids: Iterable[str]) -> dict[str, list[Event]]:
        """Return all events of these decisions, in order; an id without events is left out."""
        wanted = list(ids)
        found: dict[str, list[Event]] = {}
        if wanted:
            with self._backend.reading() as session:
                listed, given = self._backend.listed, self._backend.listing(wanted)
                rows = session.rows(listed.of_decisions, bandit=bandit, ids=given)
            for event in events_of(bandit, rows):
                found.setdefault(str(event.decision), []).append(event)
        return found

    def of_kinds(self, bandit: int, kinds: Iterable[str], until: int) -> list[Event]:
        """Return the events of some kinds up to a number, in order; it reads the whole log, and may take seconds."""
        with self._backend.reading() as session:
            listed, given = self._backend.listed, self._backend.listing(list(kinds))
            return events_of(bandit, session.rows(listed.of_kinds, bandit=bandit, kinds=given, until=until))

    def tail(self, bandit: int, count: int) -> list[Event]:
        """Return the last events, newest first."""
        with self._backend.reading() as session:
            return events_of(bandit, session.rows(statements.tail, bandit=bandit, limit=count))

    def clock(self) -> float:
        """Return the time in seconds since 1970, as the database's machine has it."""
        with self._backend.reading() as session:
            return float(session.rows(self._backend.now)[0][0])

    @property
    def writers(self) -> int:
        """How many threads may append at once with gain."""
        return self._backend.writers

    def wait(self, seconds: float) -> bool:
        """Return True as soon as another store has written since the last call, False after so many seconds.

        It may be True without need, and a write may be seen late: look at :meth:`heads` now and then in any case.
        """
        return self._backend.wait(seconds)

    # Snapshots.

    def put_snapshot(self, bandit: int, seq: int, state: bytes) -> None:
        """Keep the state after an event, beside the one kept before; older ones go. It is a cache."""
        found = self._standing(bandit)
        if seq > found.head.seq:
            raise ValueError(
                f"the state is after event {seq}, but the last event of bandit {bandit} is {found.head.seq}"
            )
        if seq <= found.base.seq:
            return  # the base is as new, and has to stay
        this = {"bandit": bandit, "seq": seq}
        with suppress(ConflictError):  # another process has just put the same state
            self._backend.write(
                (statements.drop_cached, this),
                (statements.put_cache, this | {"time": time.time(), "state": state}),
                (statements.drop_old_caches, {"bandit": bandit}),
                long=True,
            )

    def snapshot(self, bandit: int, until: int | None = None) -> tuple[int, bytes] | None:
        """Return the newest state at or before an event with its number; the base counts. None if there is none."""
        with self._backend.reading() as session:
            rows = session.rows(
                statements.newest_snapshot, bandit=bandit, until=statements.LARGEST if until is None else until
            )
        if not rows:
            return None
        seq, state = rows[0]
        return seq, state.encode() if isinstance(state, str) else bytes(state)  # text only if it is damaged

    def drop_snapshots(self, bandit: int | None = None) -> None:
        """Forget the caches of a bandit, or of all; a base stays."""
        if bandit is None:
            self._backend.write((statements.drop_all_caches, {}))
        else:
            self._backend.write((statements.drop_caches, {"bandit": bandit}))

    def fold(self, bandit: int, seq: int, state: bytes) -> int:
        """Make a state the base: the events up to its number are deleted. Return how many.

        Their idempotency keys are forgotten with them.
        """
        this = {"bandit": bandit, "seq": seq}
        found = self._standing(bandit)
        if found.base.seq < seq <= found.head.seq:
            moved, _, forgotten, _ = self._backend.write(
                (statements.move_base, this),
                (statements.drop_states, this),
                (statements.forget, this),
                (statements.put_base, this | {"time": time.time(), "state": state}),
                long=True,
            )
            if moved.rows:
                return forgotten.changed
            found = self._standing(bandit)  # another process was first
        raise ValueError(
            f"bandit {bandit} can be folded up to an event from {found.base.seq + 1} to {found.head.seq}, not {seq}"
        )

    def base(self, bandit: int) -> int:
        """Return the number of the base, 0 without one."""
        with self._backend.reading() as session:
            found = _standing(session, bandit)
        return 0 if found is None else found.base.seq

    # The data of persons.

    def of_subject(self, bandit: int, subject: str) -> list[str]:
        """Return the ids of the decisions that were made for a subject."""
        if "\0" in subject:
            return []
        with self._backend.reading() as session:
            return [str(row[0]) for row in session.rows(statements.of_subject, bandit=bandit, subject=subject)]

    def redact(self, bandit: int, names: Mapping[str, str]) -> int:
        """Put names in the place of ids of decisions, and remove idempotency keys and subjects; return how many events.

        All that has an id of these goes in one transaction, caches too. What events say of cells and rewards stays.
        """
        found = [(event, names[number]) for number, some in self.of_decisions(bandit, names).items() for event in some]
        calls: list[Call] = [
            (statements.redact, {"bandit": bandit, "seq": event.seq, "name": name, "redacted": redacted(event, name)})
            for event, name in found
        ]
        calls += [(statements.drop_subject, {"bandit": bandit, "decision": number}) for number in names]
        self._backend.write(*calls, (statements.drop_caches, {"bandit": bandit}), long=True)
        return len(found)

    def replace_base(self, bandit: int, seq: int, state: bytes) -> bool:
        """Put another state in the place of the base after an event; say whether the base is still that one."""
        [done] = self._backend.write(
            (statements.replace_base, {"bandit": bandit, "seq": seq, "state": state}), long=True
        )
        return done.changed > 0

    # Keys.

    def add_key(self, row: KeyRow) -> None:
        """Add an API key."""
        values = row._asdict() | {"bandits": None if row.bandits is None else json.dumps(row.bandits)}
        self._backend.write((statements.put_key, values))

    def keys(self) -> list[KeyRow]:
        """Return all keys, revoked ones too, oldest first."""
        with self._backend.reading() as session:
            rows = session.rows(statements.all_keys)
        return [KeyRow(*row)._replace(bandits=None if row[4] is None else json.loads(row[4])) for row in rows]

    def revoke_key(self, key: str, time: float) -> bool:
        """Revoke a key; say whether there was one that was not revoked before."""
        [revoked] = self._backend.write((statements.revoke_key, {"key": key, "time": time}))
        return bool(revoked.rows)

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

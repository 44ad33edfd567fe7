"""A store in an SQLite file, which several processes of one machine may share."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Integer,
    bindparam,
    create_engine,
    event,
    func,
    literal_column,
    select,
)

from tensorbandits.store import statements
from tensorbandits.store.address import shown
from tensorbandits.store.backend import PATIENCE, Backend, Session
from tensorbandits.store.errors import (
    ConflictError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from tensorbandits.store.queue import LONGEST_PAUSE, Queue

_SHORTEST_PAUSE = 0.0001  # seconds between tries for the turn; SQLite's own pauses grow to a tenth of a second
_POLL = 0.02  # seconds between looks for what others wrote
_CHECKPOINT = 4000  # pages of the write-ahead log; each is a pause for some turn, and a longer log repeats pages more


# The plus keeps SQLite from going through all events of the bandit, which it believes to be few.
_bandit: ColumnElement[int] = literal_column("+events.bandit", Integer)


class SQLite(Backend):
    """One connection writes, others read; a write-ahead log lets both go on at once."""

    driver_error = sqlite3.Error

    def __init__(self, url: URL) -> None:
        super().__init__(shown(url))
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        if url.database is None:  # nothing is to last: a file that goes with us behaves as any other
            self._directory = tempfile.TemporaryDirectory(prefix="tensorbandits-")
            url = url.set(database=os.path.join(self._directory.name, "store.db"))
        self.path = Path(url.database or "")
        _check_place(self.path)
        self.listed = statements.Listed(_among, _bandit)
        self.engine = create_engine(
            url, paramstyle="named", connect_args={"check_same_thread": False}, pool_size=8, max_overflow=24
        )
        event.listen(self.engine, "do_connect", self.refuse_closed)
        event.listen(self.engine, "connect", self._configure)
        self._mine = threading.Lock()  # which thread has the writer
        self._queue = Queue(Path(f"{self.path}-queue"))
        self._connection: Connection | None = None
        self._seen = -1  # the version of the data that wait saw last

    def _configure(self, driver: sqlite3.Connection, _: object) -> None:
        """Set up a new connection."""
        driver.isolation_level = None  # transactions begin where we say
        driver.execute(f"PRAGMA busy_timeout = {int(PATIENCE * 1000)}")
        end = time.monotonic() + PATIENCE
        mode = _patiently(lambda: driver.execute("PRAGMA journal_mode = WAL").fetchone()[0], end)
        if mode != "wal":
            raise StoreError(
                f"{self.url} cannot keep a write-ahead log (its journal mode stays {mode!r}); put it on a local disk"
            )
        driver.execute(f"PRAGMA synchronous = {'OFF' if self._directory else 'FULL'}")
        driver.execute("PRAGMA fullfsync = ON")  # macOS; nothing elsewhere
        driver.execute("PRAGMA foreign_keys = ON")
        driver.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")

    @contextmanager
    def writing(self, bandits: Sequence[int] = ()) -> Iterator[Session]:
        """Return a transaction; all bandits share the one turn that SQLite has."""
        with self._turn() as connection:
            session = Session(self, _driver(connection))
            yield session
            session.refuse_failed()

    @contextmanager
    def exclusive(self) -> Iterator[Connection]:
        """Return a transaction in which tables may be changed."""
        with self._turn() as connection:
            yield connection

    @contextmanager
    def steady(self) -> Iterator[Connection]:
        """Return a transaction that sees all tables as they were at one moment."""
        with self.explained(), self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            yield connection
            connection.rollback()

    @contextmanager
    def _turn(self) -> Iterator[Connection]:
        """Begin, and commit or roll back."""
        if not self._mine.acquire(timeout=PATIENCE):
            raise StoreUnavailableError(f"{self.url} was written by another thread for {PATIENCE:g} seconds; ask again")
        try:
            with self.explained():
                connection = self._writer()
                driver = _driver(connection)
                end = time.monotonic() + PATIENCE
                with self._queue.head(end):
                    _patiently(lambda: driver.execute("BEGIN IMMEDIATE"), end)
            try:
                with connection.begin(), self.explained():
                    yield connection
                    with self.explained(committing=True):
                        driver.commit()
            except BaseException:
                self._reset(connection)
                raise
        finally:
            self._mine.release()

    def _writer(self) -> Connection:
        """Return the connection that writes. It is one, so that its data version tells what others wrote."""
        if self._connection is None:
            self._connection = self.engine.connect()
            _driver(self._connection).execute("PRAGMA busy_timeout = 0")  # we wait ourselves, with shorter pauses
            self._seen = -1
        return self._connection

    def _reset(self, connection: Connection) -> None:
        """Give up the writer unless it is out of its transaction, as it should be after a rollback."""
        try:
            stuck = connection.in_transaction() or _driver(connection).in_transaction
        except Exception:
            stuck = True
        if stuck:
            self._connection = None
            connection.invalidate()
            connection.close()

    def copied(self, connection: Connection) -> None:
        """Nothing is due: SQLite goes on after the largest number."""

    def append(self, session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows of events."""
        session.many(statements.append, rows)

    def send(self, driver: Any) -> None:
        """Nothing travels."""

    def listing(self, values: Sequence[Any]) -> str:
        """Return a list as one parameter."""
        return json.dumps(values)

    def wait(self, seconds: float) -> bool:
        """Look again and again whether another connection than the writer has committed."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            if self._mine.acquire(timeout=max(left, 0.0)):
                try:
                    with self.explained():
                        driver = _driver(self._writer())
                        version = driver.execute("PRAGMA data_version").fetchone()[0]
                finally:
                    self._mine.release()
                if version != self._seen:
                    self._seen = version
                    return True
            if left <= 0:
                return False
            time.sleep(min(_POLL, left))

    def explain(self, error: Exception, committing: bool = False) -> Exception:
        """Return what to raise for an error of the driver."""
        if isinstance(error, sqlite3.IntegrityError):
            return ConflictError(
                f"a number, an idempotency key or an id is in use already; nothing was written ({error})"
            )
        if isinstance(error, sqlite3.ProgrammingError):
            return error  # ours
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith("SQLITE_FULL"):
            return StoreFullError(f"no room is left for {self.url}; free some on its disk")
        if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")):
            return StoreReadOnlyError(
                f"{self.url} cannot be written; let this user write the file and its directory (and check the disk)"
            )
        if name.startswith("SQLITE_CANTOPEN"):
            return _unreachable(self.path, self.url)
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return StoreUnavailableError(
                f"{self.url} was held by another process for {PATIENCE:g} seconds; ask again, or stop that process"
            )
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            return StoreError(f"{self.url} is damaged, or no SQLite database ({error}); restore a backup")
        outcome = "; whether it was written is not known" if committing else ""
        return StoreUnavailableError(f"{self.url} cannot be used: {error}{outcome}; check its disk")

    def close(self) -> None:
        """Close all connections, and forget what was not to last."""
        with self._mine:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            super().close()
            self._queue.close()
            if self._directory is not None:
                self._directory.cleanup()


def _driver(connection: Connection) -> sqlite3.Connection:
    """Return the connection that SQLAlchemy holds."""
    driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
    return driver


def _among(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """Return that a column is in a list, which comes as JSON: one parameter, whatever its length."""
    return column.in_(select(func.json_each(bindparam(name)).table_valued("value").c.value))


def _patiently(attempt: Callable[[], Any], end: float) -> Any:
    """Return what an attempt returns; while another process holds the database try again, until a time."""
    pause = _SHORTEST_PAUSE
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if "BUSY" not in error.sqlite_errorname or time.monotonic() > end:
                raise
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_PAUSE)


def _check_place(path: Path) -> None:
    """Refuse a file that cannot be made."""
    if path.is_dir():
        raise StoreUnavailableError(
            f"{path} is a directory; give the path of a file in it, for example {path / 'tb.db'}"
        )
    if not path.parent.is_dir():
        raise StoreUnavailableError(f"the directory {path.parent} of {path.name} is not there; make it first")


def _unreachable(path: Path, url: str) -> StoreError:
    """Return why a file cannot be opened."""
    if path.parent.is_dir() and not os.access(path.parent, os.W_OK):
        return StoreReadOnlyError(f"{url} cannot be opened; let this user write the directory {path.parent}")
    return StoreUnavailableError(
        f"{url} cannot be opened; see that {path} is a file which this user may read and write"
    )

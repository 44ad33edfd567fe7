"""A store in an SQLite file, which several processes of one machine may share."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
from sqlalchemy.sql.base import Executable

from tensorbandits.store import statements
from tensorbandits.store.address import shown
from tensorbandits.store.backend import OTHERS, PATIENCE, REPEATED, Backend, Call, Done
from tensorbandits.store.errors import (
    BehindError,
    ConflictError,
    RepeatedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from tensorbandits.store.events import Head, Row, Standing
from tensorbandits.store.queue import LONGEST_PAUSE, Queue

_SHORTEST_PAUSE = 0.0001  # seconds between tries for the turn; SQLite's own pauses grow to a tenth of a second
_QUEUE = 1.0  # seconds to stand in line; a process that was stopped as the next in it may be there for ever
_POLL = 0.02  # seconds between looks for what others wrote,
_SELDOM = 0.25  # and while nobody writes anything
_SLOWER = 1.1  # factor by which looks become rarer, one after the other
_CHECKPOINT = 4000  # pages of the write-ahead log; each is a pause for some turn, and a longer log repeats pages more


# The plus keeps SQLite from going through all events of the bandit, which it believes to be few.
_bandit: ColumnElement[int] = literal_column("+events.bandit", Integer)


class SQLite(Backend):
    """One connection writes, others read; a write-ahead log lets both go on at once."""

    driver_error = (sqlite3.Error, UnicodeDecodeError)  # of a damaged file even the error may be unreadable
    now: Executable = select(literal_column("(julianday('now') - 2440587.5) * 86400.0"))

    def __init__(self, url: URL) -> None:
        super().__init__(shown(url))
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        if url.database is None:  # nothing is to last: a file that goes with us behaves as any other
            self._directory = tempfile.TemporaryDirectory(prefix="tensorbandits-")
            url = url.set(database=os.path.join(self._directory.name, "store.db"))
        self.path = Path(url.database or "")
        _check_place(self.path)
        make_private(self.path)
        self.listed = statements.Listed(_among, _bandit)
        self.engine = create_engine(
            url, paramstyle="named", connect_args={"check_same_thread": False}, pool_size=8, max_overflow=24
        )
        event.listen(self.engine, "do_connect", self.refuse_closed)
        event.listen(self.engine, "connect", self._configure)
        self._mine = threading.Lock()  # which thread has the writer
        self._queue = Queue(Path(f"{self.path}-queue"), _mode(self.path))
        self._connection: Connection | None = None
        self._seen = -1  # the version of the data that wait saw last
        self._pause = _POLL

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
        driver.execute("PRAGMA cell_size_check = ON")  # notices more of a damaged file, as it is read
        driver.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")

    def write(self, *calls: Call, long: bool = False) -> list[Done]:
        """Run some statements in one transaction."""
        with self._transaction() as driver:
            return [self._run(driver, call) for call in calls]

    def create(self, name: str, created: float, rows: Sequence[dict[str, Any]]) -> int:
        """Add a bandit and its first events."""
        with self._transaction() as driver:
            [(bandit,)] = self._run(driver, (statements.create, {"name": name, "created": created})).rows
            driver.executemany(self.text(statements.append), [row | {"bandit": bandit} for row in rows])
        return int(bandit)

    def append(self, bandit: int, head: Head, rows: Sequence[dict[str, Any]], *then: Call) -> list[Row] | None:
        """Write the rows of events if the log ends at a head; nobody else writes meanwhile."""
        with self._transaction() as driver:
            found = self._run(driver, (statements.standing, {"bandit": bandit})).rows
            standing = Standing.of(found[0]) if found else None
            if standing is None or standing.deleted or standing.head != head:
                wanted = {"bandit": bandit, "after": head.seq, "until": head.seq + OTHERS, "limit": OTHERS}
                return list(self._run(driver, (statements.log, wanted)).rows)
            driver.executemany(self.text(statements.append), rows)
            for call in then:
                self._run(driver, call)
        return None

    def _run(self, driver: sqlite3.Connection, call: Call) -> Done:
        """Run one statement."""
        cursor = driver.execute(self.text(call[0]), call[1])
        return Done(cursor.fetchall(), cursor.rowcount)

    @contextmanager
    def exclusive(self, idle: float) -> Iterator[Connection]:
        """Return a transaction in which tables may be changed."""
        with self._transaction(), self._writer().begin():
            yield self._writer()

    @contextmanager
    def steady(self) -> Iterator[Connection]:
        """Return a transaction that sees all tables as they were at one moment."""
        with self.explained(), self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            yield connection
            connection.rollback()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Begin, and commit or roll back, without SQLAlchemy's help: it would take as long as SQLite does."""
        end = time.monotonic() + PATIENCE
        if not self._mine.acquire(timeout=PATIENCE):
            raise StoreUnavailableError(f"{self.url} was written by another thread for {PATIENCE:g} seconds; ask again")
        try:
            with self.explained():
                driver = _driver(self._writer())
                with self._queue.head(min(end, time.monotonic() + _QUEUE)):
                    _patiently(lambda: driver.execute("BEGIN IMMEDIATE"), end)
            try:
                with self.explained():
                    yield driver
                with self.explained(committing=True):
                    driver.commit()
                self._pause = _POLL
            except BaseException:
                self._roll_back(driver)
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

    def _roll_back(self, driver: sqlite3.Connection) -> None:
        """Leave a transaction, and give up the writer if that is not possible."""
        with suppress(sqlite3.Error):
            driver.rollback()
        if driver.in_transaction and self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None

    def copied(self, connection: Connection) -> None:
        """Nothing is due: SQLite goes on after the largest number."""

    def listing(self, values: Sequence[Any]) -> str:
        """Return a list as one parameter."""
        return json.dumps(values)

    def check(self) -> list[str]:
        """Return what SQLite finds wrong with its file."""
        with self.explained(), self.borrowed() as connection:
            driver: sqlite3.Connection = connection.driver_connection  # type: ignore[assignment]
            try:
                said = [str(row[0]) for row in driver.execute("PRAGMA quick_check")]
            except self.driver_error as error:
                if not _damaged(error):
                    raise
                said = [str(error)]
        return [] if said == ["ok"] else said

    def free_bytes(self) -> int | None:
        """Return the space that is left on the disk of the file."""
        with suppress(OSError):
            return shutil.disk_usage(self.path.parent).free
        return None

    def wait(self, seconds: float) -> bool:
        """Look again and again whether another connection than the writer has committed.

        The longer nobody did, nor wrote here, the more seldom: an idle server should cost next to nothing.
        """
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
                    self._seen, self._pause = version, _POLL
                    return True
            if left <= 0:
                return False
            time.sleep(min(self._pause, left))
            self._pause = min(self._pause * _SLOWER, _SELDOM)

    def explain(self, error: Exception, committing: bool = False) -> Exception:
        """Return what to raise for an error of the driver."""
        if isinstance(error, sqlite3.IntegrityError):
            return _conflict(str(error))
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
        if _damaged(error):
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


def _conflict(words: str) -> Exception:
    """Return what to raise when a row is in the way of another; SQLite names the columns."""
    if "events.seq" in words:
        return BehindError(f"an event of this number is in the log; nothing was written ({words})")
    if "events.key" in words or "events.decision" in words:
        return RepeatedError(REPEATED.format(words))
    return ConflictError(f"a name or an id is in use already; nothing was written ({words})")


def _damaged(error: Exception) -> bool:
    """Say whether an error means that the file is not as SQLite wrote it."""
    name = getattr(error, "sqlite_errorname", "") or ""
    unreadable = isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error)
    return unreadable or name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT"))


def make_private(path: Path) -> None:
    """Make a file that only its owner may read, unless it is there; SQLite gives its other files the same rights."""
    with suppress(OSError):  # SQLite says what is the matter
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _mode(path: Path) -> int:
    """Return the rights of a file, to give another the same."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0o600


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

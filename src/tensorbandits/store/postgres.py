"""A store in PostgreSQL, which processes of several machines may share."""

from __future__ import annotations

import json
import math
import select as sockets
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from sqlalchemy import (
    JSON,
    URL,
    Column,
    ColumnElement,
    Connection,
    Insert,
    PoolProxiedConnection,
    Text,
    bindparam,
    cast,
    create_engine,
    event,
    func,
    insert,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import InvalidatePoolError

from tensorbandits.store import statements
from tensorbandits.store.address import shown
from tensorbandits.store.backend import PATIENCE, Backend, Session
from tensorbandits.store.errors import StoreError
from tensorbandits.store.postgres_errors import explain
from tensorbandits.store.schema import bandits, events

Driver = psycopg.Connection[tuple[Any, ...]]

_CHANNEL = "tensorbandits"
_LOCKS = 0x7462  # sets our advisory locks apart from those of others in the same database
_STUCK = 60.0  # seconds after which a server that takes nothing is given up
_POLL = 1.0  # seconds after which we look ourselves, should a notification have been lost
_QUIET = 0.05  # seconds between two notifications of a process: they take a good part of what a small commit takes

# A process that hangs in its turn is thrown out, so that others go on.
_SETTINGS = {
    "lock_timeout": f"{PATIENCE:g}s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "60s",
}
# A connection whose other end is gone is given up; what the URL says comes first.
_CONNECTION = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "tensorbandits",
}

_begin = "BEGIN"
_lock = f"SELECT pg_advisory_xact_lock({_LOCKS}, %(bandit)s)"
_notify = f"SELECT pg_notify('{_CHANNEL}', %(sender)s)"


def _append_json() -> Insert:
    """Return the statement that appends events which come as one JSON text: the quickest way for a few rows."""
    columns = [Column(column.name, column.type) for column in events.c]
    rows = func.json_to_recordset(cast(bindparam("rows", type_=Text), JSON)).table_valued(*columns)
    rows = rows.render_derived(with_types=True)
    return insert(events).from_select([column.name for column in columns], select(*rows.c))


_append = _append_json()


class Postgres(Backend):
    """Each turn holds advisory locks of its bandits; commits are told to the others by NOTIFY, many by one."""

    driver_error = psycopg.Error

    def __init__(self, url: URL) -> None:
        super().__init__(shown(url))
        self.listed = statements.Listed(_among, events.c.bandit)
        self.engine = create_engine(
            url,
            connect_args={name: value for name, value in _CONNECTION.items() if name not in url.query},
            isolation_level="AUTOCOMMIT",  # where transactions are wanted, they are begun
            use_native_hstore=False,
            pool_size=8,
            max_overflow=8,
            pool_timeout=PATIENCE,
        )
        event.listen(self.engine, "do_connect", self.refuse_closed)
        event.listen(self.engine, "connect", self._configure)
        event.listen(self.engine, "checkout", _refuse_stale)
        self._name = uuid.uuid4().hex  # tells our notifications from those of others
        self._notified = -math.inf  # when we last did
        self._owed = False  # whether something was committed since
        self._waiting = threading.Lock()
        self._listener: Driver | None = None
        self._looked = -math.inf  # when, and what was there
        self._heads: list[tuple[Any, ...]] = []

    def _configure(self, driver: Driver, _: object) -> None:
        """Set up a new connection."""
        encoding = driver.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise StoreError(f"the database {self.url} is encoded in {encoding}; make it with ENCODING 'UTF8'")
        wanted = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items())
        driver.execute(f"SELECT {wanted}")

    @contextmanager
    def writing(self, bandits: Sequence[int] = ()) -> Iterator[Session]:
        """Return a transaction that holds the locks of some bandits.

        Statements go out in a pipeline: those up to the first answer that is wanted travel together, and so do the last
        ones with the commit. Two journeys make a turn.
        """
        with self.explained(), self.borrowed() as connection:
            driver: Driver = connection.driver_connection  # type: ignore[assignment]
            committing = False
            try:
                with driver.pipeline() as pipeline:
                    driver.execute(_begin)
                    for bandit in sorted(bandits):  # always in this order, so that no two wait for each other
                        driver.execute(_lock, {"bandit": bandit})
                    session = Session(self, driver)
                    yield session
                    session.refuse_failed()
                    if loud := time.monotonic() - self._notified > _QUIET:
                        driver.execute(_notify, {"sender": self._name})
                        self._notified = time.monotonic()
                    committing = True
                    ended = driver.execute("COMMIT")
                    pipeline.sync()
                    if ended.statusmessage != "COMMIT":
                        raise StoreError(f"the turn was rolled back by {self.url}; nothing was written")
                    self._owed |= not loud  # whoever waits here for others pays
            except BaseException as error:
                _abandon(connection, driver)
                if isinstance(error, psycopg.Error):
                    raise self.explain(error, committing) from error
                raise

    @contextmanager
    def exclusive(self) -> Iterator[Connection]:
        """Return a transaction in which tables may be changed, while no other process changes them."""
        with self.explained(), self.engine.connect() as connection:
            connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
                connection.exec_driver_sql("SET LOCAL lock_timeout = '10min'")
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCKS}, 0)")  # no bandit has number 0
                yield connection

    @contextmanager
    def steady(self) -> Iterator[Connection]:
        """Return a transaction that sees all tables as they were at one moment."""
        with self.explained(), self.engine.connect() as connection:
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
                yield connection

    def copied(self, connection: Connection) -> None:
        """Let numbers go on after the largest."""
        sequence = func.pg_get_serial_sequence("bandits", "id")
        largest = func.max(bandits.c.id)
        connection.execute(select(func.setval(sequence, func.coalesce(largest, 1), largest.is_not(None))))

    def append(self, session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows of events."""
        session.start(_append, rows=json.dumps(rows))

    def send(self, driver: Driver) -> None:
        """Send the rest of a statement that was too large for the socket's buffer.

        In a pipeline the driver sends what fits and then waits for answers, while the server waits for the rest.
        """
        while driver.pgconn.flush():
            if not _ready(driver, sockets.POLLIN | sockets.POLLOUT, _STUCK):
                raise psycopg.OperationalError(f"the server took nothing for {_STUCK:g} seconds")
            driver.pgconn.consume_input()

    def listing(self, values: Sequence[Any]) -> list[Any]:
        """Return a list as one parameter."""
        return list(values)

    def wait(self, seconds: float) -> bool:
        """Listen for others; look at the logs once a second, should a notification have been lost."""
        end = time.monotonic() + seconds
        with self._waiting:
            while not self.closed:
                left = end - time.monotonic()
                busy = self._owed or time.monotonic() - self._notified < _POLL
                try:
                    if self._news(max(0.0, min(left, _QUIET if busy else _POLL))):
                        return True
                except (psycopg.Error, StoreError):
                    self._silence()
                    time.sleep(max(0.0, min(left, _POLL)))  # the caller's own statements say what is the matter
                if left <= 0:
                    return False
        raise StoreError(f"the store {self.url} was closed; open it again")

    def _news(self, seconds: float) -> bool:
        """Say whether something is new, waiting up to so many seconds."""
        if self._listener is None:
            self._listen()
        assert self._listener is not None
        notifications = list(self._listener.notifies(timeout=seconds, stop_after=1))
        told = any(notification.payload != self._name for notification in notifications)
        if self._owed and time.monotonic() - self._notified > _QUIET:
            self._owed, self._notified = False, time.monotonic()
            self._listener.execute(_notify, {"sender": self._name})
        if time.monotonic() - self._looked > _POLL:
            told |= self._look()
        return told

    def _listen(self) -> None:
        """Open the connection that listens."""
        with self.explained():
            held = self.engine.raw_connection()
        listener: Driver = held.driver_connection  # type: ignore[assignment]
        held.detach()  # it is ours, and of no other use
        self._listener = listener
        listener.execute(f"LISTEN {_CHANNEL}")
        self._looked = -math.inf

    def _look(self) -> bool:
        """Say whether the ends of the logs have moved since they were looked at."""
        with self.reading() as session:
            before, self._heads = self._heads, sorted(session.rows(statements.heads))
        self._looked = time.monotonic()
        return before != self._heads

    def _silence(self) -> None:
        """Close the connection that listens."""
        if self._listener is not None:
            with suppress(psycopg.Error):
                self._listener.close()
            self._listener = None

    def explain(self, error: Exception, committing: bool = False) -> Exception:
        """Return what to raise for an error of the driver."""
        return explain(error, self.url, committing)

    def close(self) -> None:
        """Close all connections."""
        super().close()
        with self._waiting:
            self._silence()


def _among(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """Return that a column is in a list, which comes as one parameter, whatever its length."""
    return column == func.any(bindparam(name, type_=ARRAY(column.type)))


def _refuse_stale(driver: Driver, *_: object) -> None:
    """Refuse a connection from the pool that the server has left; called before each use.

    Nothing is asked of the server, which would cost a journey: an idle connection has nothing to say, unless its end.
    """
    if driver.closed:
        raise InvalidatePoolError("closed")
    if _ready(driver, sockets.POLLIN, 0):
        raise InvalidatePoolError("the server ended the connection")


def _ready(driver: Driver, what: int, seconds: float) -> bool:
    """Say whether a connection can be read or written, waiting up to so many seconds."""
    poll = sockets.poll()
    poll.register(driver.fileno(), what)
    return bool(poll.poll(1000 * seconds))


def _abandon(connection: PoolProxiedConnection, driver: Driver) -> None:
    """Roll back; give up a connection that cannot."""
    with suppress(psycopg.Error):
        driver.rollback()
    if driver.closed:
        connection.invalidate()

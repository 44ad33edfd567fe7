"""A store in PostgreSQL, which processes of several machines may share."""

from __future__ import annotations

import json
import math
import select as sockets
import threading
import time
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    PoolProxiedConnection,
    bindparam,
    create_engine,
    event,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.sql.base import Executable

from tensorbandits.store import postgres_statements, statements
from tensorbandits.store.address import shown
from tensorbandits.store.backend import OTHERS, PATIENCE, Backend, Call, Done
from tensorbandits.store.errors import StoreError
from tensorbandits.store.events import Head, Row
from tensorbandits.store.fairness import Pauses
from tensorbandits.store.postgres_errors import explain
from tensorbandits.store.schema import bandits, events

_ANSWER = 8.0  # seconds for the answer to a statement; two such waits, one after the other, are below 20
_LONG = 65.0  # seconds for one that changes much, which the server itself ends after 60
_CHANNEL = "tensorbandits"
_LOCKS = 0x7462  # sets our advisory locks apart from those of others in the same database
_POLL = 1.0  # seconds after which we look ourselves, should a notification have been lost
_QUIET = 0.05  # seconds between two notifications of a process: they take a good part of what a small commit takes

# Who waits too long is told so, and a process that hangs where it should not is thrown out.
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

_notify = f"SELECT pg_notify('{_CHANNEL}', %(sender)s)"


class Driver(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits so many ``seconds`` for an answer, and then is given up.

    A network that lets nothing pass, with all connections open, would else be waited for without end.
    """

    seconds = _ANSWER

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **named: Any) -> Any:
        """Wait until a statement is done, which goes on whenever something came, and else now and then."""
        return super().wait(self._bounded(gen, time.monotonic() + self.seconds), *arguments, **named)

    def _bounded(self, steps: Generator[Any, Any, Any], end: float) -> Generator[Any, Any, Any]:
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > end:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer came for {self.seconds:g} seconds")
                wanted = steps.send(ready)
        except StopIteration as done:
            return done.value


class _NotTheLogError(Exception):
    """The check that follows an append has undone it."""


class Postgres(Backend):
    """Each write is one message to the server; commits are told to the others by NOTIFY, many by one."""

    driver_error = (psycopg.Error,)
    writers = 4
    now: Executable = select(literal_column("extract(epoch FROM clock_timestamp())"))

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
        event.listen(self.engine, "do_connect", self._connect)
        event.listen(self.engine, "connect", self._configure)
        event.listen(self.engine, "checkout", _refuse_stale)
        self._name = uuid.uuid4().hex  # tells our notifications from those of others
        self._notified = -math.inf  # when we last did
        self._owed = False  # whether something was committed since
        self._pauses = Pauses()
        self._waiting = threading.Lock()
        self._listener: Driver | None = None
        self._looked = -math.inf  # when, and what was there
        self._heads: list[tuple[Any, ...]] = []

    def _connect(self, *given: Any) -> Driver:
        """Open a connection; the last of what is given are the arguments."""
        self.refuse_closed()
        return Driver.connect(*given[-2], **given[-1])

    def _configure(self, driver: Driver, _: object) -> None:
        """Set up a new connection."""
        encoding = driver.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise StoreError(f"the database {self.url} is encoded in {encoding}; make it with ENCODING 'UTF8'")
        wanted = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items())
        driver.execute(f"SELECT {wanted}")

    def write(self, *calls: Call, long: bool = False) -> list[Done]:
        """Run some statements in one message, which the server takes for one transaction."""
        with self.explained(), self.borrowed() as connection:
            _driver(connection).seconds = _LONG if long else _ANSWER
            return self._send(connection, [(self.text(statement), parameters) for statement, parameters in calls])

    def _send(
        self, connection: PoolProxiedConnection, texts: Sequence[tuple[str, Mapping[str, Any]]], news: str = ""
    ) -> list[Done]:
        """Send statements with their parameters in one message, now and then with news for others.

        The server runs them when the whole message has come, and commits without waiting for us: a process that is
        stopped, or cut off, holds nothing that others wait for. (Parameters that are sent apart from a statement are
        messages of their own, between which a server waits for the next.)
        """
        cursor = psycopg.ClientCursor(_driver(connection))
        message = [cursor.mogrify(text, parameters) for text, parameters in texts]
        if loud := time.monotonic() - self._notified > _QUIET:
            message.append(cursor.mogrify(_notify, {"sender": self._name + news}))
            self._notified = time.monotonic()
        with self.explained(committing=True):
            cursor.execute(";".join(message))
        self._owed |= not loud  # whoever waits here for others pays
        return _results(cursor, len(texts))

    def create(self, name: str, created: float, rows: Sequence[dict[str, Any]]) -> int:
        """Add a bandit and its first events."""
        made, _ = self.write(
            (statements.create, {"name": name, "created": created}),
            (postgres_statements.first_events, {"name": name, "rows": json.dumps(rows)}),
        )
        return int(made.rows[0][0])

    def append(self, bandit: int, head: Head, rows: Sequence[dict[str, Any]], *then: Call) -> list[Row] | None:
        """Write the rows of events if the log ends at a head; who was first is decided by the primary key."""
        given = {
            "bandit": bandit,
            "after": head.seq,
            "chain": head.chain,
            "rows": json.dumps(rows),
            "until": head.seq + OTHERS,
            "first": rows[0]["chain"],
        }
        self._pauses.keep(bandit)
        late = self._pauses.need(bandit)
        news = "" if late is None else f" {bandit} {late:.4f}"
        with self.explained(), self.borrowed() as connection:
            self._prepare(connection)
            started = time.monotonic()
            message: list[tuple[str, Mapping[str, Any]]] = [(text, given) for text in postgres_statements.EXECUTE]
            message += [(self.text(statement), parameters) for statement, parameters in then]
            try:
                appended, _, others, *_ = self._send(connection, message, news)
            except _NotTheLogError:
                return []
        if appended.rows[0][0]:
            self._pauses.won(bandit, started)
            return None
        self._pauses.lost(bandit)
        return list(others.rows)

    def _prepare(self, connection: PoolProxiedConnection) -> None:
        """Have the server plan the statements of an append once for a connection: planning takes as long as running."""
        if "prepared" not in connection.info:
            for text in postgres_statements.prepare(self.text):
                _driver(connection).execute(text)
            connection.info["prepared"] = True

    @contextmanager
    def exclusive(self, idle: float) -> Iterator[Connection]:
        """Return a transaction in which tables may be changed, while no other process changes them."""
        with self.explained(), self.engine.connect() as connection:
            connection.execution_options(isolation_level="READ COMMITTED")
            _driver(connection.connection).seconds = math.inf
            with connection.begin():
                connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
                connection.exec_driver_sql("SET LOCAL lock_timeout = '10min'")
                connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = '{idle:g}s'")
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCKS}, 0)")
                # Behind a change of tables that waits, all others wait as well.
                connection.exec_driver_sql("SET LOCAL lock_timeout = '3s'")
                yield connection

    @contextmanager
    def steady(self) -> Iterator[Connection]:
        """Return a transaction that sees all tables as they were at one moment."""
        with self.explained(), self.engine.connect() as connection:
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            _driver(connection.connection).seconds = math.inf
            with connection.begin():
                connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
                yield connection

    def copied(self, connection: Connection) -> None:
        """Let numbers go on after the largest."""
        sequence = func.pg_get_serial_sequence("bandits", "id")
        largest = func.max(bandits.c.id)
        connection.execute(select(func.setval(sequence, func.coalesce(largest, 1), largest.is_not(None))))

    def listing(self, values: Sequence[Any]) -> list[Any]:
        """Return a list as one parameter."""
        return list(values)

    def check(self) -> list[str]:
        """Return nothing: the server watches over its files."""
        return []

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
        told = any([self._hear(*notification.payload.split()) for notification in notifications])
        if self._owed and time.monotonic() - self._notified > _QUIET:
            self._owed, self._notified = False, time.monotonic()
            self._listener.execute(_notify, {"sender": self._name})
        if time.monotonic() - self._looked > _POLL:
            told |= self._look()
        return told

    def _hear(self, sender: str, bandit: str = "", seconds: str = "") -> bool:
        """Say whether a notification came from another process, which may have been late with an append."""
        if sender != self._name and bandit:
            self._pauses.asked(int(bandit), float(seconds))
        return sender != self._name

    def _listen(self) -> None:
        """Open the connection that listens."""
        with self.explained():
            held = self.engine.raw_connection()
        listener = _driver(held)
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
        if isinstance(error, psycopg.errors.DivisionByZero):
            return _NotTheLogError("the log is not the one that the writer knows; nothing was written")
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
    if _ready(driver):
        raise InvalidatePoolError("the server ended the connection")
    driver.seconds = _ANSWER


def _driver(connection: PoolProxiedConnection) -> Driver:
    """Return the connection that the pool holds."""
    driver: Driver = connection.driver_connection  # type: ignore[assignment]
    return driver


def _ready(driver: Driver) -> bool:
    """Say whether there is something to read from a connection."""
    poll = sockets.poll()
    poll.register(driver.fileno(), sockets.POLLIN)
    return bool(poll.poll(0))


def _results(cursor: psycopg.ClientCursor[Any], count: int) -> list[Done]:
    """Return what each of the first statements of a message did."""
    done = []
    for _ in range(count):
        done.append(Done(cursor.fetchall() if cursor.description else [], cursor.rowcount))
        cursor.nextset()
    return done

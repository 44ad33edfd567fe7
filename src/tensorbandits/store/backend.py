"""What a database must offer to a store; SQLite and PostgreSQL are the two there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, PoolProxiedConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.sql.base import Executable

from tensorbandits.store.errors import StoreError, StoreUnavailableError
from tensorbandits.store.events import Head, Row
from tensorbandits.store.statements import Listed

PATIENCE = 10.0  # seconds that a write waits for another process
OTHERS = 200  # events of others that come with the refusal of an append
REPEATED = "an idempotency key, or the id of a decision, is in the log already; nothing was written ({})"

Call = tuple[Executable, Mapping[str, Any]]  # a statement and its parameters


class Done(NamedTuple):
    """What a statement did: its rows, and how many rows it changed."""

    rows: list[tuple[Any, ...]]
    changed: int


class Backend(ABC):
    """A database: how it is reached, written and waited for, and what its errors mean.

    A write is a list of statements that are all known before the first of them runs, so that no database waits for a
    process in the middle of a transaction. Statements are SQLAlchemy's, but the driver runs them: each is compiled
    once, and a busy server spends no time between the two.
    """

    engine: Engine
    listed: Listed
    driver_error: tuple[type[Exception], ...]
    writers: int = 1  # threads that may append at once with gain
    now: Executable  # asks for the time, in seconds since 1970

    def __init__(self, url: str) -> None:
        self.url = url  # without a password
        self.closed = False
        self._texts: dict[Executable, str] = {}

    @abstractmethod
    def write(self, *calls: Call, long: bool = False) -> list[Done]:
        """Run some statements in one transaction, which is durable at the end; say if it may take long."""

    @abstractmethod
    def create(self, name: str, created: float, rows: Sequence[dict[str, Any]]) -> int:
        """Add a bandit and its first events in one transaction, and return its number."""

    @abstractmethod
    def append(self, bandit: int, head: Head, rows: Sequence[dict[str, Any]], *then: Call) -> list[Row] | None:
        """Write the rows of events, and what else belongs to them, if the log of the bandit ends at a head.

        Return None when that was done; otherwise nothing was written, and the next events after the head return, of
        which there may be none.
        """

    @abstractmethod
    def exclusive(self, idle: float) -> AbstractContextManager[Connection]:
        """Return a transaction in which tables may be changed, while no other process changes them.

        A process that does nothing in it for ``idle`` seconds may be thrown out, so that others go on.
        """

    @abstractmethod
    def steady(self) -> AbstractContextManager[Connection]:
        """Return a transaction that sees all tables as they were at one moment, for reading."""

    @abstractmethod
    def listing(self, values: Sequence[Any]) -> Any:
        """Return a list as the parameter of a statement of :class:`Listed`."""

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Return True as soon as another store wrote, False when so many seconds passed."""

    @abstractmethod
    def check(self) -> list[str]:
        """Return what the database says is wrong with its files."""

    def free_bytes(self) -> int | None:
        """Return the space that is left for files, if they are on this machine."""
        return None

    @abstractmethod
    def explain(self, error: Exception, committing: bool = False) -> Exception:
        """Return what to raise for an error of the driver."""

    @abstractmethod
    def copied(self, connection: Connection) -> None:
        """Do what is due after rows were copied with their numbers."""

    def close(self) -> None:
        """Close all connections; nothing opens one again."""
        self.closed = True
        self.engine.dispose()

    def refuse_closed(self, *_: object) -> None:
        """Refuse a new connection to a store that was closed; called when one is opened."""
        if self.closed:
            raise StoreError(f"the store {self.url} was closed; open it again")

    def text(self, statement: Executable) -> str:
        """Return a statement as this database wants it."""
        text = self._texts.get(statement)
        if text is None:
            text = self._texts[statement] = str(statement.compile(dialect=self.engine.dialect))  # type: ignore[attr-defined]
        return text

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Return statements that see what is committed when each of them begins."""
        with self.explained(), self.borrowed() as connection:
            yield Session(self, connection.driver_connection)

    @contextmanager
    def borrowed(self) -> Iterator[PoolProxiedConnection]:
        """Return a connection of the pool, and give it back."""
        connection = self.engine.raw_connection()
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def explained(self, committing: bool = False) -> Iterator[None]:
        """Turn errors of the driver and of SQLAlchemy into ours."""
        try:
            yield
        except DBAPIError as error:
            raise self.explain(error.orig, committing) from error  # type: ignore[arg-type]
        except self.driver_error as error:
            raise self.explain(error, committing) from error
        except PoolTimeoutError as error:
            raise StoreUnavailableError(
                f"all connections to {self.url} are in use; ask again, or ask less at once"
            ) from error


class Session:
    """Statements that read, on one connection of the driver."""

    def __init__(self, backend: Backend, driver: Any) -> None:
        self.backend = backend
        self._driver = driver

    def rows(self, statement: Executable, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        found: list[tuple[Any, ...]] = self._driver.execute(self.backend.text(statement), parameters).fetchall()
        return found

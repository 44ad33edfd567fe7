"""What a database must offer to a store; SQLite and PostgreSQL are the two there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, PoolProxiedConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.sql.base import Executable

from tensorbandits.store.errors import StoreError, StoreUnavailableError
from tensorbandits.store.statements import Listed

PATIENCE = 10.0  # seconds that a turn waits for another process


class Cursor(Protocol):
    """What is needed of a driver's cursor."""

    def execute(self, sql: str, parameters: Mapping[str, Any] = ..., /) -> Any:
        """Run a statement."""

    def executemany(self, sql: str, rows: Sequence[Mapping[str, Any]], /) -> Any:
        """Run a statement once per row."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows of the answer."""


class Backend(ABC):
    """A database: how it is reached, locked and waited for, and what its errors mean.

    Statements are SQLAlchemy's, but the driver runs them: each is compiled once, and a turn of a busy server spends no
    time between the two.
    """

    engine: Engine
    listed: Listed
    driver_error: type[Exception]

    def __init__(self, url: str) -> None:
        self.url = url  # without a password
        self.closed = False
        self._texts: dict[Executable, str] = {}

    @abstractmethod
    def writing(self, bandits: Sequence[int] = ()) -> AbstractContextManager[Session]:
        """Return a transaction that holds the turn of these bandits; it commits at the end, or rolls back on errors."""

    @abstractmethod
    def exclusive(self) -> AbstractContextManager[Connection]:
        """Return a transaction in which tables may be changed, while no other process changes them."""

    @abstractmethod
    def steady(self) -> AbstractContextManager[Connection]:
        """Return a transaction that sees all tables as they were at one moment, for reading."""

    @abstractmethod
    def append(self, session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows of events."""

    @abstractmethod
    def listing(self, values: Sequence[Any]) -> Any:
        """Return a list as the parameter of a statement of :class:`Listed`."""

    @abstractmethod
    def send(self, driver: Any) -> None:
        """See to it that a statement was sent, however large it is."""

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Return True as soon as another store wrote, False when so many seconds passed."""

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
    """Statements on one connection of the driver."""

    def __init__(self, backend: Backend, driver: Any) -> None:
        self.backend = backend
        self._driver = driver
        self._failed: Exception | None = None  # the first error

    def start(self, statement: Executable, **parameters: Any) -> Answer:
        """Run a statement; its rows may be fetched later, which lets PostgreSQL answer several in one go."""
        try:
            cursor: Cursor = self._driver.cursor()
            cursor.execute(self.backend.text(statement), parameters)
            self.backend.send(self._driver)
        except self.backend.driver_error as error:
            raise self.failed(error) from error
        return Answer(self, cursor)

    def rows(self, statement: Executable, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self.start(statement, **parameters).rows()

    def many(self, statement: Executable, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement once per row."""
        try:
            self._driver.cursor().executemany(self.backend.text(statement), rows)
        except self.backend.driver_error as error:
            raise self.failed(error) from error

    def failed(self, error: Exception) -> Exception:
        """Return what to raise for an error of the driver, and remember that the transaction cannot be committed."""
        if self._failed is None:
            self._failed = self.backend.explain(error)
        return self._failed

    def refuse_failed(self) -> None:
        """Refuse to commit after an error, even if it was caught: some rows of a statement may have been written."""
        if self._failed is not None:
            raise self._failed


class Answer:
    """The rows of a statement, when they are wanted."""

    __slots__ = ("_cursor", "_session")

    def __init__(self, session: Session, cursor: Cursor) -> None:
        self._session = session
        self._cursor = cursor

    def rows(self) -> list[tuple[Any, ...]]:
        """Return them."""
        try:
            return self._cursor.fetchall()
        except self._session.backend.driver_error as error:
            raise self._session.failed(error) from error

"""Copies of a whole store."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sqlalchemy import Connection, Table, insert, select

from tensorbandits.store.address import parse
from tensorbandits.store.backend import Backend
from tensorbandits.store.errors import StoreError, StoreFullError, StoreReadOnlyError
from tensorbandits.store.migrate import migrate
from tensorbandits.store.schema import metadata

_PAGE = 2000  # rows that are copied at once


def backup(source: Backend, path: str | os.PathLike[str]) -> None:
    """Copy a store into a new SQLite file, which appears when it is complete."""
    from tensorbandits.store.sqlite import SQLite, make_private

    target = Path(path)
    _refuse_existing(target)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as directory:
            made = Path(directory) / target.name
            make_private(made)
            if isinstance(source, SQLite):
                with source.explained(), source.engine.connect() as connection:
                    connection.exec_driver_sql("VACUUM INTO :path", {"path": str(made)})
            else:
                into = SQLite(parse(made))
                try:
                    migrate(into)
                    copy(source, into)
                finally:
                    into.close()
            _sync(made)
            _refuse_existing(target)
            os.link(made, target)  # unlike a rename, it never replaces a file
        _sync(target.parent)
    except FileExistsError:
        _refuse_existing(target)
        raise
    except FileNotFoundError as error:
        raise StoreError(f"the directory {target.parent} of the backup is not there; make it first") from error
    except PermissionError as error:
        raise StoreReadOnlyError(f"the backup {target} cannot be written; let this user write its directory") from error
    except OSError as error:
        raise StoreFullError(f"the backup {target} cannot be written: {error.strerror}; free some room") from error


def copy(source: Backend, target: Backend) -> None:
    """Copy all rows of a store into an empty one, in one transaction."""
    with source.steady() as reading, target.exclusive(idle=60.0) as writing, target.explained():
        for table in metadata.sorted_tables:
            if writing.execute(select(1).select_from(table).limit(1)).first() is not None:
                raise StoreError(f"{target.url} is not empty; give a new database to restore into")
        for table in metadata.sorted_tables:
            _copy_table(reading, writing, table)
        target.copied(writing)


def _copy_table(reading: Connection, writing: Connection, table: Table) -> None:
    """Copy the rows of a table, page by page."""
    rows = reading.execution_options(yield_per=_PAGE).execute(select(table).order_by(*table.primary_key.columns))
    for page in rows.mappings().partitions(_PAGE):
        writing.execute(insert(table), [dict(row) for row in page])


def _refuse_existing(path: Path) -> None:
    """Refuse to overwrite."""
    if path.exists():
        raise FileExistsError(f"{path} exists; give the backup a name of its own")


def _sync(path: Path) -> None:
    """Make a file, or the entries of a directory, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

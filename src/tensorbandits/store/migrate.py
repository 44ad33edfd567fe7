"""Bringing the tables of a database up to date."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sqlalchemy import Connection, column, inspect, select, table

from tensorbandits.store import migrations
from tensorbandits.store.backend import Backend
from tensorbandits.store.errors import StoreError
from tensorbandits.store.schema import REVISION, VERSION_TABLE, metadata

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

State = Literal["ready", "new", "older"]


def migrate(backend: Backend) -> None:
    """Make the tables, or upgrade them; one process at a time does, the others wait and find it done."""
    with backend.explained():
        with backend.engine.connect() as connection:
            found = revision(connection)
            connection.rollback()
        if found != REVISION:
            with backend.exclusive(idle=5.0) as connection:
                _upgrade(connection, backend.url)


def state(backend: Backend) -> State:
    """Return whether the tables are ready, are not there, or are of an older release; change nothing."""
    with backend.explained(), backend.engine.connect() as connection:
        found = revision(connection)
        if found is None:
            _refuse_others(connection, backend.url)
            return "new"
        if found != REVISION:
            _refuse_newer(found, backend.url)
        return "ready" if found == REVISION else "older"


def revision(connection: Connection) -> str | None:
    """Return the revision of the tables, None where there are none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(select(table(VERSION_TABLE, column("version_num")))).scalar_one_or_none()


def _upgrade(connection: Connection, url: str) -> None:
    """Run the steps that are missing; the caller's transaction makes them all or none."""
    # Alembic is slow to import, and needed only when something changes.
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    found = revision(connection)  # again: another process may have been here first
    if found is None:
        _refuse_others(connection, url)
        script = _script()
    else:
        script = _refuse_newer(found, url)
    context = MigrationContext.configure(
        connection,
        opts={
            "version_table": VERSION_TABLE,
            "fn": lambda current, _: script._upgrade_revs(REVISION, current),
            "transaction_per_migration": False,
        },
    )
    with Operations.context(context):
        context.run_migrations()


def _script() -> ScriptDirectory:
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(Path(migrations.__file__).parent))


def _refuse_newer(found: str, url: str) -> ScriptDirectory:
    """Refuse tables of a release that is newer than this one; return the steps that are known."""
    script = _script()
    if found not in {step.revision for step in script.walk_revisions()}:
        raise StoreError(
            f"the tables of {url} are of revision {found}, which a newer release of tensorbandits made; this one knows "
            f"revisions up to {REVISION}: install the newer release, or give another database"
        )
    return script


def _refuse_others(connection: Connection, url: str) -> None:
    """Refuse a database that has tables of our names but not from us."""
    strange = sorted(set(inspect(connection).get_table_names()) & set(metadata.tables))
    if strange:
        raise StoreError(
            f"{url} has tables which tensorbandits did not make ({', '.join(strange)}); give it a database of its own"
        )

"""The tables, as they are after all migrations."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TextClause,
    text,
)

REVISION = "3"  # the newest in migrations/versions
VERSION_TABLE = "tensorbandits_version"  # not Alembic's usual name: the database may belong to others as well

metadata = MetaData()


def _some_rows(name: str, condition: ColumnElement[bool] | TextClause, *columns: Column[Any], unique: bool) -> Index:
    """Return an index of the rows that meet a condition; each database has an argument of its own for it."""
    return Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


bandits = Table(
    "bandits",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("deleted", Double),
    Column("folded", BigInteger, nullable=False, server_default=text("0")),  # the number of the base; 0 without one
    Column("folded_chain", Text),  # the checksum of the event of that number, on which the next one builds
    sqlite_autoincrement=True,  # numbers are never used again
)
# A name is free again when its bandit is deleted.
_some_rows("bandits_name", bandits.c.deleted.is_(None), bandits.c.name, unique=True)

events = Table(
    "events",
    metadata,
    Column("bandit", Integer, ForeignKey("bandits.id"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("time", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("decision", Text),
    Column("key", Text),
    Column("body", Text, nullable=False),  # JSON
    Column("chain", Text),  # a checksum of this event and all before it; none in those that early releases wrote
    PrimaryKeyConstraint("bandit", "seq"),
    sqlite_with_rowid=False,  # one tree, in the order in which it is read
)
_some_rows("events_decision", events.c.decision.is_not(None), events.c.decision, events.c.bandit, unique=False)
_some_rows("events_key", events.c.key.is_not(None), events.c.key, events.c.bandit, unique=True)
# A decision is made once. Logs of early releases may hold one twice, which must not stop their upgrade.
_some_rows(
    "events_decided",
    text("kind = 'Decided' AND chain IS NOT NULL"),
    events.c.bandit,
    events.c.decision,
    unique=True,
)

# Who decisions were made for, by an id of the caller's: apart from the log, so that it can be removed without a trace.
subjects = Table(
    "subjects",
    metadata,
    Column("bandit", Integer, ForeignKey("bandits.id"), nullable=False),
    Column("subject", Text, nullable=False),
    Column("decision", Text, nullable=False),
    PrimaryKeyConstraint("bandit", "subject", "decision"),
    sqlite_with_rowid=False,
)

# The base is the state after events that are no longer there; all others are caches.
snapshots = Table(
    "snapshots",
    metadata,
    Column("bandit", Integer, ForeignKey("bandits.id"), nullable=False),
    Column("base", Boolean, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("time", Double, nullable=False),
    Column("state", LargeBinary, nullable=False),
    PrimaryKeyConstraint("bandit", "base", "seq"),
)

keys = Table(
    "keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("bandits", Text),  # a JSON list of names
    Column("created", Double, nullable=False),
    Column("revoked", Double),
)

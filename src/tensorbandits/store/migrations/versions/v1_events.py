"""The first tables: bandits, events, snapshots, keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "bandits",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("deleted", sa.Double),
        sa.Column("folded", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sqlite_autoincrement=True,
    )
    _partial_index("bandits_name", "bandits", ["name"], "deleted IS NULL", unique=True)
    op.create_table(
        "events",
        sa.Column("bandit", sa.Integer, sa.ForeignKey("bandits.id"), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("decision", sa.Text),
        sa.Column("key", sa.Text),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("bandit", "seq"),
        sqlite_with_rowid=False,
    )
    _partial_index("events_decision", "events", ["decision", "bandit"], "decision IS NOT NULL", unique=False)
    _partial_index("events_key", "events", ["key", "bandit"], "key IS NOT NULL", unique=True)
    op.create_table(
        "snapshots",
        sa.Column("bandit", sa.Integer, sa.ForeignKey("bandits.id"), nullable=False),
        sa.Column("base", sa.Boolean, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("bandit", "base", "seq"),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("bandits", sa.Text),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("revoked", sa.Double),
    )


def _partial_index(name: str, table: str, columns: list[str], where: str, unique: bool) -> None:
    """Make an index of some rows; each database has an argument of its own for which."""
    op.create_index(name, table, columns, unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where))

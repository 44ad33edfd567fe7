"""Checksums of events, each chained to the one before, and decisions that are made once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Add the columns and the index; events that are there stay without checksums."""
    op.add_column("bandits", sa.Column("folded_chain", sa.Text))
    op.add_column("events", sa.Column("chain", sa.Text))
    where = sa.text("kind = 'Decided' AND chain IS NOT NULL")
    op.create_index(
        "events_decided", "events", ["bandit", "decision"], unique=True, sqlite_where=where, postgresql_where=where
    )

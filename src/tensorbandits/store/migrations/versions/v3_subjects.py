"""Who decisions were made for, by an id of the caller's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "subjects",
        sa.Column("bandit", sa.Integer, sa.ForeignKey("bandits.id"), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("decision", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("bandit", "subject", "decision"),
        sqlite_with_rowid=False,
    )

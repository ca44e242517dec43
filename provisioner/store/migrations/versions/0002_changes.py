"""Counts the changes of endpoints and of keys, so that nobody has to read all rows to learn that none changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table and its two rows."""
    changes = op.create_table(
        "changes",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("subject", name="pk_changes"),
    )
    op.bulk_insert(changes, [{"subject": "endpoints", "number": 1}, {"subject": "api_keys", "number": 1}])

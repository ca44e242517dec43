"""Counts the changes of models' versions, so that every process of the API learns of them cheaply."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the row."""
    changes = sa.table("changes", sa.column("subject", sa.Text), sa.column("number", sa.BigInteger))
    op.bulk_insert(changes, [{"subject": "model_versions", "number": 1}])

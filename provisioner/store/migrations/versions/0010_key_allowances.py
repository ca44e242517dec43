"""What may be sent with a key in a minute."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the column."""
    op.add_column("api_keys", sa.Column("allowance", sa.Text()))

"""Keys have roles and scopes; those of the provider itself have no tenant."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the columns, and let a key be without a tenant."""
    with op.batch_alter_table("api_keys") as keys:  # SQLite changes a column by making the table anew
        keys.alter_column("tenant", existing_type=sa.Text(), nullable=True)
        keys.add_column(sa.Column("role", sa.Text(), nullable=False, server_default="customer"))
        keys.add_column(sa.Column("scopes", sa.Text()))
        keys.add_column(sa.Column("last_used_at", sa.DateTime(timezone=True)))

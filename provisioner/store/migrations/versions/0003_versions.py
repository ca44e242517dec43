"""Endpoints count their changes, remember what they are being changed to, and tell watches; tenants may be leaving."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns and the table."""
    op.add_column("tenants", sa.Column("offboarding", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("endpoints", sa.Column("change", sa.Text()))
    op.add_column("endpoints", sa.Column("version", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_table(
        "changed_endpoints",
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("removed", sa.Boolean(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("version", name="pk_changed_endpoints"),
    )

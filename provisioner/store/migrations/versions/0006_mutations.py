"""Changes made at once are known by their idempotency keys; a key says which key made it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column and the table."""
    op.add_column("api_keys", sa.Column("created_by", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "mutations",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "idempotency_key", name="pk_mutations"),
    )
    op.create_index("ix_mutations_at", "mutations", ["at"])

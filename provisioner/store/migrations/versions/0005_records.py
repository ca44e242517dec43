"""Audit events carry digests; teams, usage and versions of models have tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add the columns and the tables."""
    for name in ("before_digest", "after_digest"):
        op.add_column("audit_events", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    op.create_index("ix_audit_events_at", "audit_events", ["at"])
    op.create_table(
        "teams",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_teams_tenant"),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_teams"),
    )
    _make_usage()
    op.create_table(
        "model_versions",
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("archived_at", _MOMENT),
        sa.PrimaryKeyConstraint("model", "version", name="pk_model_versions"),
    )


def _make_usage() -> None:
    op.create_table(
        "usage_hours",
        sa.Column("hour", _MOMENT, nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("endpoint_name", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("team", sa.Text()),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("unmeasured", sa.BigInteger(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "endpoint", "key", name="pk_usage_hours"),
    )
    op.create_index("ix_usage_hours_tenant", "usage_hours", ["tenant", "hour"])
    op.create_table(
        "usage_batches",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_usage_batches"),
    )

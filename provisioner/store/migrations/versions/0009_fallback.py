"""External fallback: endpoints' choices, budgets and what is reserved of them, evidence; and the gateways that live."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_MOMENT = sa.DateTime(timezone=True)
_GROWING = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the tables."""
    _add_choices()
    _add_budgets()
    op.create_table(
        "gateways",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_gateways"),
    )


def _add_choices() -> None:
    op.create_table(
        "fallbacks",
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("changed_at", _MOMENT, nullable=False),
        sa.Column("acknowledged_by", sa.Text(), nullable=False),
        sa.Column("acknowledged_at", _MOMENT),
        sa.PrimaryKeyConstraint("endpoint", name="pk_fallbacks"),
        sa.ForeignKeyConstraint(["endpoint"], ["endpoints.id"], name="fk_fallbacks_endpoint", ondelete="CASCADE"),
    )
    op.create_table(
        "fallback_evidence",
        sa.Column("id", _GROWING, sa.Identity(), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("denial", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_fallback_evidence"),
    )
    op.create_index("ix_fallback_evidence_endpoint", "fallback_evidence", ["endpoint", "id"])
    op.create_index("ix_fallback_evidence_at", "fallback_evidence", ["at"])
    changes = sa.table("changes", sa.column("subject", sa.Text), sa.column("number", sa.BigInteger))
    op.bulk_insert(changes, [{"subject": "fallbacks", "number": 1}])


def _add_budgets() -> None:
    op.create_table(
        "budgets",
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("policy", "at", name="pk_budgets"),
    )
    op.create_table(
        "reservations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("period", _MOMENT, nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("request_cost", sa.BigInteger(), nullable=False),
        sa.Column("unused", sa.Integer()),
        sa.Column("at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_reservations"),
    )
    op.create_index("ix_reservations_at", "reservations", ["at"])

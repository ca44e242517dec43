"""The tables of external fallback and of gateways; `schema` has the others and the types of columns."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Identity, Index, Integer, Table, Text

from provisioner.store.schema import METADATA, GrowingInteger, Moment

FALLBACKS = Table(
    "fallbacks",
    METADATA,
    Column("endpoint", Text, ForeignKey("endpoints.id", ondelete="CASCADE"), primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("changed_at", Moment, nullable=False),
    Column("acknowledged_by", Text, nullable=False),
    Column("acknowledged_at", Moment),
)
"""Which endpoint chose which policy of the site."""

FALLBACK_EVIDENCE = Table(
    "fallback_evidence",
    METADATA,
    Column("id", GrowingInteger, Identity(), primary_key=True),
    Column("at", Moment, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("denial", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("outcome", Text, nullable=False),
    Index("ix_fallback_evidence_endpoint", "endpoint", "id"),
    Index("ix_fallback_evidence_at", "at"),
)
"""Requests that went outside or were not let. The oldest rows are dropped after a while."""

BUDGETS = Table(
    "budgets",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("at", Moment, primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
)
"""What is reserved of a policy in the period that began at `at`."""

RESERVATIONS = Table(
    "reservations",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("policy", Text, nullable=False),
    Column("period", Moment, nullable=False),
    Column("requests", Integer, nullable=False),
    Column("request_cost", BigInteger, nullable=False),
    Column("unused", Integer),
    Column("at", Moment, nullable=False),
    Index("ix_reservations_at", "at"),
)
"""Each reservation of a gateway; `unused` is what it gave back. The oldest rows are dropped after a while."""

GATEWAYS = Table("gateways", METADATA, Column("id", Text, primary_key=True), Column("at", Moment, nullable=False))
"""When each gateway was last heard of. The oldest rows are dropped after a while."""

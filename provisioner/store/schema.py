"""The tables, as SQLAlchemy Core sees them, and the column types that carry domain values.

One schema serves SQLite and PostgreSQL. The migrations are the truth; a test builds the database from them and compares
it with these tables. Only the modules of `store` import this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.types import TypeDecorator

from provisioner.domain.access import AccessRole, Scope
from provisioner.domain.conditions import Stage
from provisioner.domain.endpoint import Change, EndpointRequest, Phase
from provisioner.domain.model_version import VersionOrigin
from provisioner.domain.operation import Json, OperationState, Verb
from provisioner.domain.plan import EndpointPlan
from provisioner.domain.snapshot import Allowance, Snapshot

ValueT = TypeVar("ValueT")
WordT = TypeVar("WordT", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a value that this version cannot decode, so that one row does not take the others with it.

    `why` never repeats the value. `rows` turns it into an error that names the row.
    """

    why: str


class _Decoded(TypeDecorator[ValueT]):
    """A column type whose stored value may be one that this version does not know."""

    __abstract__ = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """Decodes a value, or says why it cannot be."""
        decode = super().result_processor(dialect, coltype)
        if decode is None:
            return None

        def decode_or_say_why(stored: Any) -> Any:
            try:
                return decode(stored)
            except ValidationError as error:
                first = error.errors(include_url=False, include_context=False, include_input=False)[0]
                return Unreadable(f"{'.'.join(map(str, first['loc'])) or 'value'}: {first['type']}"[:200])
            except (ValueError, TypeError):
                return Unreadable("unknown value")

        return decode_or_say_why


class Moment(_Decoded[datetime]):
    """An aware moment in UTC; SQLite keeps it as text that sorts by time."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """In UTC. ValueError for a naive moment."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("storing a moment: it has no time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Aware, in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Word(_Decoded[WordT], Generic[WordT]):
    """A member of an enumeration, stored as its value."""

    impl = Text
    cache_ok = True

    def __init__(self, words: type[WordT]) -> None:
        super().__init__()
        self.words = words

    def process_bind_param(self, value: WordT | None, dialect: Dialect) -> str | None:
        """Its value."""
        return None if value is None else value.value

    def process_result_value(self, value: str | None, dialect: Dialect) -> WordT | None:
        """The member. ValueError for a word that this version does not know."""
        return None if value is None else self.words(value)


class Document(_Decoded[ValueT], Generic[ValueT]):
    """A value of a domain type, stored as JSON text: the same bytes for the same value, order of keys kept."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind
        self._adapter: TypeAdapter[ValueT] = TypeAdapter(kind)

    def process_bind_param(self, value: ValueT | None, dialect: Dialect) -> str | None:
        """Its JSON."""
        return None if value is None else self._adapter.dump_json(value).decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> ValueT | None:
        """The value."""
        return None if value is None else self._adapter.validate_json(value)


METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

GrowingInteger = BigInteger().with_variant(Integer, "sqlite")
"""A 64-bit number from a sequence; SQLite's integer keys have 64 bits under this name only."""

IS_OPEN = text("state NOT IN ('succeeded', 'failed', 'cancelled')")
"""Literal, because an index with a condition serves only a query that repeats it word by word."""

TENANTS = Table(
    "tenants",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("display_name", Text, nullable=False),
    Column("tiers", Document[tuple[str, ...]](tuple[str, ...]), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("operation", Text, nullable=False),
    Column("ready", Boolean, nullable=False),
    Column("offboarding", Boolean, nullable=False, server_default=false()),
)

ENDPOINTS = Table(
    "endpoints",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("tenant", Text, ForeignKey("tenants.name"), nullable=False),
    Column("request", Document[EndpointRequest](EndpointRequest), nullable=False),
    Column("plan", Document[EndpointPlan](EndpointPlan), nullable=False),
    Column("phase", Word(Phase), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("operation", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("observed_generation", Integer, nullable=False),
    Column("stages", Document[tuple[Stage, ...]](tuple[Stage, ...]), nullable=False),
    Column("reason", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("change", Document[Change](Change)),
    Column("version", BigInteger, nullable=False, server_default="0"),
    UniqueConstraint("tenant", "name"),
)

OPERATIONS = Table(
    "operations",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("verb", Word(Verb), nullable=False),
    Column("tenant", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("request", Document[Json](Json), nullable=False),
    Column("idempotency_key", Text, nullable=False),
    Column("request_digest", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("state", Word(OperationState), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("next_attempt_at", Moment, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("lease_holder", Text),
    Column("lease_fence", BigInteger),
    Column("lease_renewed_at", Moment),
    Column("reason", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("hint", Text),
    UniqueConstraint("tenant", "idempotency_key"),
    Index("ix_operations_open", "tenant", "subject", unique=True, postgresql_where=IS_OPEN, sqlite_where=IS_OPEN),
    Index("ix_operations_due", "next_attempt_at", postgresql_where=IS_OPEN, sqlite_where=IS_OPEN),
    Index("ix_operations_newest", "created_at", "id"),
)

STEPS = Table(
    "steps",
    METADATA,
    Column("operation", Text, ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("started_at", Moment),
    Column("finished_at", Moment),
    Column("result", Document[Json](Json)),
    Column("reason", Text, nullable=False),
    Column("message", Text, nullable=False),
)

API_KEYS = Table(
    "api_keys",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    Column("prefix", Text, nullable=False),
    Column("tenant", Text, ForeignKey("tenants.name")),
    Column("created_at", Moment, nullable=False),
    Column("team", Text),
    Column("endpoints", Document[tuple[str, ...]](tuple[str, ...])),
    Column("expires_at", Moment),
    Column("revoked_at", Moment),
    Column("role", Word(AccessRole), nullable=False, server_default=AccessRole.CUSTOMER.value),
    Column("scopes", Document[tuple[Scope, ...]](tuple[Scope, ...])),
    Column("last_used_at", Moment),
    Column("created_by", Text, nullable=False, server_default=""),
    Column("allowance", Document[Allowance](Allowance)),
)

SNAPSHOTS = Table(
    "snapshots",
    METADATA,
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("body", Document[Snapshot](Snapshot), nullable=False),
)

CHANGES = Table(
    "changes",
    METADATA,
    Column("subject", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)
"""One row per table whose changes are counted."""

CHANGED_ENDPOINTS = Table(
    "changed_endpoints",
    METADATA,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("endpoint", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("removed", Boolean, nullable=False),
    Column("at", Moment, nullable=False),
)
"""Which endpoint changed with which version: what a watch goes on from. The oldest rows are dropped after a while."""

AUDIT_EVENTS = Table(
    "audit_events",
    METADATA,
    Column("id", GrowingInteger, Identity(), primary_key=True),
    Column("at", Moment, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("operation", Text, nullable=False),
    Column("before_digest", Text, nullable=False, server_default=""),
    Column("after_digest", Text, nullable=False, server_default=""),
    Index("ix_audit_events_at", "at"),
)

MUTATIONS = Table(
    "mutations",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("idempotency_key", Text, primary_key=True),
    Column("request_digest", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("at", Moment, nullable=False),
    Index("ix_mutations_at", "at"),
)
"""Changes made at once, without an operation, by their idempotency keys; `tenant` is empty for the provider's own. The
oldest rows are dropped after a while."""

TEAMS = Table(
    "teams",
    METADATA,
    Column("tenant", Text, ForeignKey("tenants.name"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("display_name", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)

USAGE_HOURS = Table(
    "usage_hours",
    METADATA,
    Column("hour", Moment, primary_key=True),
    Column("endpoint", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("endpoint_name", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("team", Text),
    Column("requests", BigInteger, nullable=False),
    Column("failures", BigInteger, nullable=False),
    Column("unmeasured", BigInteger, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("duration_ms", Float, nullable=False),
    Index("ix_usage_hours_tenant", "tenant", "hour"),
)

USAGE_BATCHES = Table(
    "usage_batches",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("at", Moment, nullable=False),
)
"""Batches of gateways that were counted already: a batch that is sent twice counts once."""

MODEL_VERSIONS = Table(
    "model_versions",
    METADATA,
    Column("model", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("origin", Word(VersionOrigin), nullable=False),
    Column("digest", Text, nullable=False),
    Column("body", Document[Json](Json), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("archived_at", Moment),
)
"""Every version of every model's master and card: imported from a file (`file`) or made over the API (`api`)."""

ORPHANS = Table(
    "orphans",
    METADATA,
    Column("place", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("since", Moment),
)
"""What stands outside for endpoints that nobody has any more, as the last survey found it."""

FENCES = Table(
    "fences",
    METADATA,
    Column("fence", GrowingInteger, Identity(), primary_key=True),
    sqlite_autoincrement=True,
)
"""The growing sequence of fences: a claim inserts a row to get the next number and removes it again. Neither dialect
gives a number out twice, and no claim waits for another."""

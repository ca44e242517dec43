"""What the rest of the product needs of audit events, and of records kept for a time; `interface` tells the rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from provisioner.domain.audit import AuditEvent, AuditFilter


class Records(StrEnum):
    """Records that are kept for a time only, by table."""

    AUDIT_EVENTS = "audit_events"
    CHANGED_ENDPOINTS = "changed_endpoints"
    MUTATIONS = "mutations"
    USAGE_BATCHES = "usage_batches"
    FALLBACK_EVIDENCE = "fallback_evidence"
    BUDGETS = "budgets"
    RESERVATIONS = "reservations"
    GATEWAYS = "gateways"


class AuditStore(Protocol):
    """Audit events. They are written by the stores of what they tell of, and never changed."""

    async def tell(self, event: AuditEvent) -> None:
        """Add the event of something that changes no row: a secret was shown."""
        ...

    async def newest(self, wanted: AuditFilter, *, before: int | None = None, limit: int = 100) -> Sequence[AuditEvent]:
        """The newest that are wanted, newest first; with `before` those with a lower id."""
        ...

    async def oldest(self, wanted: AuditFilter, *, after: int = 0, limit: int = 1000) -> Sequence[AuditEvent]:
        """The oldest that are wanted and have a higher id than `after`, oldest first."""
        ...


class RecordStore(Protocol):
    """Records that are kept for a time only."""

    async def trim(self, records: Records, before: datetime, *, limit: int) -> int:
        """Drop at most `limit` records that are older than `before`, and say how many."""
        ...

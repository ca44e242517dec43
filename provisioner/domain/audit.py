"""Audit events: one for every mutation and one for how an operation ended. Append only. Type only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """What was done by whom. `id` grows with time; the digests are SHA-256 of what the target was before and after, in
    canonical JSON without secrets; empty where there was nothing. `operation` is empty for changes made at once."""

    at: datetime
    actor: str
    action: str
    tenant: str
    subject: str
    outcome: str
    request_id: str
    operation: str = ""
    before_digest: str = ""
    after_digest: str = ""
    id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which events are wanted: at `since` or later, before `until`, and equal in whatever else is given."""

    since: datetime | None = None
    until: datetime | None = None
    tenant: str | None = None
    actor: str | None = None
    action: str | None = None
    subject: str | None = None

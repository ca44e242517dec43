"""Audit events on the wire."""

from __future__ import annotations

from datetime import datetime

from provisioner.wire.message import Message


class AuditEventView(Message):
    """What was done by whom. `tenant` is empty for what belongs to the provider, `operation` for changes made at once;
    the digests are SHA-256 of what the target was before and after, empty where there was nothing."""

    id: int
    at: datetime
    actor: str
    action: str
    tenant: str
    subject: str
    outcome: str
    request_id: str
    operation: str
    before_digest: str
    after_digest: str

"""External fallback on the wire."""

from __future__ import annotations

from datetime import datetime

from provisioner.wire.message import Message


class FallbackView(Message):
    """The policy that an endpoint's requests go outside under while it has no healthy replica. Nothing is sent unless
    it is `enabled` and somebody has acknowledged that prompts leave the installation."""

    endpoint: str
    tenant: str
    policy: str
    enabled: bool
    changed_at: datetime
    acknowledged_by: str
    acknowledged_at: datetime | None


class FallbackRequestView(Message):
    """A request that went outside (`target` is the policy), or why it did not (`denial`)."""

    id: int
    at: datetime
    tenant: str
    endpoint: str
    key: str
    request_id: str
    target: str
    denial: str
    status: int
    outcome: str

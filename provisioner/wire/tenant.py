"""Tenants on the wire."""

from __future__ import annotations

from datetime import datetime

from provisioner.wire.message import Message


class TenantView(Message):
    """One customer of the provider. `ready` is true once every Project exists."""

    name: str
    display_name: str
    tiers: tuple[str, ...]
    ready: bool
    created_at: datetime
    operation: str


class PriorityKeyView(Message):
    """The key with which programs of a tenant sign claims of priority."""

    tenant: str
    key: str

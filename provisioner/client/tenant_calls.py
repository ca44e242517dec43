"""Requests about tenants. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from provisioner.client.call import Call, Flow, change, every
from provisioner.wire.operation import OperationView
from provisioner.wire.tenant import TenantView


def create_tenant(name: str, *, display_name: str, tiers: Sequence[str], idempotency_key: str) -> Call[OperationView]:
    """Make a tenant that may use `tiers`."""
    body = {"name": name, "displayName": display_name, "tiers": list(tiers)}
    return change("POST", "/tenants", OperationView, idempotency_key=idempotency_key, body=body)


def list_tenants() -> Flow[TenantView]:
    """Every tenant, by name."""
    return every(TenantView, "/tenants")

"""Requests about tenants. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from provisioner.client.call import Call, Flow, change, every, get, path_of, present
from provisioner.wire.operation import OperationView
from provisioner.wire.tenant import PriorityKeyView, TenantView


def create_tenant(name: str, *, display_name: str, tiers: Sequence[str], idempotency_key: str) -> Call[OperationView]:
    """Make a tenant that may use `tiers`."""
    body = {"name": name, "displayName": display_name, "tiers": list(tiers)}
    return change("POST", "/tenants", OperationView, idempotency_key=idempotency_key, body=body)


def list_tenants() -> Flow[TenantView]:
    """Every tenant, by name."""
    return every(TenantView, "/tenants")


def get_tenant(name: str) -> Call[TenantView]:
    """One tenant."""
    return get(TenantView, path_of("tenants", name))


def update_tenant(
    name: str,
    *,
    display_name: str | None = None,
    tiers: Sequence[str] | None = None,
    idempotency_key: str,
    if_match: str | None = None,
) -> Call[OperationView]:
    """Give a tenant another name for people, or other tiers: all that it is to have. What is None stays."""
    path, body = path_of("tenants", name), present({"displayName": display_name, "tiers": tiers and list(tiers)})
    return change("PATCH", path, OperationView, idempotency_key=idempotency_key, body=body, if_match=if_match)


def get_priority_key(name: str) -> Call[PriorityKeyView]:
    """The key with which its programs sign claims of priority."""
    return get(PriorityKeyView, path_of("tenants", name) + "/priority-key")


def offboard_tenant(name: str, *, delete_endpoints: bool, idempotency_key: str) -> Call[OperationView]:
    """Give a tenant up: its keys, its projects, at last itself. One that has endpoints is refused, unless they are to
    be deleted first."""
    query = {"endpoints": "delete" if delete_endpoints else None}
    path = path_of("tenants", name)
    return change("DELETE", path, OperationView, idempotency_key=idempotency_key, query=query)

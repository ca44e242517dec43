"""Requests about what is left of endpoints that nobody has any more. Pure."""

from __future__ import annotations

from provisioner.client.call import Flow, every
from provisioner.wire.orphan import OrphanView


def list_orphans(tenant: str | None = None) -> Flow[OrphanView]:
    """Everything, or a tenant's, as a worker found it within the last minutes. `endpoint_calls.reclaim_endpoint` with
    the id of its endpoint removes it."""
    return every(OrphanView, "/orphans", {"tenant": tenant})

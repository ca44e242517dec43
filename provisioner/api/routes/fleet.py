"""What runs, as one document: what `tenantry preview --against` compares a change with."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.readable import readable
from provisioner.api.views import fleet_view
from provisioner.domain.access import Principal, Scope
from provisioner.domain.endpoint import Phase
from provisioner.wire.fleet import FleetView

router = APIRouter(tags=["endpoints"])


@router.get("/fleet")
async def get_fleet(
    services: ServicesDependency, caller: Annotated[Principal, require(Scope.ENDPOINTS_READ)]
) -> FleetView:
    """Every endpoint that is not being deleted, by tenant and name: request, pinned template version, replicas."""
    endpoints = readable(await services.store.endpoints.browse(tenant=caller.tenant))
    snapshot = await services.store.snapshots.current()
    return fleet_view([endpoint for endpoint in endpoints if endpoint.phase is not Phase.DELETING], snapshot)

"""How open the installation is: what there is to review, as one document that can be compared with an earlier one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.readable import readable
from provisioner.domain.access import Principal, Scope
from provisioner.domain.posture import Switches, derive_posture
from provisioner.wire.posture import FactView, PostureView

router = APIRouter(tags=["audit"])


@router.get("/posture")
async def get_posture(
    services: ServicesDependency, caller: Annotated[Principal, require(Scope.AUDIT_READ)]
) -> PostureView:
    """Settings that open or close something, every key that may be used, endpoints that need none, and fallbacks
    outside, each with what speaks against it."""
    store, now = services.store, services.clock.now()
    switches = Switches(
        customers_create=services.customers_create,
        team_scoping=services.team_scoping,
        audit_retention_days=services.audit_retention_days,
    )
    choices = [choice for choice in await store.fallbacks.list() if caller.reaches(choice.tenant)]
    endpoints = readable(await store.endpoints.browse(tenant=caller.tenant))
    facts = derive_posture(switches, await store.keys.list(tenant=caller.tenant), endpoints, choices, now)
    return PostureView(at=now, facts=tuple(map(FactView.model_validate, facts)))

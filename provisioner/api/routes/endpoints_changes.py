"""Changes of an endpoint that is there: other bounds on its replicas, another model or other parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response

from provisioner.admission.change import (
    ScaleForm,
    UpdateForm,
    admit_scale,
    admit_traffic,
    admit_update,
    is_about_traffic,
)
from provisioner.api.body import read_json
from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.find import find_endpoint
from provisioner.api.preconditions import IfMatch, require_match
from provisioner.api.routes.schemas import body_of
from provisioner.api.routes.submit import IdempotencyKey, find_going_on, origin_of, point_to
from provisioner.api.services import Services
from provisioner.api.unknown import check_team
from provisioner.api.views import operation_view
from provisioner.domain.access import Principal, Scope
from provisioner.domain.endpoint import Change, Endpoint
from provisioner.domain.errors import RejectedError
from provisioner.domain.operation import Operation, Verb
from provisioner.endpoints.submit import new_change
from provisioner.wire.operation import OperationView

router = APIRouter(tags=["endpoints"])

Changer = Annotated[Principal, require(Scope.ENDPOINTS_WRITE)]


@router.post("/endpoints/{reference:path}:update", status_code=202, openapi_extra=body_of(UpdateForm))
async def update_endpoint(
    reference: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Changer,
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> OperationView:
    """Change what an endpoint runs: what the body leaves out stays, and an empty one brings the endpoint up to date
    with the catalog. One that changes nothing is an operation that succeeds at once. Asked for again
    while it goes on, the same operation is answered. `traffic` alone holds at once: no pod has to come before it."""
    raw, endpoint = await read_json(request), await find_endpoint(reference, services.store, caller)
    origin = origin_of(request, idempotency_key, raw)
    if repeated := await services.store.operations.find_repeated(endpoint.tenant, origin):
        return _answer(repeated, endpoint, response, services)
    require_match(endpoint, if_match)
    change = await _admitted_update(endpoint, raw, services)
    operation, changed = new_change(
        Verb.ENDPOINT_UPDATE, endpoint, change, origin=origin, clock=services.clock, ids=services.ids
    )
    if is_about_traffic(raw):
        changed = replace(changed, request=change.request, plan=change.plan)
    return await _submitted((operation, changed), endpoint, response, services)


@router.post("/endpoints/{reference:path}:scale", status_code=202, openapi_extra=body_of(ScaleForm))
async def scale_endpoint(
    reference: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Changer,
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> OperationView:
    """Change the bounds on an endpoint's replicas; a bound that is left out stays, and no pod is made anew. Asked
    for again while it goes on, the same operation is answered."""
    raw, endpoint = await read_json(request), await find_endpoint(reference, services.store, caller)
    origin = origin_of(request, idempotency_key, raw)
    if repeated := await services.store.operations.find_repeated(endpoint.tenant, origin):
        return _answer(repeated, endpoint, response, services)
    require_match(endpoint, if_match)
    tiers = await _tiers_of(endpoint.tenant, services)
    change = admit_scale(endpoint, raw, catalog=services.catalog, site=services.site, tenant_tiers=tiers)
    made = new_change(Verb.ENDPOINT_SCALE, endpoint, change, origin=origin, clock=services.clock, ids=services.ids)
    return await _submitted(made, endpoint, response, services)


async def _admitted_update(endpoint: Endpoint, raw: Any, services: Services) -> Change:
    """What the endpoint is to become, with the revision of its pods as they are rendered here."""
    if is_about_traffic(raw):
        return admit_traffic(endpoint, raw)
    tiers = await _tiers_of(endpoint.tenant, services)
    change = admit_update(endpoint, raw, catalog=services.catalog, site=services.site, tenant_tiers=tiers)
    plan = services.revised(change.plan)
    team = change.request.team
    unknown = () if team == endpoint.request.team else await check_team(endpoint.tenant, team, services)
    if findings := (*unknown, *services.refusals(plan)):
        raise RejectedError(
            f"admitting change: {len(findings)} finding(s)", reason="InvalidRequest", findings=tuple(findings)
        )
    return Change(request=change.request, plan=plan)


async def _tiers_of(tenant: str, services: Services) -> tuple[str, ...] | None:
    found = await services.store.tenants.find(tenant)
    return found.tiers if found else None


async def _submitted(
    made: tuple[Operation, Endpoint], endpoint: Endpoint, response: Response, services: Services
) -> OperationView:
    """The operation: one that does the same and goes on, or the new one."""
    operation, changed = made
    operations = services.store.operations
    if known := await find_going_on(operation, endpoint, operations):
        return _answer(known, endpoint, response, services)
    submitted = await operations.submit(operation, endpoint=changed)
    services.wake_worker()
    services.wake_reconciler()
    return _answer(submitted.operation, changed, response, services)


def _answer(operation: Operation, endpoint: Endpoint, response: Response, services: Services) -> OperationView:
    point_to(response, operation.id)
    return operation_view(operation, endpoint, services.clock.now())

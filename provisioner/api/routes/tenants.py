"""Customers of the provider: made, listed, changed, off-boarded."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from provisioner.admission.tenant import (
    TenantChangeForm,
    TenantForm,
    TenantRequest,
    admit_tenant,
    admit_tenant_change,
)
from provisioner.api.admit import require_ready
from provisioner.api.body import read_json
from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.find import find_tenant, require_tenant
from provisioner.api.preconditions import IfMatch, require_state
from provisioner.api.readable import readable
from provisioner.api.routes.parameters import PagingQuery, cursor_of
from provisioner.api.routes.schemas import UNCHANGED, body_of
from provisioner.api.routes.submit import IdempotencyKey, find_going_on, origin_of, point_to
from provisioner.api.services import Services
from provisioner.api.views import operation_view
from provisioner.domain.access import Principal, Scope
from provisioner.domain.audit import AuditEvent
from provisioner.domain.enumeration import first_few
from provisioner.domain.errors import ConflictError
from provisioner.domain.operation import Operation, Verb
from provisioner.domain.origin import Origin
from provisioner.domain.tenant import Tenant
from provisioner.tenants.submit import new_create, new_offboard, new_update
from provisioner.wire.operation import OperationView
from provisioner.wire.page import Page
from provisioner.wire.tenant import PriorityKeyView, TenantView

router = APIRouter(tags=["tenants"])

_SHOWN = 20
"""How many endpoints a refusal names."""


@router.get("/tenants")
async def list_tenants(
    services: ServicesDependency, caller: Annotated[Principal, require(Scope.TENANTS_READ)], paging: PagingQuery
) -> Page[TenantView]:
    """Every tenant that the key reaches, by name."""
    found = await services.store.tenants.page(name=caller.tenant, after=paging.after, limit=paging.limit)
    items = tuple(TenantView.model_validate(tenant) for tenant in readable(found.rows))
    return Page(items=items, next_cursor=cursor_of(found.next))


@router.post("/tenants", status_code=202, openapi_extra=body_of(TenantForm))
async def create_tenant(
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Annotated[Principal, require(Scope.TENANTS_WRITE)],
    idempotency_key: IdempotencyKey,
) -> OperationView:
    """Make a tenant: a Project with quotas and allowed node types for each of its tiers."""
    raw = await read_json(request)
    wanted = admit_tenant(raw, catalog=services.catalog, site=services.site)
    require_tenant(wanted.name, caller)
    operation, tenant = new_create(
        wanted.name,
        wanted.display_name,
        wanted.tiers,
        origin=origin_of(request, idempotency_key, raw),
        clock=services.clock,
        ids=services.ids,
    )
    submitted = await services.store.operations.submit(operation, tenant=tenant)
    services.wake_worker()
    point_to(response, submitted.operation.id)
    return operation_view(submitted.operation, None, services.clock.now())


@router.get("/tenants/{tenant}", responses=UNCHANGED)
async def get_tenant(
    tenant: str,
    response: Response,
    services: ServicesDependency,
    caller: Annotated[Principal, require(Scope.TENANTS_READ)],
) -> TenantView:
    """One tenant, with an `ETag` for changes on condition."""
    found = await find_tenant(tenant, services.store, caller)
    response.headers["ETag"] = f'"{found.state}"'
    return TenantView.model_validate(found)


@router.patch("/tenants/{tenant}", status_code=202, openapi_extra=body_of(TenantChangeForm))
async def update_tenant(
    tenant: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Annotated[Principal, require(Scope.TENANTS_WRITE)],
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> OperationView:
    """Give a tenant other tiers, or another name for people; what the body leaves out stays, and its projects are
    brought up to date with their tiers. 409 `TierInUse` while endpoints are on a tier that it would lose. Asked for
    again while it goes on, the same operation is answered."""
    raw, found = await read_json(request), await find_tenant(tenant, services.store, caller)
    origin = origin_of(request, idempotency_key, raw)
    current = await services.store.operations.find_repeated(tenant, origin)
    if current is None:
        require_state(tenant, found.state, if_match)
        wanted = admit_tenant_change(raw, found, catalog=services.catalog, site=services.site)
        current = await _submitted_update(found, wanted, origin, services)
    point_to(response, current.id)
    return operation_view(current, None, services.clock.now())


@router.get("/tenants/{tenant}/priority-key")
async def get_priority_key(
    tenant: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Annotated[Principal, require(Scope.KEYS_WRITE)],
) -> PriorityKeyView:
    """The key with which the tenant's programs sign claims of priority: the same each time, until the gateways' own key
    is another one. Whoever holds it can say who asks, so the audit log tells who was shown it."""
    await find_tenant(tenant, services.store, caller)
    key = services.priority_key(tenant)
    event = AuditEvent(
        at=services.clock.now(),
        actor=caller.actor,
        action="tenant.priority-key",
        tenant=tenant,
        subject=tenant,
        outcome="succeeded",
        request_id=request.state.request_id,
    )
    await services.store.audit.tell(event)
    response.headers["Cache-Control"] = "no-store"
    return PriorityKeyView(tenant=tenant, key=key)


@router.delete("/tenants/{tenant}", status_code=202)
async def offboard_tenant(
    tenant: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Annotated[Principal, require(Scope.TENANTS_WRITE)],
    idempotency_key: IdempotencyKey,
    endpoints: Annotated[Literal["delete"] | None, Query(description="what becomes of endpoints it still has")] = None,
) -> OperationView:
    """Give a tenant up: its endpoints (with `endpoints=delete`; without, one that has any is refused with their names),
    its keys, its projects, at last itself. One that is leaving, or left, answers that operation."""
    require_tenant(tenant, caller)
    found = await services.store.tenants.find(tenant)
    current = await _offboarding(tenant, found, services)
    if current is None:
        found = found or await find_tenant(tenant, services.store, caller)
        if endpoints is None:
            await _require_empty(tenant, services)
        origin = origin_of(request, idempotency_key, endpoints)
        operation, marked = new_offboard(found, origin=origin, clock=services.clock, ids=services.ids)
        current = (await services.store.operations.submit(operation, tenant=marked)).operation
        services.wake_worker()
    point_to(response, current.id)
    return operation_view(current, None, services.clock.now())


async def _submitted_update(tenant: Tenant, wanted: TenantRequest, origin: Origin, services: Services) -> Operation:
    """The operation: one that does the same and goes on, or the new one."""
    require_ready(tenant)
    operation, changed = new_update(
        tenant,
        display_name=wanted.display_name,
        tiers=wanted.tiers,
        origin=origin,
        clock=services.clock,
        ids=services.ids,
    )
    operations = services.store.operations
    if known := await find_going_on(operation, tenant, operations):
        return known
    submitted = await operations.submit(operation, tenant=changed)
    services.wake_worker()
    return submitted.operation


async def _offboarding(name: str, tenant: Tenant | None, services: Services) -> Operation | None:
    """The operation by which it is leaving, or by which it left if that is among its newest."""
    if tenant is not None:
        current = await services.store.operations.get(tenant.operation) if tenant.offboarding else None
        return None if current is None or current.state.is_final else current
    newest = await services.store.operations.list(tenant=name)
    return next((operation for operation in newest if operation.verb is Verb.TENANT_OFFBOARD), None)


async def _require_empty(tenant: str, services: Services) -> None:
    """ConflictError (`TenantInUse`) that names the endpoints."""
    names = [endpoint.name for endpoint in await services.store.endpoints.list(tenant=tenant)]
    if names:
        raise ConflictError(
            f"off-boarding tenant `{tenant}`: it has endpoints: {first_few(names, _SHOWN)}",
            reason="TenantInUse",
            hint="delete them first, or say that they go too: `--delete-endpoints`, in REST `?endpoints=delete`",
        )

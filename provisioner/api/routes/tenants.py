"""Customers of the provider."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response

from provisioner.admission.tenant import TenantForm, admit_tenant
from provisioner.api.body import read_json
from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.find import require_tenant
from provisioner.api.readable import readable
from provisioner.api.routes.parameters import PagingQuery, cursor_of
from provisioner.api.routes.schemas import body_of
from provisioner.api.routes.submit import IdempotencyKey, origin_of, point_to
from provisioner.api.views import operation_view
from provisioner.domain.access import Principal, Scope
from provisioner.tenants.submit import new_create
from provisioner.wire.operation import OperationView
from provisioner.wire.page import Page
from provisioner.wire.tenant import TenantView

router = APIRouter(tags=["tenants"])


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

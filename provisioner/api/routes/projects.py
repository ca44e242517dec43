"""Projects: what each tenant may use of each of its tiers. Made with the tenant, looked at here."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.find import listed_tenant
from provisioner.api.projects import owners_of, projects_of
from provisioner.api.readable import readable
from provisioner.api.routes.parameters import PagingQuery, TenantQuery, cursor_of
from provisioner.domain.access import Principal, Scope
from provisioner.domain.errors import NotFoundError
from provisioner.domain.page import invalid_cursor
from provisioner.wire.page import Page
from provisioner.wire.project import ProjectView

router = APIRouter(tags=["projects"])

Reader = Annotated[Principal, require(Scope.TENANTS_READ)]


@router.get("/projects")
async def list_projects(
    services: ServicesDependency, caller: Reader, paging: PagingQuery, tenant: TenantQuery = None
) -> Page[ProjectView]:
    """Every project that the key reaches, by tenant and tier."""
    reached, found = await listed_tenant(tenant, services.store, caller), list[ProjectView]()
    after = paging.after
    if after is not None:
        if len(after) != 2:
            raise invalid_cursor()
        begun = await services.store.tenants.find(after[0])
        if begun is not None and reached in (None, begun.name):
            found += projects_of(begun, services, after=after[1])
    if len(found) <= paging.limit:
        position = after[:1] if after else None
        others = await services.store.tenants.page(name=reached, after=position, limit=paging.limit + 1)
        for one in readable(others.rows):
            found += projects_of(one, services)
    shown = found[: paging.limit]
    following = (shown[-1].tenant, shown[-1].tier) if len(found) > paging.limit else None
    return Page(items=tuple(shown), next_cursor=cursor_of(following))


@router.get("/projects/{name}")
async def get_project(name: str, services: ServicesDependency, caller: Reader) -> ProjectView:
    """One project."""
    for tenant_name, tier in owners_of(name[:127]):
        tenant = await services.store.tenants.find(tenant_name) if caller.reaches(tenant_name) else None
        for project in projects_of(tenant, services) if tenant and tier in tenant.tiers else ():
            if project.tier == tier:
                return project
    raise NotFoundError(
        f"finding the project: there is none named: {name[:127]}",
        hint="`tenantry project list` shows those that the key reaches",
    )

"""Admission with what only the server knows: whether the tenant exists, its tiers, whether the name is taken, and what
the manifests would be refused for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.admission import admit_endpoint
from provisioner.api.customer import customer_refusal
from provisioner.api.find import require_tenant
from provisioner.api.services import Services
from provisioner.api.unknown import check_team, unknown_tenant
from provisioner.catalog.fields import shown
from provisioner.domain.access import Principal
from provisioner.domain.endpoint import EndpointRequest
from provisioner.domain.errors import NotFoundError, RejectedError, RetryableError
from provisioner.domain.finding import Finding
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.domain.tenant import Tenant
from provisioner.endpoints.pool import check_pool


async def admit_request(
    raw: Any, services: Services, caller: Principal, *, endpoint_id: EndpointId
) -> tuple[EndpointRequest, EndpointPlan]:
    """Request and plan of a JSON value. Raises RejectedError with every finding, those of the policies that the tenant
    cluster would ask among them; a customer is told no more of them than a customer may know. NotFoundError
    (`TenantUnknown`) for a tenant that the caller does not reach."""
    if tenant := text_of(raw, "tenant"):
        require_tenant(tenant, caller)
    try:
        return await _admit(raw, services, endpoint_id)
    except RejectedError as error:
        if caller.is_customer:
            raise customer_refusal(error) from error
        raise


async def _admit(raw: Any, services: Services, endpoint_id: EndpointId) -> tuple[EndpointRequest, EndpointPlan]:
    tenant_name = text_of(raw, "tenant")
    tenant = await services.store.tenants.find(tenant_name) if tenant_name else None
    unknown: tuple[Finding, ...] = ()
    if tenant is not None:
        unknown = await check_team(tenant.name, text_of(raw, "team"), services)
    elif tenant_name:
        unknown = (await unknown_tenant(tenant_name, services),)
    try:
        request, admitted = admit_endpoint(
            raw,
            catalog=services.catalog,
            site=services.site,
            endpoint_id=endpoint_id,
            tenant_tiers=tenant.tiers if tenant else None,
        )
    except RejectedError as error:
        findings = (*error.findings, *unknown, *await _taken_name(raw, services))
        raise _rejected(findings) from error
    plan = services.revised(admitted)
    pool = await check_alias(plan, services)
    if findings := (*unknown, *pool, *services.refusals(plan)):
        raise _rejected(findings)
    return request, plan


async def check_alias(plan: EndpointPlan, services: Services) -> tuple[Finding, ...]:
    """What is wrong with the pool of an endpoint that one is to serve."""
    if not plan.is_alias or plan.pool is None:
        return ()
    try:
        return check_pool(await services.store.endpoints.get(EndpointId(plan.pool)), plan)
    except NotFoundError:
        return check_pool(None, plan)


async def require_ready_tenant(name: str, services: Services) -> None:
    """Let a tenant pass whose projects exist. Raises RetryableError (`TenantNotReady`) while they are being made."""
    tenant = await services.store.tenants.find(name)
    if tenant is not None:
        require_ready(tenant)


def require_ready(tenant: Tenant) -> None:
    """The same of a tenant that was read."""
    if not tenant.ready:
        raise RetryableError(
            f"working for the tenant: it is not ready yet: {tenant.name}",
            reason="TenantNotReady",
            hint=f"wait for it with `tenantry operation wait {tenant.operation}`",
        )


async def _taken_name(raw: Any, services: Services) -> tuple[Finding, ...]:
    """The finding that the store would make too late to be told with the others."""
    tenant, name = text_of(raw, "tenant"), text_of(raw, "name")
    if not tenant or not name or await services.store.endpoints.find(tenant, name) is None:
        return ()
    message = f"reading name: the tenant has an endpoint with this name: {shown(name)}"
    return (Finding(reason="NameTaken", message=message, field="name", hint="choose another name"),)


def text_of(raw: Any, field: str) -> str | None:
    """The text of a field, if it may be a name at all."""
    value = raw.get(field) if isinstance(raw, Mapping) else None
    is_name = isinstance(value, str) and len(value) <= 63 and value.isascii() and value.isprintable()
    return value if is_name else None  # PostgreSQL does not take every text even to look for it


def _rejected(findings: tuple[Finding, ...]) -> RejectedError:
    return RejectedError(f"admitting endpoint: {len(findings)} finding(s)", reason="InvalidRequest", findings=findings)

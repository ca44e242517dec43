"""Rows of a tenant that is given other tiers: while that goes on it has the tiers of before and those to come, since
there may be Projects of all of them, and makes endpoints on those alone that it has before and after.

`submit` begins an update with its operation and refuses endpoints meanwhile; the worker says in the end which tiers are
left.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.enumeration import first_few
from provisioner.domain.errors import ConflictError, NotFoundError
from provisioner.domain.operation import Operation, Verb
from provisioner.domain.plan import EndpointPlan
from provisioner.domain.tenant import Tenant
from provisioner.store.audit import digest_of_row
from provisioner.store.offboarding import require_staying
from provisioner.store.rows import tenant_from
from provisioner.store.schema import ENDPOINTS, IS_OPEN, OPERATIONS, TENANTS

_MOST_TOLD = 20


async def begin_update(
    connection: AsyncConnection, operation: Operation, tenant: Tenant
) -> tuple[dict[str, Any], tuple[str, str]]:
    """Write the tenant as it is wanted, with the tiers that it loses beside. What the operation's row says besides, the
    tiers that it `kept`; and the digests before and after. ConflictError (`TierInUse`) while endpoints are on tiers
    that it loses, NotFoundError."""
    this = TENANTS.c.name == tenant.name
    row = (await connection.execute(select(TENANTS).where(this).with_for_update())).one_or_none()
    if row is None:
        raise NotFoundError(f"changing the tenant: there is none named: {tenant.name}", reason="TenantUnknown")
    await require_staying(connection, tenant.name)
    before = tenant_from(row)
    await _require_unused(connection, tenant.name, {*before.tiers} - {*tenant.tiers})
    after = replace(
        before,
        display_name=tenant.display_name,
        tiers=tuple(sorted({*before.tiers, *tenant.tiers})),
        operation=operation.id,
    )
    changed = {"display_name": after.display_name, "tiers": after.tiers, "operation": after.operation}
    await connection.execute(update(TENANTS).where(this).values(changed))
    kept = [tier for tier in tenant.tiers if tier in before.tiers]
    return {"request": {**operation.request, "kept": kept}}, (digest_of_row(before), digest_of_row(after))


async def require_tier(connection: AsyncConnection, tenant: str, tier: str) -> None:
    """Let an endpoint be made on a tier that no update of its tenant brings or takes. ConflictError
    (`TenantChanging`). The tenant's row is held, as `require_staying` does."""
    here = (
        (OPERATIONS.c.tenant == tenant) & (OPERATIONS.c.subject == tenant) & (OPERATIONS.c.verb == Verb.TENANT_UPDATE)
    )
    row = (await connection.execute(select(OPERATIONS.c.id, OPERATIONS.c.request).where(here, IS_OPEN))).one_or_none()
    if row is not None and tier not in row.request["kept"]:
        raise ConflictError(
            f"making an endpoint of tenant `{tenant}`: its tier `{tier}` is being changed by operation: {row.id}",
            reason="TenantChanging",
            hint=f"wait for it with `tenantry operation wait {row.id}`",
        )


async def _require_unused(connection: AsyncConnection, tenant: str, tiers: Collection[str]) -> None:
    if not tiers:
        return
    listed = await connection.execute(
        select(ENDPOINTS.c.name, ENDPOINTS.c.plan).where(ENDPOINTS.c.tenant == tenant).order_by(ENDPOINTS.c.name)
    )
    names = [row.name for row in listed if isinstance(row.plan, EndpointPlan) and row.plan.tier in tiers]
    if names:
        shown = first_few(names, _MOST_TOLD)
        raise ConflictError(
            f"changing tenant `{tenant}`: it has endpoints on a tier that it would lose: {shown}",
            reason="TierInUse",
            hint="delete them first, or leave it the tier",
        )

"""Rows of a tenant that leaves: it is marked first, so that nothing new comes, and all that belongs to it goes with it.

`submit` marks it with the operation, and refuses endpoints of one that is marked; `keys` refuses keys.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.errors import ConflictError, InvariantError, NotFoundError
from provisioner.domain.tenant import Tenant
from provisioner.store.audit import digest_of_row
from provisioner.store.changes import count_change
from provisioner.store.rows import tenant_from, value_or_error
from provisioner.store.schema import API_KEYS, TEAMS, TENANTS


async def mark_offboarding(connection: AsyncConnection, tenant: Tenant) -> tuple[str, str]:
    """Say that it leaves, by which operation. The digests before and after. NotFoundError."""
    this = TENANTS.c.name == tenant.name
    row = (await connection.execute(select(TENANTS).where(this).with_for_update())).one_or_none()
    if row is None:
        raise NotFoundError(f"off-boarding the tenant: there is none named: {tenant.name}", reason="TenantUnknown")
    marked = {"offboarding": True, "operation": tenant.operation}
    await connection.execute(update(TENANTS).where(this).values(marked))
    before = value_or_error(tenant_from, row)
    if isinstance(before, InvariantError):
        return "", digest_of_row(tenant)
    return digest_of_row(before), digest_of_row(replace(before, offboarding=True, operation=tenant.operation))


async def require_staying(connection: AsyncConnection, tenant: str | None) -> None:
    """ConflictError (`TenantOffboarding`) for a tenant that is marked."""
    # Held until the end: who off-boards the tenant has said so already, or waits for this and then sees it.
    here = select(TENANTS.c.offboarding, TENANTS.c.operation).where(TENANTS.c.name == tenant)
    row = (await connection.execute(here.with_for_update(read=True))).one_or_none()
    if row is not None and row.offboarding:
        raise ConflictError(
            f"making something for tenant `{tenant}`: it is being off-boarded by operation: {row.operation}",
            reason="TenantOffboarding",
            hint="a tenant that is gone can be created again; wait for the operation",
        )


async def erase(connection: AsyncConnection, tenant: str) -> None:
    """Remove the tenant with its keys and teams. IntegrityError while endpoints belong to it."""
    for table in (API_KEYS, TEAMS):
        await connection.execute(delete(table).where(table.c.tenant == tenant))
    await connection.execute(delete(TENANTS).where(TENANTS.c.name == tenant))
    await count_change(connection, API_KEYS)

"""Rows of tenants. New ones come with `submit`; a worker says when every Project of one exists or is gone."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError

from provisioner.domain.clock import Clock
from provisioner.domain.errors import ConflictError, InvariantError, RejectedError
from provisioner.domain.ids import OperationId
from provisioner.domain.lease import Fence
from provisioner.domain.page import Page, Position
from provisioner.domain.tenant import Tenant
from provisioner.store.database import Database
from provisioner.store.hold import hold
from provisioner.store.offboarding import erase
from provisioner.store.paging import Order
from provisioner.store.rows import tenant_from, value_or_error, values_only
from provisioner.store.schema import TENANTS
from provisioner.store.submit import unknown_tenant

_ORDER = Order((TENANTS.c.name,))


class SqlTenants:
    """The TenantStore on a database."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def find(self, name: str) -> Tenant | None:
        """See TenantStore."""
        async with self._database.read() as connection:
            row = (await connection.execute(select(TENANTS).where(TENANTS.c.name == name))).one_or_none()
        return None if row is None else tenant_from(row)

    async def list(self) -> Sequence[Tenant]:
        """See TenantStore."""
        return values_only(await self.browse())

    async def browse(self) -> Sequence[Tenant | InvariantError]:
        """See TenantStore."""
        async with self._database.read() as connection:
            rows = (await connection.execute(select(TENANTS).order_by(TENANTS.c.name))).all()
        return [value_or_error(tenant_from, row) for row in rows]

    async def page(self, *, name: str | None = None, after: Position | None = None, limit: int = 100) -> Page[Tenant]:
        """See TenantStore."""
        listed = select(TENANTS) if name is None else select(TENANTS).where(TENANTS.c.name == name)
        async with self._database.read() as connection:
            found = (await connection.execute(_ORDER.rows_after(listed, after, limit=limit))).all()
        rows, following = _ORDER.cut(found, limit=limit)
        return Page([value_or_error(tenant_from, row) for row in rows], following)

    async def save(self, tenant: Tenant, *, operation: OperationId, fence: Fence) -> None:
        """See TenantStore."""
        async with self._database.write() as connection:
            await hold(connection, operation, fence, now=self._clock.now())
            statement = (
                update(TENANTS).where(TENANTS.c.name == tenant.name).values(ready=tenant.ready, tiers=tenant.tiers)
            )
            if (await connection.execute(statement)).rowcount == 0:
                raise unknown_tenant(tenant.name)

    async def remove(self, name: str, *, operation: OperationId, fence: Fence) -> None:
        """See TenantStore."""
        try:
            async with self._database.write() as connection:
                await hold(connection, operation, fence, now=self._clock.now())
                await connection.execute(delete(TENANTS).where(TENANTS.c.name == name))
        except IntegrityError:
            raise RejectedError(
                f"removing tenant `{name}`: endpoints, keys or teams belong to it",
                reason="TenantInUse",
                hint=f"off-board it: `tenantry tenant offboard {name}`",
            ) from None

    async def erase(self, name: str, *, operation: OperationId, fence: Fence) -> None:
        """See TenantStore."""
        try:
            async with self._database.write() as connection:
                await hold(connection, operation, fence, now=self._clock.now())
                await erase(connection, name)
        except IntegrityError:
            raise ConflictError(f"removing tenant `{name}`: an endpoint belongs to it", reason="TenantInUse") from None

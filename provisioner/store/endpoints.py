"""Rows of endpoints. The API reads them, workers write what they observed; new and changed ones come with `submit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, bindparam, delete, func, select, update

from provisioner.domain.clock import Clock
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import InvariantError, NotFoundError
from provisioner.domain.ids import EndpointId, OperationId
from provisioner.domain.lease import Fence
from provisioner.domain.page import Page, Position
from provisioner.store.changes import count_change, read_changes, record_endpoint_change, tell_watches
from provisioner.store.database import Database
from provisioner.store.hold import hold
from provisioner.store.interface.endpoints import EndpointChange, EndpointsSince
from provisioner.store.paging import Order
from provisioner.store.rows import endpoint_from, value_or_error, values_only
from provisioner.store.schema import CHANGED_ENDPOINTS, ENDPOINTS

_MANY = 1000
"""Changes after which reading every row is as good."""
_ORDER = Order((ENDPOINTS.c.tenant, ENDPOINTS.c.name))

_GET = select(ENDPOINTS).where(ENDPOINTS.c.id == bindparam("wanted"))
_SAVED = ("phase", "stages", "reason", "message", "observed_generation", "request", "plan", "change")
_SAVE = update(ENDPOINTS).where(ENDPOINTS.c.id == bindparam("saved"))
_SAVE = _SAVE.values({name: bindparam(f"new_{name}") for name in (*_SAVED, "updated_at", "version")})


class SqlEndpoints:
    """The EndpointStore on a database."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def get(self, endpoint: EndpointId) -> Endpoint:
        """See EndpointStore."""
        async with self._database.read() as connection:
            row = (await connection.execute(_GET, {"wanted": endpoint})).one_or_none()
        if row is None:
            raise _unknown(endpoint)
        return endpoint_from(row)

    async def find(self, tenant: str, name: str) -> Endpoint | None:
        """See EndpointStore."""
        named = select(ENDPOINTS).where(ENDPOINTS.c.tenant == tenant, ENDPOINTS.c.name == name)
        async with self._database.read() as connection:
            row = (await connection.execute(named)).one_or_none()
        return None if row is None else endpoint_from(row)

    async def list(self, *, tenant: str | None = None) -> Sequence[Endpoint]:
        """See EndpointStore."""
        return values_only(await self.browse(tenant=tenant))

    async def browse(self, *, tenant: str | None = None) -> Sequence[Endpoint | InvariantError]:
        """See EndpointStore."""
        listed = _of_tenant(tenant).order_by(*_ORDER.by)
        async with self._database.read() as connection:
            rows = (await connection.execute(listed)).all()
        return [value_or_error(endpoint_from, row) for row in rows]

    async def page(
        self, *, tenant: str | None = None, after: Position | None = None, limit: int = 100
    ) -> Page[Endpoint]:
        """See EndpointStore."""
        async with self._database.read() as connection:
            found = (await connection.execute(_ORDER.rows_after(_of_tenant(tenant), after, limit=limit))).all()
        rows, following = _ORDER.cut(found, limit=limit)
        return Page([value_or_error(endpoint_from, row) for row in rows], following)

    async def changes(self) -> int:
        """See EndpointStore."""
        async with self._database.read() as connection:
            return await read_changes(connection, ENDPOINTS)

    async def changed(self, *, after: int, limit: int) -> Sequence[EndpointChange]:
        """See EndpointStore."""
        columns = CHANGED_ENDPOINTS.c
        later = select(CHANGED_ENDPOINTS).where(columns.version > after).order_by(columns.version).limit(limit)
        async with self._database.read() as connection:
            rows = (await connection.execute(later)).all()
        return [
            EndpointChange(version=row.version, endpoint=row.endpoint, tenant=row.tenant, removed=row.removed)
            for row in rows
        ]

    async def remembers(self, version: int) -> bool:
        """See EndpointStore."""
        async with self._database.read() as connection:
            newest = await read_changes(connection, ENDPOINTS)
            oldest = await connection.scalar(select(func.min(CHANGED_ENDPOINTS.c.version)))
        return version == newest or (oldest is not None and oldest - 1 <= version < newest)

    async def since(self, version: int) -> EndpointsSince | None:
        """See EndpointStore."""
        later = select(CHANGED_ENDPOINTS).where(CHANGED_ENDPOINTS.c.version > version)
        async with self._database.read() as connection:
            newest = await read_changes(connection, ENDPOINTS)
            if newest - version > _MANY:
                return None
            entries = (await connection.execute(later.order_by(CHANGED_ENDPOINTS.c.version))).all()
            if sum(1 for entry in entries if entry.version <= newest) != newest - version:
                return None
            changed = ENDPOINTS.c.id.in_({entry.endpoint for entry in entries})
            rows = (await connection.execute(select(ENDPOINTS).where(changed))).all()
        removed = [entry.endpoint for entry in entries if entry.removed]
        return EndpointsSince(rows=values_only([value_or_error(endpoint_from, row) for row in rows]), removed=removed)

    async def save(self, endpoint: Endpoint, *, operation: OperationId, fence: Fence) -> None:
        """See EndpointStore."""
        now = self._clock.now()
        observed = {f"new_{name}": getattr(endpoint, name) for name in _SAVED}
        async with self._database.write() as connection:
            await hold(connection, operation, fence, now=now)
            version = await count_change(connection, ENDPOINTS)
            values = {**observed, "saved": endpoint.id, "new_updated_at": now, "new_version": version}
            if (await connection.execute(_SAVE, values)).rowcount == 0:
                raise _unknown(endpoint.id)
            await tell_watches(connection, endpoint.id, tenant=endpoint.tenant, version=version, now=now)

    async def remove(self, endpoint: EndpointId, *, operation: OperationId, fence: Fence) -> None:
        """See EndpointStore."""
        now = self._clock.now()
        async with self._database.write() as connection:
            await hold(connection, operation, fence, now=now)
            gone = delete(ENDPOINTS).where(ENDPOINTS.c.id == endpoint).returning(ENDPOINTS.c.tenant)
            tenant = await connection.scalar(gone)
            if tenant is not None:
                await record_endpoint_change(connection, endpoint, tenant=tenant, now=now, removed=True)


def _of_tenant(tenant: str | None) -> Select[Any]:
    listed = select(ENDPOINTS)
    return listed if tenant is None else listed.where(ENDPOINTS.c.tenant == tenant)


def _unknown(endpoint: EndpointId) -> NotFoundError:
    return NotFoundError(f"finding the endpoint: there is none with the id: {endpoint}")

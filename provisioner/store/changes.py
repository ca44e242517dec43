"""How often a table changed: counted in the transaction of each change, read by whoever keeps rows in memory.

`endpoints`, `keys` and `submit` count; the reconciler asks twice a second and reads rows only when there is news. Who
sees a count sees at least the rows that it counts, since both become visible together. The count of a change of an
endpoint becomes the version of its row and of an entry that watches go on from.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Table, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.ids import EndpointId
from provisioner.store.schema import CHANGED_ENDPOINTS, CHANGES, ENDPOINTS


async def count_change(connection: AsyncConnection, table: Table) -> int:
    """Count a change of the table. Comes last in a transaction: writers of one table queue here until its end."""
    counted = update(CHANGES).where(CHANGES.c.subject == table.name).values(number=CHANGES.c.number + 1)
    return int((await connection.execute(counted.returning(CHANGES.c.number))).scalar_one())


async def record_endpoint_change(
    connection: AsyncConnection, endpoint: EndpointId, *, tenant: str, now: datetime, removed: bool = False
) -> int:
    """Count a change of an endpoint, give its row the count as version and tell watches. Comes last, as above."""
    version = await count_change(connection, ENDPOINTS)
    if not removed:
        await connection.execute(update(ENDPOINTS).where(ENDPOINTS.c.id == endpoint).values(version=version))
    await tell_watches(connection, endpoint, tenant=tenant, version=version, now=now, removed=removed)
    return version


async def tell_watches(
    connection: AsyncConnection,
    endpoint: EndpointId,
    *,
    tenant: str,
    version: int,
    now: datetime,
    removed: bool = False,
) -> None:
    """The entry of a change that was counted as `version`."""
    entry = {"version": version, "endpoint": endpoint, "tenant": tenant, "removed": removed, "at": now}
    await connection.execute(insert(CHANGED_ENDPOINTS).values(entry))


async def read_changes(connection: AsyncConnection, table: Table) -> int:
    """How often the table changed."""
    return int(await connection.scalar(select(CHANGES.c.number).where(CHANGES.c.subject == table.name)) or 0)

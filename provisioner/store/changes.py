"""How often a table changed: counted in the transaction of each change, read by whoever keeps rows in memory.

`endpoints`, `keys` and `submit` count; the reconciler asks twice a second and reads rows only when there is news. Who
sees a count sees at least the rows that it counts, since both become visible together. The count of a change of an
endpoint becomes the version of its row and of an entry that watches go on from.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Table, bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.ids import EndpointId
from provisioner.store.schema import CHANGED_ENDPOINTS, CHANGES, ENDPOINTS

_IS_SUBJECT = CHANGES.c.subject == bindparam("counted")
_COUNT = update(CHANGES).where(_IS_SUBJECT).values(number=CHANGES.c.number + 1).returning(CHANGES.c.number)
_READ = select(CHANGES.c.number).where(_IS_SUBJECT)
_TELL = insert(CHANGED_ENDPOINTS)


async def count_change(connection: AsyncConnection, table: Table) -> int:
    """Count a change of the table. Comes last in a transaction: writers of one table queue here until its end."""
    return int((await connection.execute(_COUNT, {"counted": table.name})).scalar_one())


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
    await connection.execute(_TELL, entry)


async def read_changes(connection: AsyncConnection, table: Table) -> int:
    """How often the table changed."""
    return int(await connection.scalar(_READ, {"counted": table.name}) or 0)

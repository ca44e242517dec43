"""How often a table changed: counted in the transaction of each change, read by whoever keeps rows in memory.

`endpoints`, `keys` and `submit` count; the reconciler asks twice a second and reads rows only when there is news. Who
sees a count sees at least the rows that it counts, since both become visible together.
"""

from __future__ import annotations

from sqlalchemy import Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.store.schema import CHANGES


async def count_change(connection: AsyncConnection, table: Table) -> None:
    """Count a change of the table. Comes last in a transaction: writers of one table queue here until its end."""
    counted = update(CHANGES).where(CHANGES.c.subject == table.name).values(number=CHANGES.c.number + 1)
    await connection.execute(counted)


async def read_changes(connection: AsyncConnection, table: Table) -> int:
    """How often the table changed."""
    return int(await connection.scalar(select(CHANGES.c.number).where(CHANGES.c.subject == table.name)) or 0)

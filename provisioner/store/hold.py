"""The fence of the database: a worker's write happens only while its operation's lease carries its fence.

Every write of a worker, in whichever row module, starts with `hold` in the same transaction.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, update
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.errors import ConflictError
from provisioner.domain.ids import OperationId
from provisioner.domain.lease import Fence
from provisioner.store.schema import OPERATIONS


async def hold(
    connection: AsyncConnection, operation: OperationId, fence: Fence, *, now: datetime, **values: Any
) -> Row[Any]:
    """Lock the operation's row until the transaction ends, stamp it, set `values`, and return it.

    ConflictError (`FenceStale`) when its lease carries another fence or none.
    """
    table = OPERATIONS
    mine = (table.c.id == operation) & (table.c.lease_fence == fence)
    statement = update(table).where(mine).values(updated_at=now, **values).returning(table)
    row: Row[Any] | None = (await connection.execute(statement)).one_or_none()
    if row is None:
        raise stale(operation, fence)
    return row


def stale(operation: OperationId, fence: Fence) -> ConflictError:
    """The error for a write whose operation's lease carries another fence or none."""
    return ConflictError(
        f"writing for operation `{operation}`: its lease no longer carries the fence: {fence}",
        reason="FenceStale",
        hint="another worker has taken over, or the operation was superseded; drop what was about to be written",
    )

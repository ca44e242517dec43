"""The fence of the database: a worker's write happens only while its operation's lease carries its fence.

Every write of a worker, in whichever row module, starts with `hold` in the same transaction.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, update
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.errors import ConflictError
from provisioner.domain.ids import OperationId
from provisioner.domain.lease import Fence
from provisioner.store.schema import OPERATIONS

_HOLD = (
    update(OPERATIONS)
    .where(OPERATIONS.c.id == bindparam("held"), OPERATIONS.c.lease_fence == bindparam("fence"))
    .values(updated_at=bindparam("now"))
    .returning(OPERATIONS.c.id)
)


async def hold(connection: AsyncConnection, operation: OperationId, fence: Fence, *, now: datetime) -> None:
    """Lock the operation's row until the transaction ends, and stamp it.

    ConflictError (`FenceStale`) when its lease carries another fence or none.
    """
    if not await connection.scalar(_HOLD, {"held": operation, "fence": fence, "now": now}):
        raise stale(operation, fence)


def stale(operation: OperationId, fence: Fence) -> ConflictError:
    """The error for a write whose operation's lease carries another fence or none."""
    return ConflictError(
        f"writing for operation `{operation}`: its lease no longer carries the fence: {fence}",
        reason="FenceStale",
        hint="another worker has taken over, or the operation was superseded; drop what was about to be written",
    )

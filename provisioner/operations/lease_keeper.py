"""Keeps an operation's lease while a worker has it: a heartbeat beside the steps, and the guard before outside writes.

Both are the same renewal in the database, so a worker that lost its lease, was superseded or cannot reach the database
stops before its next outside write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from provisioner.domain.clock import Clock
from provisioner.domain.errors import ConflictError, TenantryError
from provisioner.domain.ids import OperationId
from provisioner.domain.lease import HEARTBEAT_SECONDS, Fence
from provisioner.store.interface.operations import OperationStore

logger = logging.getLogger(__name__)

Pause = Callable[[float], Awaitable[None]]
"""Sleeps for some seconds; tests hand in one that they end."""


class LeaseKeeper:
    """The lease of one operation in the hands of this worker. It is the Guard of the operation's steps."""

    def __init__(
        self, store: OperationStore, operation: OperationId, fence: Fence, *, clock: Clock, pause: Pause
    ) -> None:
        self._store = store
        self._operation = operation
        self._fence = fence
        self._clock = clock
        self._pause = pause

    async def __call__(self) -> None:
        """Renew the lease. ConflictError (`LeaseLost`) when it is no longer ours."""
        await self._store.renew(self._operation, self._fence, self._clock.now())

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        """Renew the lease at every third of its duration while the body runs."""
        heart = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            heart.cancel()
            await asyncio.wait([heart])

    async def _beat(self) -> None:
        while True:
            await self._pause(HEARTBEAT_SECONDS)
            try:
                await self()
            except ConflictError as error:
                logger.warning("heartbeat ends: %s", error, extra={"action": "lease_lost"})
                return
            except TenantryError as error:
                logger.warning("heartbeat missed: %s", error, extra={"action": "heartbeat_missed"})

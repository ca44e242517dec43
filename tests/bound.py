"""Bounds of time that are what a test is about. A deadline that only ends a hang is `asyncio.timeout(60)`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_TURN_SECONDS = 0.005


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Raises TimeoutError when the body takes longer. What the event loop itself is late is not counted, so that a
    machine that stalls does not fail what is tested."""
    async with asyncio.timeout(None) as limit:

        async def count() -> None:
            for _ in range(round(seconds / _TURN_SECONDS)):
                await asyncio.sleep(_TURN_SECONDS)
            limit.reschedule(0.0)

        counting = asyncio.create_task(count())
        try:
            yield
        finally:
            counting.cancel()

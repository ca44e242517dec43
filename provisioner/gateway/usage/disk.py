"""Calls to the disk from the loop: in a thread, so that a slow disk holds up nobody, and always to their end.

A task that is cancelled meanwhile goes on when the call is over, so what was written is never in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


async def on_disk(call: Callable[..., _Result], *arguments: object) -> _Result:
    """The result of the call. Raises what it raises."""
    calling = asyncio.ensure_future(asyncio.to_thread(call, *arguments))
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait((calling,))
        raise

"""Work that is not broken off half-way: above all calls to the disk, which are made in a thread, so that a slow disk
holds up nobody. A task that is cancelled meanwhile goes on to its own end when the work is done, so what was written is
never in doubt. Used by those who keep usage, and the last snapshot, on the disk."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

_DRAFT_SECONDS = 60.0
"""Nobody works on a draft for so long before it gets its name."""

_Result = TypeVar("_Result")


async def to_the_end(work: Coroutine[Any, Any, _Result]) -> _Result:
    """The result of the work. Raises what it raises."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait((working,))
        raise


async def on_disk(call: Callable[..., _Result], *arguments: object) -> _Result:
    """The result of the call. Raises what it raises."""
    return await to_the_end(asyncio.to_thread(call, *arguments))


def remove_left(drafts: Iterable[Path]) -> None:
    """Removes drafts that processes have left which were killed: something newer has come into their folder since. The
    times are those of the file system alone, whatever clock it has."""
    for draft in drafts:
        with contextlib.suppress(OSError):  # another process is quicker, or may and we may not
            if draft.parent.stat().st_mtime > draft.stat().st_mtime + _DRAFT_SECONDS:
                draft.unlink()

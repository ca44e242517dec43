"""Transactions that come together share a commit: on SQLite each commit waits for the disk, and one of them writes at a
time.

Whoever writes first begins a transaction, everybody who waits by then writes in it too, one after the other, each below
a savepoint of its own, and nobody is told that its write is done before the commit that all of them share. `database`
writes to SQLite through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine


@dataclass(frozen=True, slots=True)
class _Group:
    """A transaction that has begun. `committed` ends with it."""

    connection: AsyncConnection
    driver: Any
    committed: asyncio.Task[None]


class GroupCommit:
    """The writes to one SQLite database from this process."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._turn = asyncio.Lock()  # first come, first served
        self._group: _Group | None = None
        self._committing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A transaction: over and on the disk when the block has ended, or taken back when that raises."""
        refused: Exception | None = None
        async with self._turn:
            group = self._group or await self._begin()
            group.driver.begin_part()
            try:
                yield group.connection
            except Exception as error:
                group.driver.take_part_back()
                refused = error
            except BaseException:
                group.driver.take_part_back()
                raise
            else:
                group.driver.end_part()
        await asyncio.shield(group.committed)  # a refusal may come of what another wrote just before: then that is read
        if refused is not None:
            raise refused

    async def close(self) -> None:
        """Wait for whoever writes now, and for the commit."""
        async with self._turn:
            pass
        if self._committing is not None:
            await asyncio.wait([self._committing])

    async def _begin(self) -> _Group:
        connection = await self._engine.connect()
        try:
            await connection.begin()
            driver = (await connection.get_raw_connection()).driver_connection
        except BaseException:
            await connection.close()
            raise
        # It waits for its turn behind all who wait now, who therefore belong to the group.
        self._committing = asyncio.create_task(self._commit(connection))
        self._group = _Group(connection, driver, self._committing)
        return self._group

    async def _commit(self, connection: AsyncConnection) -> None:
        try:
            async with self._turn:
                self._group = None
                await connection.commit()
        finally:  # its turn may never have come
            await connection.close()

"""Rows kept in memory, and read again only when the store counts another change of them.

The reconciler looks twice a second; with ten thousand keys, reading them all took most of a core. The count is asked
for before the rows are read, so that what changes in between is read again at the next look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

ValueT = TypeVar("ValueT", covariant=True)


class Table(Protocol[ValueT]):
    """Rows whose changes are counted."""

    async def changes(self) -> int:
        """A number that grows with every change of a row."""
        ...

    async def list(self) -> Sequence[ValueT]:
        """Every row."""
        ...


class Remembered(Generic[ValueT]):
    """The rows of one table: the same sequence object while nothing changed."""

    def __init__(self, table: Table[ValueT]) -> None:
        self._table = table
        self._seen: int | None = None
        self._rows: Sequence[ValueT] = ()

    async def rows(self) -> Sequence[ValueT]:
        """The present rows. Raises what the store raises; the next call asks again."""
        count = await self._table.changes()
        if count != self._seen:
            self._rows = await self._table.list()
            self._seen = count
        return self._rows

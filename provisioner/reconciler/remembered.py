"""Rows kept in memory, and read again only when the store counts another change of them.

The reconciler looks twice a second; with ten thousand keys, reading them all took most of a core. The count is asked
for before the rows are read, so that what changes in between is read again at the next look. Of endpoints, which
change all the time while many are created, only those that changed are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from provisioner.domain.endpoint import Endpoint
from provisioner.domain.ids import EndpointId
from provisioner.store.interface.endpoints import EndpointStore

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


class RememberedEndpoints:
    """The rows of all endpoints: the same sequence object while nothing changed."""

    def __init__(self, store: EndpointStore) -> None:
        self._store = store
        self._seen: int | None = None
        self._known: dict[EndpointId, Endpoint] = {}
        self._rows: Sequence[Endpoint] = ()

    async def rows(self) -> Sequence[Endpoint]:
        """The present rows, in no order. Raises what the store raises; the next call asks again."""
        count = await self._store.changes()
        if count != self._seen:
            since = None if self._seen is None else await self._store.since(self._seen)
            if since is None:
                self._known = {endpoint.id: endpoint for endpoint in await self._store.list()}
            else:
                self._known |= {endpoint.id: endpoint for endpoint in since.rows}
                for endpoint in since.removed:
                    self._known.pop(endpoint, None)
            self._rows, self._seen = tuple(self._known.values()), count
        return self._rows

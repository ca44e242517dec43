"""What the rest of the product needs of the rows of endpoints and of their changes; `interface` tells the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import InvariantError
from provisioner.domain.ids import EndpointId, OperationId
from provisioner.domain.lease import Fence
from provisioner.domain.page import Page, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointChange:
    """That an endpoint changed, or is gone, with this version."""

    version: int
    endpoint: EndpointId
    tenant: str
    removed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsSince:
    """The endpoints that changed and are there, and the ids of those that were removed."""

    rows: Sequence[Endpoint]
    removed: Sequence[EndpointId]


class EndpointStore(Protocol):
    """Rows of endpoints."""

    async def get(self, endpoint: EndpointId) -> Endpoint:
        """By id. NotFoundError."""
        ...

    async def find(self, tenant: str, name: str) -> Endpoint | None:
        """By the name it has in its tenant."""
        ...

    async def list(self, *, tenant: str | None = None) -> Sequence[Endpoint]:
        """All, by tenant and name."""
        ...

    async def browse(self, *, tenant: str | None = None) -> Sequence[Endpoint | InvariantError]:
        """The same, with an error in the place of a row that cannot be decoded."""
        ...

    async def page(
        self, *, tenant: str | None = None, after: Position | None = None, limit: int = 100
    ) -> Page[Endpoint]:
        """Those after the position, by tenant and name."""
        ...

    async def changes(self) -> int:
        """A number that grows with every change of a row."""
        ...

    async def changed(self, *, after: int, limit: int) -> Sequence[EndpointChange]:
        """The changes that came after the version, in order."""
        ...

    async def remembers(self, version: int) -> bool:
        """Whether every change after the version is still known: the oldest are dropped after a while."""
        ...

    async def since(self, version: int) -> EndpointsSince | None:
        """What changed after the version; None where that is a great deal, or not all known any more."""
        ...

    async def save(self, endpoint: Endpoint, *, operation: OperationId, fence: Fence) -> None:
        """Store request, plan, change, phase, stages, reason, message and observed generation, while the operation's
        lease has this fence. Version and moment of the update are the store's. NotFoundError when the row is gone."""
        ...

    async def remove(self, endpoint: EndpointId, *, operation: OperationId, fence: Fence) -> None:
        """Remove the row; one that is gone is fine."""
        ...

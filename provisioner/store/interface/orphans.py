"""What the rest of the product needs of the rows of orphans; `interface` tells the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from provisioner.domain.orphan import Orphan
from provisioner.domain.page import Page, Position


class OrphanStore(Protocol):
    """What the last survey found."""

    async def replace(self, found: Sequence[Orphan]) -> None:
        """Make these all there are."""
        ...

    async def of_endpoint(self, endpoint: str) -> Sequence[Orphan]:
        """Those that stand for an endpoint."""
        ...

    async def forget(self, endpoint: str) -> None:
        """Drop those that stand for an endpoint: they are gone."""
        ...

    async def page(self, *, tenant: str | None = None, after: Position | None = None, limit: int = 100) -> Page[Orphan]:
        """Those after the position, by place, kind and name."""
        ...

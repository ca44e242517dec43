"""What the rest of the product needs of the published snapshot; `interface` tells the rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from provisioner.domain.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class EncodedSnapshot:
    """A snapshot as the JSON bytes that gateways read, not decoded."""

    version: int
    body: bytes


class SnapshotStore(Protocol):
    """The one current snapshot."""

    async def current(self) -> Snapshot | None:
        """The newest published snapshot."""
        ...

    async def version(self) -> int | None:
        """Its version alone."""
        ...

    async def encoded(self) -> EncodedSnapshot | None:
        """It as it is stored, for whoever passes it on."""
        ...

    async def publish(self, snapshot: Snapshot) -> None:
        """Replace the current one. ConflictError when its version is not exactly one more than the stored one."""
        ...

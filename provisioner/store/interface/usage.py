"""What the rest of the product needs of usage, and of the database as operators watch it; `interface` tells the
rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from provisioner.domain.fallback import FallbackEvidence
from provisioner.domain.page import Page, Position
from provisioner.domain.usage import Names, UsageFilter, UsageHour, UsageLabel, UsageSum


class UsageStore(Protocol):
    """Hourly sums of usage."""

    async def names(self, endpoints: Collection[str], keys: Collection[str]) -> Names:
        """What is known of endpoints by their ids, and of keys by their ids or digests."""
        ...

    async def add(
        self, batch: str, hours: Sequence[UsageHour], now: datetime, *, evidence: Sequence[FallbackEvidence] = ()
    ) -> bool:
        """Add sums, one per hour, endpoint and key, and evidence of fallbacks; False for a batch that was added before,
        which changes nothing. The names of an hour stay as they were first told."""
        ...

    async def page(
        self, wanted: UsageFilter, by: Collection[UsageLabel], *, after: Position | None = None, limit: int = 100
    ) -> Page[UsageSum]:
        """The sums by these labels, at least one, in the order of UsageLabel."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """Open operations by verb and state, how long the one that is due longest has waited, and the version of the
    snapshot."""

    open_operations: Mapping[tuple[str, str], int]
    oldest_due_seconds: float
    snapshot_version: int | None


class GaugeStore(Protocol):
    """The database as operators watch it."""

    async def read(self) -> Gauges:
        """What it says now."""
        ...

    def connections(self) -> tuple[int, int]:
        """Connections of this process's pool that are in use, and the most there may be."""
        ...

"""What the rest of the product needs of the rows of teams and of usage; `interface` tells the rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from provisioner.domain.page import Page, Position
from provisioner.domain.usage import Names, UsageFilter, UsageHour, UsageLabel, UsageSum


class UsageStore(Protocol):
    """Hourly sums of usage."""

    async def names(self, endpoints: Collection[str], keys: Collection[str]) -> Names:
        """What is known of endpoints by their ids, and of keys by their ids or digests."""
        ...

    async def add(self, batch: str, hours: Sequence[UsageHour], now: datetime) -> bool:
        """Add sums, one per hour, endpoint and key; False for a batch that was added before, which changes nothing. The
        names of an hour stay as they were first told."""
        ...

    async def page(
        self, wanted: UsageFilter, by: Collection[UsageLabel], *, after: Position | None = None, limit: int = 100
    ) -> Page[UsageSum]:
        """The sums by these labels, at least one, in the order of UsageLabel."""
        ...

"""Where time comes from.

Everything that needs the time takes a `Clock`; tests hand in one that they step. Nothing else in the package asks the
operating system for the time of day.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time of day."""

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
        ...


class SystemClock:
    """The operating system's clock."""

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
        return datetime.now(UTC)

"""The time of day for records of requests."""

from __future__ import annotations

from datetime import datetime

from provisioner.domain.clock import Clock


class TimeOfDay:
    """A clock that is asked once for each turn of the loop, whose own time stands still meanwhile."""

    __slots__ = ("_asked_at", "_clock", "_told")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_at = 0.0
        self._told = clock.now()

    def at(self, now: float) -> datetime:
        """The time of day at `now`, which is the loop's present time."""
        if now != self._asked_at:
            self._asked_at = now
            self._told = self._clock.now()
        return self._told

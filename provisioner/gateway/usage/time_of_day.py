"""The time of day for records of requests, to the millisecond. Asked by `exchange` and `connection`."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from provisioner.domain.clock import Clock

_MILLISECOND: Final = 0.001


class TimeOfDay:
    """A clock that is asked at most once in a millisecond."""

    __slots__ = ("_asked_at", "_clock", "_told")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_at = 0.0
        self._told = clock.now()

    def at(self, now: float) -> datetime:
        """The time of day at `now`, the present moment of a steady clock in seconds."""
        if now >= self._asked_at + _MILLISECOND:
            self._asked_at = now
            self._told = self._clock.now()
        return self._told

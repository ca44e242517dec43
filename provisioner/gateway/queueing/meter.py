"""How much of a rate is used: a bucket that fills up steadily, in two numbers. Used by `allowances`. Pure."""

from __future__ import annotations


class Meter:
    """So much may be taken in a minute: all of it at once, and it comes back evenly.

    More can be taken than there is; the debt comes back first. `free` is what was left when the meter was last `read`.
    Times are seconds of one steady clock.
    """

    __slots__ = ("_read_at", "free", "per_minute")

    def __init__(self, per_minute: float, now: float) -> None:
        self.per_minute = per_minute
        self.free = per_minute
        self._read_at = now

    def read(self, now: float) -> float:
        """What may be taken at `now`; less than nothing is a debt."""
        per_minute = self.per_minute
        free = self.free + (now - self._read_at) * per_minute / 60
        if free > per_minute:
            free = per_minute
        self.free = free
        self._read_at = now
        return free

    def take(self, amount: float) -> None:
        """Takes `amount` of what was read."""
        self.free -= amount

    def seconds_until(self, free: float) -> float:
        """How long it takes from the last reading until so much is free."""
        return max(0.0, (free - self.free) * 60 / self.per_minute)

    def resize(self, per_minute: float, now: float) -> None:
        """Changes the rate; what is used stays used."""
        used = self.per_minute - self.read(now)
        self.per_minute = per_minute
        self.free = per_minute - used

"""How long to wait before an attempt is made again. Pure; the worker hands the randomness in."""

from __future__ import annotations

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0
JITTER = 0.25


def delay_seconds(attempt: int, *, chance: float) -> float:
    """Seconds to wait after the failed attempt number `attempt` (from 1): doubling, bounded, spread by a quarter.

    `chance` is a random number in [0, 1): 0 gives the shortest wait, 0.5 the middle one.
    """
    doublings = min(max(attempt - 1, 0), 16)  # bounded here already, so that no attempt number overflows
    return min(FIRST_SECONDS * 2.0**doublings, LONGEST_SECONDS) * (1 + JITTER * (2 * chance - 1))

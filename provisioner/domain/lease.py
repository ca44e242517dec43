"""A lease: time-bounded ownership of an operation, with a fencing token that only grows.

The store grants leases, the worker renews them, every outside write carries the token (annotation
`tenantry.io/fence`), so that a stale worker's write is refused or changes nothing. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NewType

Fence = NewType("Fence", int)

LEASE_SECONDS = 30.0
HEARTBEAT_SECONDS = LEASE_SECONDS / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who holds an operation until when. `fence` is new for every acquisition, from one sequence per database."""

    holder: str
    fence: Fence
    renewed_at: datetime
    duration_seconds: float = LEASE_SECONDS

    @property
    def expires_at(self) -> datetime:
        """The moment from which another worker may take over."""
        return self.renewed_at + timedelta(seconds=self.duration_seconds)

    def is_expired(self, now: datetime) -> bool:
        """Whether another worker may take over at `now`."""
        return now >= self.expires_at

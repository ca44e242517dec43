"""What every request of one gateway shares: the present directory, the pool, the bounds, the counts.

One object per gateway, handed to every connection. The directory is replaced by one assignment and never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provisioner.domain.clock import Clock
from provisioner.domain.snapshot import Backend, Route
from provisioner.gateway.body import BodyMemory
from provisioner.gateway.config import Limits
from provisioner.gateway.counters import Counters
from provisioner.gateway.directory import Directory
from provisioner.gateway.header import Naming
from provisioner.gateway.upstream import Pool

if TYPE_CHECKING:
    from provisioner.gateway.connection import CallerConnection


@dataclass(slots=True, kw_only=True)
class DataPath:
    """The shared state. `directory` None means: no snapshot yet, or too old a one."""

    limits: Limits
    clock: Clock
    naming: Naming
    counters: Counters
    pool: Pool
    body_memory: BodyMemory
    directory: Directory | None = None
    is_draining: bool = False
    connections: set[CallerConnection] = field(default_factory=set)
    turns: dict[str, int] = field(default_factory=dict)
    """By endpoint: how many requests were given out, so that replicas take them in turn."""

    def in_turn(self, route: Route) -> Sequence[Backend]:
        """The replicas of `route` in the order in which this request may try them."""
        backends = route.backends
        if len(backends) < 2:
            return backends
        turn = self.turns.get(route.endpoint, 0)
        self.turns[route.endpoint] = turn + 1
        first = turn % len(backends)
        return backends[first:] + backends[:first]

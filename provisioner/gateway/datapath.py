"""What every request of one gateway shares: the present directory, the rooms it passes through, the bounds, the counts.

One object per gateway, handed to every connection. The directory is replaced by one assignment and never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provisioner.domain.clock import Clock
from provisioner.gateway.body.memory import BodyMemory
from provisioner.gateway.caller.header import Naming
from provisioner.gateway.config import Limits
from provisioner.gateway.directory import Directory
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.queueing.allowances import Allowances
from provisioner.gateway.queueing.claim import Claims
from provisioner.gateway.queueing.queue import Queue
from provisioner.gateway.replica.choice import Replicas
from provisioner.gateway.replica.rescue import Rescue
from provisioner.gateway.replica.upstream import Pool
from provisioner.gateway.secrets import Secrets
from provisioner.gateway.usage.accounting import UsageAccounting

if TYPE_CHECKING:
    from provisioner.gateway.caller.connection import CallerConnection
    from provisioner.gateway.operator.pages import Pages


@dataclass(slots=True, kw_only=True)
class DataPath:
    """The shared state. `directory` None means: no snapshot yet, or too old a one."""

    limits: Limits
    clock: Clock
    naming: Naming
    stays: frozenset[bytes]
    """The names of a request's header fields that do not go on to a replica."""
    counters: Counters
    pool: Pool
    body_memory: BodyMemory
    claims: Claims
    queue: Queue
    allowances: Allowances
    replicas: Replicas
    rescue: Rescue
    accounting: UsageAccounting
    secrets: Secrets
    asks_for_usage: bool
    """Whether engines are asked for the usage of a stream whose caller did not ask."""
    directory: Directory | None = None
    pages: Pages = field(default_factory=dict)
    """Of the operator, shown on the customers' address; none unless the gateway stands alone."""
    is_draining: bool = False
    connections: set[CallerConnection] = field(default_factory=set)

    def waiting(self) -> Mapping[str, int]:
        """Requests that wait for a slot or a replica, by the id of every endpoint."""
        routes = self.directory.snapshot.routes if self.directory is not None else ()
        waiting = Counter({route.endpoint: 0 for route in routes})
        waiting.update(endpoint for one in self.connections if (endpoint := one.waits_at()) is not None)
        return waiting

    def use(self, directory: Directory) -> None:
        """Takes a new directory into use; requests that go on keep theirs."""
        snapshot = directory.snapshot
        self.claims.use(snapshot)
        self.queue.use(snapshot)
        self.allowances.use(snapshot)
        self.replicas.use(snapshot)
        self.directory = directory
        self.rescue.use(snapshot)

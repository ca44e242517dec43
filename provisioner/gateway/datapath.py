"""What every request of one gateway shares: the present directory, the rooms it passes through, the bounds, the counts.

One object per gateway, handed to every connection. The directory is replaced by one assignment and never changed. Made
by `server`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from provisioner.domain.clock import Clock
from provisioner.gateway.body.memory import BodyMemory
from provisioner.gateway.caller.header import Naming
from provisioner.gateway.config import Limits
from provisioner.gateway.directory import Directory
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.operator.page import Pages
from provisioner.gateway.queueing.allowances import Allowances
from provisioner.gateway.queueing.claim import Claims
from provisioner.gateway.queueing.queue import Queue
from provisioner.gateway.replica.choice import Replicas
from provisioner.gateway.replica.rescue import Rescue
from provisioner.gateway.replica.upstream import Pool
from provisioner.gateway.secrets import Secrets
from provisioner.gateway.usage.accounting import UsageAccounting
from provisioner.gateway.usage.time_of_day import TimeOfDay


class Connection(Protocol):
    """A customer's connection, as those see it who look after all of them."""

    def waits_at(self) -> str | None:
        """The id of the endpoint at which its request waits, if it does."""
        ...

    def is_for(self) -> str | None:
        """The id of the endpoint that its request is for, if it has one."""
        ...

    def expire(self, now: float) -> None:
        """Ends a silence that has lasted too long; `now` is the loop's time."""
        ...

    def close_if_idle(self) -> None:
        """Closes a connection on which nothing is going on."""
        ...

    def break_off(self) -> None:
        """Ends the connection and whatever goes on for it."""
        ...


@dataclass(slots=True, kw_only=True)
class DataPath:
    """The shared state. `directory` None means: no snapshot yet, or too old a one."""

    limits: Limits
    clock: Clock
    time: Callable[[], float]
    """The steady clock that the loop keeps too; its own stands still during a turn, and says whole milliseconds."""
    time_of_day: TimeOfDay
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
    connections: set[Connection] = field(default_factory=set)
    last_used: dict[str, float] = field(default_factory=dict)
    """When the last request for an endpoint ended, in loop time, by its id."""

    def use(self, directory: Directory) -> None:
        """Takes a new directory into use; requests that go on keep theirs."""
        snapshot = directory.snapshot
        self.claims.use(snapshot)
        self.queue.use(snapshot)
        self.allowances.use(snapshot)
        self.replicas.use(snapshot)
        self.directory = directory
        known = {route.endpoint for route in snapshot.routes}
        self.last_used = {endpoint: ended for endpoint, ended in self.last_used.items() if endpoint in known}
        self.rescue.use(snapshot)

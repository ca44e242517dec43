"""Those of one class who wait: first come, first served within a tenant, and the tenants in turn.

However many requests a tenant has sent, the next slot is another waiting tenant's. Every step takes the same time,
whoever waits; but for the tenant that waits most often, who is looked for only while the queue is full. Used by
`service_order`. Pure: a ticket says when it arrived, and tickets are added in that order.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar


class Waiting(Protocol):
    """Somebody who waits."""

    tenant: str


T = TypeVar("T", bound=Waiting)


class Line(Generic[T]):
    """The waiting tickets of one class."""

    __slots__ = ("_arrivals", "_tenants")

    def __init__(self) -> None:
        self._arrivals: OrderedDict[T, None] = OrderedDict()
        self._tenants: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()
        """In the order of their turns."""

    def __len__(self) -> int:
        return len(self._arrivals)

    def add(self, ticket: T) -> None:
        """Puts `ticket` at its tenant's end; a tenant who has nobody waiting comes after all others."""
        self._arrivals[ticket] = None
        tickets = self._tenants.get(ticket.tenant)
        if tickets is None:
            tickets = self._tenants[ticket.tenant] = OrderedDict()
        tickets[ticket] = None

    def remove(self, ticket: T) -> None:
        """Takes `ticket` out; its tenant keeps its turn."""
        del self._arrivals[ticket]
        tickets = self._tenants[ticket.tenant]
        del tickets[ticket]
        if not tickets:
            del self._tenants[ticket.tenant]

    def serve(self, ticket: T) -> None:
        """Takes `ticket` out because it is served: its tenant has had its turn."""
        self.remove(ticket)
        if ticket.tenant in self._tenants:
            self._tenants.move_to_end(ticket.tenant)

    def first(self) -> T | None:
        """Whose turn it is."""
        for tickets in self._tenants.values():
            return next(iter(tickets))
        return None

    def oldest(self) -> T | None:
        """Who has waited longest."""
        return next(iter(self._arrivals), None)

    def newest_of(self, tenant: str) -> T | None:
        """Who of `tenant` has waited least."""
        return next(reversed(self._tenants.get(tenant, ())), None)

    def count_of(self, tenant: str) -> int:
        """How many of `tenant` wait."""
        return len(self._tenants.get(tenant, ()))

    def tenants(self) -> tuple[str, ...]:
        """Who has somebody waiting."""
        return tuple(self._tenants)

"""In which order the requests for a route try its replicas: in turn, or the one with fewest outstanding first.

What a request needs is worked out when a replica's share changes, not when the request comes: while all replicas take
their full share, a turn is one step through finished orders. A replica that is back takes its turn only when enough of
its share has come together. Pure. `Replicas` owns one `Turns` per set of replicas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from provisioner.domain.snapshot import Backend, Balance, Route
from provisioner.gateway.replica.health import Health

TRIES: Final = 16
"""How many replicas a request may try."""


class Replica:
    """What is known of one replica: as `route`, the first that names it, has it."""

    __slots__ = ("backend", "credit", "health", "name", "outstanding", "route", "share", "turns")

    def __init__(self, backend: Backend, route: Route) -> None:
        self.name = backend.host, backend.address
        """By which it is known again."""
        self.backend = backend
        self.route = route
        self.health = Health()
        self.share = 1.0
        """Of the traffic, as a part of its full share."""
        self.credit = 0.0
        """What of its share has come together since its last turn."""
        self.outstanding = 0
        """Requests that are on their way to it or being answered."""
        self.turns: list[Turns] = []
        """The orders that it is part of."""


class Turns:
    """The order of one set of replicas, from one request to the next."""

    __slots__ = ("_is_plain", "_next", "_orders", "_usable", "backends", "balance", "front", "members", "usable")

    def __init__(self, backends: Sequence[Backend], members: Sequence[Replica], balance: Balance) -> None:
        self.backends = backends
        self.members = members
        """The replicas behind `backends`, one for one."""
        self.balance = balance
        self.usable: tuple[Backend, ...] = ()
        """Those that get requests now."""
        self.front: Backend | None = None
        """A local router that is tried before them; it spreads over exactly those that are usable."""
        self._next = 0
        self.renew()

    def put_in_front(self, router: Backend | None) -> None:
        """Lets requests go to `router` first, until other replicas are usable than those that it knows."""
        self.front = router
        self.renew()

    def renew(self) -> None:
        """Works the orders out anew: shares, or the router in front, have changed."""
        pairs = [pair for pair in zip(self.backends, self.members, strict=True) if pair[1].share]
        before, self.usable = self.usable, tuple(backend for backend, _ in pairs)
        if self.usable != before:
            self.front = None
        count, usable = len(pairs), self.usable
        front = () if self.front is None else (self.front,)
        self._usable = [member for _, member in pairs]
        self._orders = [
            (*front, *(usable[(first + place) % count] for place in range(min(count, TRIES)))) for first in range(count)
        ]
        self._next = self._next % count if count else 0
        is_even = all(member.share == 1 for member in self._usable)
        self._is_plain = count > 0 and (bool(front) or (is_even and self.balance != "least-loaded"))

    def take(self) -> tuple[Backend, ...]:
        """The order for the next request; empty when no replica is usable."""
        orders = self._orders
        if self._is_plain:
            turn = self._next
            self._next = turn + 1 if turn + 1 < len(orders) else 0
            return orders[turn]
        if not orders:
            return ()
        turn = self._least_loaded() if self.balance == "least-loaded" else self._due()
        self._next = (turn + 1) % len(orders)
        return orders[turn]

    def _due(self) -> int:
        """The next whose share allows it; the very next when all of them are just coming back."""
        usable, count = self._usable, len(self._usable)
        for step in range(count):
            turn = (self._next + step) % count
            member = usable[turn]
            member.credit += member.share
            if member.credit >= 1:
                member.credit -= 1
                return turn
        return self._next

    def _least_loaded(self) -> int:
        """The one that would have the fewest outstanding for its share; of equals the one whose turn it is."""
        usable, count = self._usable, len(self._usable)
        best, least = self._next, math.inf
        for step in range(count):
            turn = (self._next + step) % count
            load = (usable[turn].outstanding + 1) / usable[turn].share
            if load < least:
                best, least = turn, load
        return best

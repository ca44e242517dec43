"""Requests that wait for an endpoint that sleeps: how many, for how long, and what they wait for. No IO; time comes in.

Their number is bounded for each endpoint and in all; the memory of their bodies is bounded with that of all bodies.
Kept by `rescue`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from provisioner.domain.snapshot import Route
from provisioner.gateway.refusal import RefusedError, too_many_held
from provisioner.gateway.replica.rescued import Rescued
from provisioner.gateway.usage.tally import Tally


class Held:
    """One request that waits; it is its own `Hold`."""

    __slots__ = ("_holds", "request", "route", "tally", "until")

    def __init__(self, holds: Holds, route: Route, tally: Tally, request: Rescued, until: float) -> None:
        self._holds = holds
        self.route = route
        self.tally = tally
        self.request = request
        self.until = until

    def leave(self) -> None:
        """It waits no more; a second time does nothing."""
        self._holds.remove(self)


class Holds:
    """All that wait, by endpoint, in the order in which they came. `emptied` is told of an endpoint that nothing waits
    for any more."""

    def __init__(
        self, *, most: int, most_per_endpoint: int, seconds: float, emptied: Callable[[str], None] = lambda _: None
    ) -> None:
        self._emptied = emptied
        self._most = most
        self._most_per_endpoint = most_per_endpoint
        self._seconds = seconds
        self._by_endpoint: dict[str, dict[Held, None]] = {}
        self.count = 0

    def add(self, route: Route, tally: Tally, request: Rescued, now: float) -> Held:
        """Lets a request wait. Raises `RefusedError` (503) when there are too many."""
        waiting = self._by_endpoint.get(route.endpoint, {})
        if self.count >= self._most or len(waiting) >= self._most_per_endpoint:
            raise RefusedError(too_many_held(route.alias))
        held = Held(self, route, tally, request, now + self._seconds)
        self._by_endpoint.setdefault(route.endpoint, waiting)[held] = None
        self.count += 1
        return held

    def remove(self, held: Held) -> None:
        """Takes one out, if it still waits."""
        waiting = self._by_endpoint.get(held.route.endpoint)
        if waiting is None or held not in waiting:
            return
        del waiting[held]
        self.count -= 1
        if not waiting:
            del self._by_endpoint[held.route.endpoint]
            self._emptied(held.route.endpoint)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The endpoints that something waits for."""
        return tuple(self._by_endpoint)

    def of(self, endpoint: str) -> tuple[Held, ...]:
        """What waits for it."""
        return tuple(self._by_endpoint.get(endpoint, ()))

    def overdue(self, now: float) -> Iterator[Held]:
        """Those whose time is over; the oldest of an endpoint come first, so the first that is not ends the look."""
        for endpoint in self.endpoints:
            for held in self.of(endpoint):
                if held.until > now:
                    break
                yield held

"""What may be done for a request whose route has no healthy replica: wait for one, or go outside under a policy.

An endpoint that sleeps is woken, and its requests wait; they go outside only when it cannot be woken in time. A request
goes outside once, when `control.outside` lets it. Why it did not is noted in its tally.
"""

from __future__ import annotations

import asyncio

from provisioner.domain.snapshot import Route, Snapshot
from provisioner.gateway.config import Limits
from provisioner.gateway.control.outside import Outside
from provisioner.gateway.control.waker import Waker
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.refusal import Refusal, RefusedError, budget_exhausted, no_replica, not_woken
from provisioner.gateway.replica.choice import Replicas
from provisioner.gateway.replica.holds import Held, Holds
from provisioner.gateway.replica.rescued import Hold, Rescued
from provisioner.gateway.usage.tally import Tally


class Rescue:
    """Knows who can be woken and what may go outside; a gateway without a control plane has neither."""

    def __init__(
        self, limits: Limits, replicas: Replicas, counters: Counters, *, waker: Waker | None, outside: Outside | None
    ) -> None:
        self._replicas = replicas
        self._counters = counters
        self._waker = waker
        self._outside = outside
        self._loop = asyncio.get_running_loop()
        self._snapshot: Snapshot | None = None
        self._routes: dict[tuple[str, str], Route] | None = None
        """Of the present snapshot, by tenant and alias; made when something waits for one."""
        self._holds = Holds(
            most=limits.holds,
            most_per_endpoint=limits.holds_per_endpoint,
            seconds=limits.hold_seconds,
            emptied=waker.forget if waker is not None else lambda _: None,
        )

    @property
    def held(self) -> int:
        """Requests that wait for endpoints that sleep."""
        return self._holds.count

    def begin(self, route: Route, tally: Tally, request: Rescued) -> Hold | None:
        """Does what can be done and calls `request` then, which may be before this returns (None is given for that).

        Raises `RefusedError` (503, or 429 for a used-up budget) when nothing can be done.
        """
        if self._waker is None or not route.can_wake or route.backends:
            self._send_outside(route, tally, request, otherwise=no_replica(route.alias))
            return None
        held = self._holds.add(route, tally, request, self._loop.time())
        self._waker.ask(route.endpoint, self._give_up)
        return held

    def use(self, snapshot: Snapshot) -> None:
        """Takes the routes of a new snapshot, and lets those go on that have waited for them."""
        self._snapshot, self._routes = snapshot, None
        if self._outside is not None:
            self._outside.use(snapshot.routes)
        for endpoint in self._holds.endpoints:
            self._let_go_on(endpoint)

    def expire(self, now: float) -> None:
        """Ends what has waited for too long at `now`, the loop's time, and asks again for what is still waited for."""
        for held in self._holds.overdue(now):
            self._end(held)
        for endpoint in self._holds.endpoints:
            self._let_go_on(endpoint)  # a replica that was out may be back
            if self._waker is not None and self._holds.of(endpoint):
                self._waker.ask(endpoint, self._give_up)

    def _let_go_on(self, endpoint: str) -> None:
        routes = self._present_routes()
        for held in self._holds.of(endpoint):
            route = routes.get((held.route.tenant, held.route.alias))
            if route is None:
                self._end(held)
            elif route.backends and self._replicas.in_turn(route):
                held.leave()
                held.request.go_on(route)

    def _present_routes(self) -> dict[tuple[str, str], Route]:
        if self._routes is None:
            routes = self._snapshot.routes if self._snapshot is not None else ()
            self._routes = {(route.tenant, route.alias): route for route in routes}
        return self._routes

    def _give_up(self, endpoint: str) -> None:
        for held in self._holds.of(endpoint):
            self._end(held)

    def _end(self, held: Held) -> None:
        """It was not woken: what remains is to go outside, if that is allowed."""
        held.leave()
        try:
            self._send_outside(held.route, held.tally, held.request, otherwise=not_woken(held.route.alias))
        except RefusedError as error:
            held.request.shed(error.refusal)

    def _send_outside(self, route: Route, tally: Tally, request: Rescued, *, otherwise: Refusal) -> None:
        """Lets it go outside. Raises `RefusedError` with `otherwise`, or 429, where it may not."""
        fallback = route.fallback
        if fallback is None or self._outside is None:
            raise RefusedError(otherwise)
        denial = self._outside.denial(fallback)
        self._counters.fallbacks[denial or "sent"] += 1
        if denial:
            tally.denial = denial
            raise RefusedError(budget_exhausted(route.alias) if denial == "budget_exhausted" else otherwise)
        tally.target = fallback.policy
        request.go_outside(fallback.target, fallback.model)

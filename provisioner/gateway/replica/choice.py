"""Which replicas of a route a request may try, and in which order; and what became of those that were tried."""

from __future__ import annotations

from collections.abc import Sequence

from provisioner.domain.snapshot import Backend, Route, Snapshot


class Replicas:
    """What is known of all replicas."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def use(self, snapshot: Snapshot) -> None:
        """Takes the replicas of a new snapshot and forgets those that are gone."""

    def in_turn(self, route: Route) -> Sequence[Backend]:
        """The healthy replicas of `route` in the order in which this request may try them."""
        backends = route.backends
        if len(backends) < 2:
            return backends
        turn = self._turns.get(route.endpoint, 0)
        self._turns[route.endpoint] = turn + 1
        first = turn % len(backends)
        return backends[first:] + backends[:first]

    def began(self, backend: Backend) -> None:
        """A request is about to be sent to `backend`. It ends with exactly one of the three calls below."""

    def answered(self, backend: Backend, status: int) -> None:
        """Its answer, of this status, is complete. From 500 on the replica has failed; below 400 it has not; what lies
        between says nothing about it."""

    def broke(self, backend: Backend, reason: str) -> None:
        """It was not answered, or not to the end, and the replica is to blame; `reason` is a CamelCase word."""

    def left(self, backend: Backend) -> None:
        """Its caller has gone, which says nothing about the replica."""

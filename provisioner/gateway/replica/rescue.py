"""What may be done for a request whose route has no healthy replica: wait for one, or go outside under a policy."""

from __future__ import annotations

from typing import Protocol

from provisioner.domain.snapshot import Backend, Route
from provisioner.gateway.refusal import Refusal, RefusedError, no_replica
from provisioner.gateway.usage.tally import Tally


class Rescued(Protocol):
    """The request that is to be rescued."""

    def go_on(self, route: Route) -> None:
        """There are replicas again: try them, as `route` of the present snapshot has them."""
        ...

    def go_outside(self, target: Backend, model: str) -> None:
        """The policy allows it and its budget is charged: send it to `target`, once, as `model`."""
        ...

    def shed(self, refusal: Refusal) -> None:
        """Nothing can be done: the caller is told `refusal`."""
        ...


class Hold(Protocol):
    """A request that is held until something can be done for it."""

    def leave(self) -> None:
        """Its caller has gone; a second time does nothing."""
        ...


class Rescue:
    """Knows who can be woken and what may go outside."""

    def begin(self, route: Route, tally: Tally, request: Rescued) -> Hold | None:
        """Does what can be done and calls `request` then, which may be before this returns (None is given for that).

        Raises `RefusedError` (503, or 429 for a used-up budget) when nothing can be done.
        """
        raise RefusedError(no_replica(route.alias))

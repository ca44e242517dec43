"""What a request is to those who rescue it, and what it gets from them. Types only."""

from __future__ import annotations

from typing import Protocol

from provisioner.domain.snapshot import Backend, Route
from provisioner.gateway.refusal import Refusal


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

"""Slots per group of replicas and the queue in front of them.

An exchange enters once, waits if it must, and leaves when the last byte of its answer is copied or its caller has gone.
"""

from __future__ import annotations

from typing import Protocol

from provisioner.domain.snapshot import Route, Snapshot
from provisioner.gateway.queueing.claim import Claim
from provisioner.gateway.refusal import Refusal


class Waiter(Protocol):
    """Who waits in the queue."""

    def begin_turn(self) -> None:
        """The slot is given: go on."""
        ...

    def shed(self, refusal: Refusal) -> None:
        """It will not be: the caller is told `refusal`."""
        ...


class Place(Protocol):
    """A request's place, in the queue or at a slot."""

    has_turn: bool

    def leave(self) -> None:
        """Gives the place up, at once; a second time does nothing."""
        ...


class _NoQueue:
    has_turn = True

    def leave(self) -> None:
        """There is nothing to give up."""


_NO_QUEUE = _NoQueue()


class Queue:
    """The queues of all groups."""

    def use(self, snapshot: Snapshot) -> None:
        """Takes the groups of a new snapshot. Requests that wait or run keep their places."""

    def enter(self, route: Route, claim: Claim, waiter: Waiter) -> Place:
        """A place for a request on `route`. One that has its turn begins at once: `waiter` is not called for it.

        Raises `RefusedError` (503) when no more may wait.
        """
        return _NO_QUEUE

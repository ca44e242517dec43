"""Slots per group of routes and the queue in front of them.

An exchange enters once, waits if it must, and leaves when the last byte of its answer is copied or its caller has gone.
A route whose group has no slots of its own is not queued at all. Several gateways each take an even part of slots and
depth, at least one, so the order holds within one process only. No request has a timer: the gateway's sweep calls
`expire`. Whose turn it is says `service_order`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from typing import Any, Final, Protocol

from provisioner.domain.enumeration import first_few
from provisioner.domain.snapshot import QueueGroup, Route, Snapshot
from provisioner.gateway.config import Queueing
from provisioner.gateway.queueing.claim import Claim
from provisioner.gateway.queueing.service_order import ServiceOrder, Ticket
from provisioner.gateway.refusal import Refusal, RefusedError, no_slot_in_time, queue_full

_log = logging.getLogger(__name__)

_NAMED: Final = 5
"""Groups that one warning names."""


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


_NO_QUEUE: Final = _NoQueue()


class _Place(Ticket):
    """A ticket, and who holds it. The waiter is known only while it waits, so that the two do not keep each other."""

    __slots__ = ("group", "waiter")

    def __init__(self, group: _Group, claim: Claim) -> None:
        super().__init__(claim.tenant, claim.person)
        self.group = group
        self.waiter: Waiter | None = None

    def leave(self) -> None:
        """Gives the place up."""
        self.waiter = None
        group = self.group
        group.order.leave(self)
        if group.order.waiting:
            group.serve()

    def begin(self) -> None:
        """Tells the waiter that its turn has come, unless it has left since."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None and self.has_turn:
            waiter.begin_turn()

    def shed(self, refusal: Refusal) -> None:
        """Tells the waiter that its turn will not come."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.shed(refusal)


class _Group:
    """One group's queue."""

    __slots__ = ("_loop", "order")

    def __init__(self, rules: Queueing, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.order: ServiceOrder[_Place] = ServiceOrder(
            background_wait_seconds=rules.background_wait_seconds,
            interactive_per_principal=rules.interactive_per_principal,
        )

    def serve(self) -> None:
        """Gives free slots to those who are next. They begin from the loop: one that fails then harms no other."""
        now = self._loop.time()
        while (place := self.order.serve_next(now)) is not None:
            self._loop.call_soon(place.begin)

    def resize(self, terms: QueueGroup, gateways: int) -> None:
        """Takes this gateway's part of new terms; more slots serve more at once, fewer take none away."""
        order = self.order
        order.slots = part_of(terms.slots, gateways) or math.inf
        order.depth = part_of(terms.depth, gateways)
        order.wait_seconds = terms.wait_seconds
        self.serve()


class Queue:
    """The queues of all groups."""

    def __init__(self, rules: Queueing) -> None:
        self._rules = rules
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._gateways = 1
        self._terms: tuple[QueueGroup, ...] = ()
        self._sized: Mapping[str, QueueGroup] = {}
        """Those with slots, by name."""
        self._groups: dict[str, _Group] = {}
        """Those of them that were asked for, by name."""
        self._left: dict[str, _Group] = {}
        """Those without slots, while requests that came when they had some still run."""
        self._contended: set[_Group] = set()
        """Those in whose line somebody may wait."""
        self._warned: list[str] = []

    def use(self, snapshot: Snapshot) -> None:
        """Takes the groups of a new snapshot. Requests that wait or run keep their places; where there is no queue any
        more, those who wait begin."""
        present = {**self._left, **self._groups}
        self._terms, self._gateways = snapshot.groups, snapshot.gateways
        self._sized = {terms.name: terms for terms in snapshot.groups if terms.slots}
        self._groups, self._left = {}, {}
        for name, group in present.items():
            if group.order.active:  # nobody waits where nobody is served
                terms = self._sized.get(name)
                group.resize(terms or QueueGroup(name=name, slots=0), self._gateways)
                (self._left if terms is None else self._groups)[name] = group
        self._warn(snapshot)

    def enter(self, route: Route, claim: Claim, waiter: Waiter) -> Place:
        """A place for a request on `route`. One that has its turn begins at once: `waiter` is not called for it.

        Raises `RefusedError` (503) when no more may wait.
        """
        name = route.group or route.endpoint
        group = self._groups.get(name) or self._first_asked(name)
        if group is None:
            return _NO_QUEUE
        place = _Place(group, claim)
        displaced = group.order.enter(place, self._time())
        if not place.has_turn:
            self._contended.add(group)
            if displaced is place:
                raise RefusedError(queue_full(self._rules.retry_after_seconds))
            place.waiter = waiter
            if displaced is not None:
                self._loop.call_soon(displaced.shed, queue_full(self._rules.retry_after_seconds))
        return place

    def expire(self, now: float) -> None:
        """Sheds those who have waited too long; `now` is the loop's time."""
        for group in tuple(self._contended):
            for place in group.order.expire(now):
                refusal = no_slot_in_time(group.order.wait_seconds, self._rules.retry_after_seconds)
                self._loop.call_soon(place.shed, refusal)
            if not group.order.waiting:
                self._contended.discard(group)

    def status(self) -> Mapping[str, Any]:
        """What this process serves and who waits for it, by group. Where there is no queue, nobody counts."""
        return {"scope": "process", "backends": [self._status_of(terms) for terms in self._terms]}

    def _status_of(self, terms: QueueGroup) -> Mapping[str, Any]:
        group = self._groups.get(terms.name)
        slots = part_of(terms.slots, self._gateways)
        if group is None:
            active, queued = 0 if slots else None, {"interactive": 0, "background": 0}
        else:
            active, queued = group.order.active, group.order.queued()
        return {"backend": terms.name, "slots": slots, "active": active, "queued": queued}

    def _first_asked(self, name: str) -> _Group | None:
        """The group of that name, made when it is first asked for: of thousands few are at once."""
        terms = self._sized.get(name)
        if terms is None:
            return None
        group = self._groups[name] = _Group(self._rules, self._loop)
        group.resize(terms, self._gateways)
        return group

    def _warn(self, snapshot: Snapshot) -> None:
        """Says, when it changes, what several gateways make of the order and of the number of slots."""
        gateways = snapshot.gateways
        shared = [terms for terms in snapshot.groups if terms.slots and gateways > 1]
        small = tuple(terms.name for terms in shared if terms.slots < gateways)
        warnings = []
        if shared:
            warnings.append(f"each gateway orders its own queue only, gateways: {gateways}")
        if small:
            named = first_few(small, _NAMED)
            warnings.append(f"each gateway takes one slot where there are fewer than gateways: {named}")
        for warning in warnings:
            if warning not in self._warned:
                _log.warning("sharing slots: %s", warning, extra={"action": "slots_shared", "gateways": gateways})
        self._warned = warnings


def part_of(whole: int, gateways: int) -> int:
    """One gateway's even part of something that all share: at least one, if there is anything."""
    return max(1, whole // gateways) if whole else 0

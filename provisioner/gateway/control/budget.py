"""Budgets of external fallback: reserved in batches from the control plane ahead of need, spent from memory.

A request that is to go outside takes one from what was reserved before, and waits for nothing: with the control plane
away what is left is spent, and then no more. A batch is asked for when half of the last one is spent, under an id that
stays the same until an answer has come, so that no reservation is made twice. What is left when the gateway ends is
given back; what cannot be, is lost with the period. Run by `link`; `outside` spends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from provisioner.domain.clock import Clock
from provisioner.domain.fallback import BATCH_REQUESTS
from provisioner.gateway.control.doors import DoorClosedError, Doors

_LOOK_SECONDS = 1.0
_REST_SECONDS = 5.0
"""After a reservation that gave nothing, or an answer that did not come."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Reservation:
    """A reservation and what is left of it until the period ends."""

    id: str
    left: int
    until: datetime


@dataclass(slots=True)
class _Purse:
    """What is reserved of one policy. `low` is when more is asked for, `asked` the id of a question without answer."""

    reservations: deque[_Reservation] = field(default_factory=deque)
    low: int = 0
    asked: str = ""
    rests_until: float = 0.0

    def left(self, now: datetime) -> int:
        while self.reservations and (self.reservations[0].until <= now or not self.reservations[0].left):
            self.reservations.popleft()
        return sum(reservation.left for reservation in self.reservations)


class Budgets:
    """What this gateway may still send outside, by policy. `new_id` gives ids that no other gateway gives."""

    def __init__(self, doors: Doors, clock: Clock, new_id: Callable[[], str]) -> None:
        self._doors = doors
        self._clock = clock
        self._new_id = new_id
        self._loop = asyncio.get_running_loop()
        self._purses: dict[str, _Purse] = {}
        self._wanted: frozenset[str] = frozenset()
        self._spent = asyncio.Event()

    def use(self, policies: Iterable[str]) -> None:
        """From now on requests may go outside under these policies."""
        self._wanted = frozenset(policies)
        for policy in self._wanted:
            self._purses.setdefault(policy, _Purse())
        self._spent.set()

    def spend(self, policy: str) -> bool:
        """Takes one request; False when there is none left."""
        purse = self._purses.get(policy)
        if purse is None:
            return False
        left = purse.left(self._clock.now())
        if left - 1 <= purse.low:
            self._spent.set()
        if not left:
            return False
        purse.reservations[0].left -= 1
        return True

    def left(self, policy: str) -> int:
        """Requests that are reserved and not spent."""
        purse = self._purses.get(policy)
        return purse.left(self._clock.now()) if purse else 0

    async def run(self) -> None:
        """Reserves ahead of need until it is cancelled."""
        while True:
            self._spent.clear()
            for policy in self._wanted:
                await self._fill(policy, self._purses[policy])
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS if self._wanted else None):
                    await self._spent.wait()

    async def close(self) -> None:
        """Gives back what is left."""
        for purse in self._purses.values():
            if not purse.left(self._clock.now()):
                continue
            for reservation in purse.reservations:
                try:
                    await self._doors.post("budget/return", {"reservation": reservation.id, "unused": reservation.left})
                except DoorClosedError as error:
                    told = {"action": "budget_kept", "error": str(error)}
                    _log.warning("giving back what was not sent outside: the control plane is away", extra=told)
                    return

    async def _fill(self, policy: str, purse: _Purse) -> None:
        if purse.left(self._clock.now()) > purse.low or self._loop.time() < purse.rests_until:
            return
        purse.asked = purse.asked or self._new_id()
        question = {"reservation": purse.asked, "policy": policy, "requests": BATCH_REQUESTS}
        try:
            answer = await self._doors.post("budget", question)
            reservation = _Reservation(purse.asked, int(answer["requests"]), datetime.fromisoformat(answer["until"]))
        except (DoorClosedError, KeyError, TypeError, ValueError) as error:
            purse.rests_until = self._loop.time() + _REST_SECONDS
            told = {"action": "budget_unreserved", "policy": policy, "error": str(error)}
            _log.warning("reserving requests to go outside by policy %s: no answer that helps", policy, extra=told)
            return
        purse.asked = ""
        purse.low = reservation.left // 2
        if reservation.left:
            purse.reservations.append(reservation)
        else:
            purse.rests_until = self._loop.time() + _REST_SECONDS

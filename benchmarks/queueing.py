"""What a gateway's queue costs a request: with a slot free against asyncio's own semaphore, and with many waiting.

Whoever leaves, from wherever in the queue, must cost the same however many wait. Prints microseconds of each, the best
of several rounds, and the ratios.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

from provisioner.domain.snapshot import QueueGroup, Route, Snapshot
from provisioner.gateway.config import Queueing
from provisioner.gateway.queueing.claim import Claim
from provisioner.gateway.queueing.queue import Place, Queue
from provisioner.gateway.refusal import Refusal

TURNS = 50_000
ROUNDS = 9
FEW, MANY = 500, 50_000
TENANTS = 10
GOAL_SLOT = 3.0
"""At most so many times a semaphore, which knows no order, tenants, persons or depth."""
GOAL_MANY = 3.0
"""Where a hundred times as many wait, leaving takes at most so many times as long: memory is farther away."""

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_ROUTE = Route(alias="chat", tenant="acme", endpoint="ep-1", upstream_model="chat", created_at=_NOW)


class Waiter:
    """Somebody who does nothing with a turn."""

    def begin_turn(self) -> None:
        """It is given."""

    def shed(self, refusal: Refusal) -> None:
        """It is not."""


async def main() -> None:
    """Measure and print."""
    queue, waiter = Queue(Queueing()), Waiter()
    bare = best(lambda: use_semaphore(asyncio.Semaphore(4)), TURNS)
    queue.use(_snapshot())
    none = best(lambda: enter_and_leave(queue, Claim("acme"), waiter), TURNS)
    queue.use(_snapshot(QueueGroup(name="ep-1", slots=4)))
    background = best(lambda: enter_and_leave(queue, Claim("acme"), waiter), TURNS)
    person = Claim("acme", ("acme", "ann@example.com"))
    interactive = best(lambda: enter_and_leave(queue, person, waiter), TURNS)
    print(f"{'us, a request':<34}{'':>8}")
    print(f"{'no queue':<34}{none:>8.2f}")
    print(f"{'a free slot, background':<34}{background:>8.2f}")
    print(f"{'a free slot, interactive':<34}{interactive:>8.2f}")
    print(f"{'asyncio.Semaphore':<34}{bare:>8.2f}")
    few, many = leave_among(queue, FEW, waiter), leave_among(queue, MANY, waiter)
    print(f"{f'leaving among {FEW:,}':<34}{few:>8.2f}")
    print(f"{f'leaving among {MANY:,}':<34}{many:>8.2f}")
    _verdict("a free slot, interactive / semaphore", interactive / bare, GOAL_SLOT)
    _verdict(f"leaving, {MANY:,} / {FEW:,} waiting", many / few, GOAL_MANY)


def best(once: Callable[[], None], turns: int) -> float:
    """Microseconds of one of `turns`, in the best round."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        once()
        times.append(time.perf_counter() - began)
    return min(times) / turns * 1e6


def use_semaphore(semaphore: asyncio.Semaphore) -> None:
    """What a server without a queue of its own would do; `acquire` of a free one never waits."""
    for _ in range(TURNS):
        try:
            semaphore.acquire().send(None)
        except StopIteration:
            semaphore.release()


def enter_and_leave(queue: Queue, claim: Claim, waiter: Waiter) -> None:
    """One request after the other."""
    for _ in range(TURNS):
        queue.enter(_ROUTE, claim, waiter).leave()


def leave_among(queue: Queue, waiting: int, waiter: Waiter) -> float:
    """Microseconds of one who leaves, every second first, so that they leave from the middle too."""
    times = []
    for _ in range(ROUNDS):
        queue.use(_snapshot(QueueGroup(name="ep-1", slots=1, depth=waiting)))
        served = queue.enter(_ROUTE, Claim("acme"), waiter)
        places: list[Place] = [
            queue.enter(_ROUTE, Claim(f"tenant-{number % TENANTS}"), waiter) for number in range(waiting)
        ]
        began = time.perf_counter()
        for place in (*places[::2], *places[1::2]):
            place.leave()
        times.append(time.perf_counter() - began)
        served.leave()
    return min(times) / waiting * 1e6


def _snapshot(*groups: QueueGroup) -> Snapshot:
    return Snapshot(version=1, created_at=_NOW, routes=(_ROUTE,), keys=(), groups=groups)


def _verdict(what: str, ratio: float, goal: float) -> None:
    print(f"{what}: {ratio:.2f} (goal: at most {goal:g}: {'met' if ratio <= goal else 'missed'})")


if __name__ == "__main__":
    asyncio.run(main())

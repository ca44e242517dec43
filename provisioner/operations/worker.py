"""The worker: claims due operations and gives each its turn, several at a time.

A process runs one beside its API, or alone; wiring builds it. It wakes when told of a new operation, when a waiting one
is due, and at every poll for what other processes left. It holds no state: any worker can go on where another stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from random import Random

from provisioner.domain.clock import Clock
from provisioner.domain.errors import InvariantError, RetryableError
from provisioner.domain.operation import Operation
from provisioner.operations.execution import Execution
from provisioner.operations.lease_keeper import LeaseKeeper, Pause
from provisioner.operations.verb import Verbs
from provisioner.store.interface.operations import OperationStore

logger = logging.getLogger(__name__)

CONCURRENCY = 8
POLL_SECONDS = 1.0
LOST = "lost"
"""In the place of a state: another worker took the operation over meanwhile."""


class Worker:
    """Runs operations of the verbs it was given. `holder` names it in leases and must be unique among workers; `turns`
    counts what it did, by verb and by the state in which it let go."""

    def __init__(
        self,
        store: OperationStore,
        verbs: Verbs,
        *,
        clock: Clock,
        holder: str,
        random: Random,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._store = store
        self._verbs = verbs
        self._clock = clock
        self._holder = holder
        self._random = random
        self._pause = pause
        self._woken = asyncio.Event()
        self.turns: Counter[tuple[str, str]] = Counter()

    def wake(self) -> None:
        """Look for due operations now: one was submitted."""
        self._woken.set()

    async def run(self) -> None:
        """Work until cancelled; then let go of every operation, so that another worker goes on at once."""
        slots = asyncio.Semaphore(CONCURRENCY)
        async with asyncio.TaskGroup() as turns:
            while True:
                free = await _acquire_all(slots)
                claimed = await self._claim(free)
                for operation in claimed:
                    turn = turns.create_task(self._execute(operation))
                    turn.add_done_callback(lambda _: slots.release())
                for _ in range(free - len(claimed)):
                    slots.release()
                if not claimed:
                    await self._idle()

    async def work_once(self) -> bool:
        """Give one due operation its turn; False when none is due."""
        claimed = await self._claim(1)
        for operation in claimed:
            await self._execute(operation)
        return bool(claimed)

    async def _claim(self, limit: int) -> list[Operation]:
        try:
            found = await self._store.claim_several(
                self._holder, self._clock.now(), verbs=tuple(self._verbs), limit=limit
            )
        except (RetryableError, InvariantError) as error:
            logger.warning("nothing claimed: %s", error, extra={"action": "claim_missed"})
            return []
        for unreadable in (one for one in found if isinstance(one, InvariantError)):
            logger.warning("claimed and left to its lease: %s", unreadable, extra={"action": "claim_missed"})
        return [one for one in found if isinstance(one, Operation)]

    async def _execute(self, operation: Operation) -> None:
        if operation.lease is None:
            raise InvariantError(f"running an operation: it was claimed without a lease: {operation.id}")
        fence = operation.lease.fence
        execution = Execution(
            operation=operation,
            fence=fence,
            definition=self._verbs[operation.verb],
            keeper=LeaseKeeper(self._store, operation.id, fence, clock=self._clock, pause=self._pause),
            store=self._store,
            clock=self._clock,
            random=self._random,
        )
        turn = await execution.execute()
        self.turns[operation.verb.value, turn.state.value if turn else LOST] += 1
        if turn is None:
            self.wake()  # it may have been cancelled, and goes on in that direction
        elif not turn.state.is_final:
            seconds = (turn.next_attempt_at - self._clock.now()).total_seconds()
            asyncio.get_running_loop().call_later(max(seconds, 0.0), self.wake)

    async def _idle(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._woken.wait()
        self._woken.clear()


async def _acquire_all(slots: asyncio.Semaphore) -> int:
    """Wait for a free slot, then take every one that is free; how many they are."""
    await slots.acquire()
    taken = 1
    while not slots.locked():
        await slots.acquire()
        taken += 1
    return taken

"""Small verbs that note what they do, a worker for them, and a store that fails when told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from provisioner.domain.clock import Clock
from provisioner.domain.errors import RetryableError
from provisioner.domain.ids import OperationId
from provisioner.domain.operation import Operation, Verb
from provisioner.operations.lease_keeper import Pause
from provisioner.operations.step import Attempt, Done, Step, Wait
from provisioner.operations.verb import VerbDefinition, Verbs
from provisioner.operations.worker import Worker
from provisioner.store.interface.operations import OperationStore
from provisioner.store.sql import SqlStore

Run = Callable[[Attempt[Any]], Awaitable[Done | Wait]]


@dataclass
class Notes:
    """What the verbs of a test did."""

    runs: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)


def verbs(notes: Notes, *runs: Run, deadline_seconds: float = 1800) -> Verbs:
    async def on_failed(attempt: Attempt[Notes], reason: str, message: str) -> None:
        attempt.world.failures.append((reason, message))

    steps = tuple(Step(name=run.__name__, run=run) for run in runs)
    definition = VerbDefinition(steps=steps, world=notes, on_failed=on_failed, deadline_seconds=deadline_seconds)
    return {Verb.ENDPOINT_CREATE: definition}


def worker(
    store: OperationStore, verbs: Verbs, clock: Clock, *, holder: str = "a", pause: Pause = asyncio.sleep
) -> Worker:
    return Worker(store, verbs, clock=clock, holder=holder, random=Random(7), pause=pause)


async def stored(store: SqlStore, id_: str = "op-a") -> Operation:
    return await store.operations.get(OperationId(id_))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.005)


async def place(attempt: Attempt[Notes]) -> Done:
    attempt.world.runs.append("place")
    return Done({"commit": "abc"})


async def publish(attempt: Attempt[Notes]) -> Done:
    attempt.world.runs.append(f"publish {attempt.operation.result('place')['commit']}")
    return Done()


class Failing:
    """A store whose named methods find no database, as often as told."""

    def __init__(self, store: OperationStore, *methods: str) -> None:
        self._store = store
        self.methods = list(methods)

    def __getattr__(self, name: str) -> Any:
        if name in self.methods:
            self.methods.remove(name)
            raise RetryableError("using the database: locked", reason="DatabaseUnavailable")
        return getattr(self._store, name)

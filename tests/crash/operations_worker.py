"""A worker process for the kill test: `python -m tests.crash.operations_worker URL FOLDER MOMENT`.

Its verb appends to a file in FOLDER (the outside world, where every effect leaves a line). At MOMENT it says so on
standard output and hangs until it is killed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import SystemRandom

from provisioner.domain.clock import Clock, SystemClock
from provisioner.domain.operation import Verb
from provisioner.operations.step import Attempt, Done, Step
from provisioner.operations.verb import VerbDefinition
from provisioner.operations.worker import Worker
from provisioner.store.interface.operations import OperationStore
from provisioner.store.sql import open_store

MOMENTS = ("before place", "after place", "before publish", "after publish")
CANCEL_MOMENTS = ("before cancel_publish", "after cancel_publish", "before cancel_place", "after cancel_place")


class World:
    """The outside: one file per object, a line in `effects` for each change, and the moment to hang at."""

    def __init__(self, folder: Path, hang_at: str = "") -> None:
        self.folder = folder
        self.hang_at = hang_at

    async def reach(self, moment: str) -> None:
        """Hang here, if this is the moment."""
        if moment == self.hang_at:
            print(moment, flush=True)
            await asyncio.Event().wait()

    def put(self, name: str) -> None:
        """Make the object, once."""
        try:
            os.close(os.open(self.folder / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        with (self.folder / "effects").open("a") as effects:
            effects.write(f"{name}\n")

    def remove(self, name: str) -> None:
        """Make it go, once."""
        try:
            (self.folder / name).unlink()
        except FileNotFoundError:
            return
        with (self.folder / "effects").open("a") as effects:
            effects.write(f"no-{name}\n")

    def effects(self) -> list[str]:
        """Every change so far, in order."""
        return (self.folder / "effects").read_text().split()


def build_worker(store: OperationStore, world: World, *, clock: Clock, holder: str) -> Worker:
    """A worker with the verb of this test."""
    steps = tuple(Step(name=name, run=_step(name)) for name in ("place", "publish"))
    undo = tuple(Step(name=f"cancel_{name}", run=_undo(name)) for name in ("publish", "place"))
    definition = VerbDefinition(steps=steps, world=world, on_failed=_on_failed, cancel_steps=undo)
    return Worker(store, {Verb.ENDPOINT_CREATE: definition}, clock=clock, holder=holder, random=SystemRandom())


def _step(name: str) -> Callable[[Attempt[World]], Awaitable[Done]]:
    async def run(attempt: Attempt[World]) -> Done:
        await attempt.world.reach(f"before {name}")
        await attempt.guard()
        attempt.world.put(name)
        await attempt.world.reach(f"after {name}")
        return Done()

    return run


def _undo(name: str) -> Callable[[Attempt[World]], Awaitable[Done]]:
    async def run(attempt: Attempt[World]) -> Done:
        await attempt.world.reach(f"before cancel_{name}")
        await attempt.guard()
        attempt.world.remove(name)
        await attempt.world.reach(f"after cancel_{name}")
        return Done()

    return run


async def _on_failed(attempt: Attempt[World], reason: str, message: str) -> None:
    raise AssertionError(f"{reason}: {message}")


async def main(url: str, folder: str, moment: str) -> None:
    """Work until killed."""
    clock = SystemClock()
    store = await open_store(url, clock=clock)
    await build_worker(store.operations, World(Path(folder), moment), clock=clock, holder="killed").run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

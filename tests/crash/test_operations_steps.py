"""The engine under kills at every moment, with a small verb that makes, pushes, waits and publishes."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from provisioner.domain.errors import ConflictError, RejectedError
from provisioner.domain.ids import OperationId
from provisioner.domain.lease import Fence
from provisioner.domain.operation import Verb
from provisioner.operations.step import Attempt, Done, Step, Wait
from provisioner.operations.verb import VerbDefinition
from provisioner.store.sql import open_store
from tests.crash.harness import Moments, Start, Trial, assert_cancelled_at_every_moment, assert_survives_every_kill
from tests.store.examples import SteppedClock, operation


class Outside:
    """An outside system with conditional writes: a lower fence is refused, every real change is counted."""

    def __init__(self, clock: SteppedClock) -> None:
        self.clock = clock
        self.objects: dict[str, str] = {}
        self.fences: dict[str, Fence] = {}
        self.changes: list[str] = []

    async def put(self, name: str, value: str, *, fence: Fence) -> None:
        """Make the object so."""
        if fence < self.fences.get(name, 0):
            raise ConflictError(f"writing {name}: over a higher fence", reason="FenceStale")
        self.fences[name] = fence
        if self.objects.get(name) != value:
            self.objects[name] = value
            self.changes.append(f"{name}={value}")

    async def remove(self, name: str, *, fence: Fence) -> None:
        """Make it go; the fence stays."""
        await self.put(name, "", fence=fence)
        del self.objects[name]

    async def append(self, line: str) -> None:
        """Do it once more at every call: what no step may rely on."""
        self.changes.append(line)


async def place(attempt: Attempt[Outside]) -> Done:
    await attempt.guard()
    await attempt.world.put(attempt.operation.subject, "placed", fence=attempt.fence)
    return Done({"name": attempt.operation.subject})


async def await_ready(attempt: Attempt[Outside]) -> Done | Wait:
    if (attempt.world.clock.now() - attempt.operation.created_at).total_seconds() < 3:
        return Wait("NotReady", "not ready yet")
    return Done()


async def publish(attempt: Attempt[Outside]) -> Done:
    name = attempt.operation.result("place")["name"]
    await attempt.guard()
    await attempt.world.put(f"route of {name}", "published", fence=attempt.fence)
    await attempt.guard()
    await attempt.world.put(name, "ready", fence=attempt.fence)
    return Done()


async def append(attempt: Attempt[Outside]) -> Done:
    await attempt.guard()
    await attempt.world.append("once more")
    return Done()


async def cancel_all(attempt: Attempt[Outside]) -> Done:
    for name in list(attempt.world.objects):
        await attempt.guard()
        await attempt.world.remove(name, fence=attempt.fence)
    return Done()


async def refuse(attempt: Attempt[Outside]) -> Done:
    raise RejectedError("placing: there is no such template", reason="TemplateNotFound")


async def tell_failure(attempt: Attempt[Outside], reason: str, message: str) -> None:
    await attempt.guard()
    await attempt.world.put(attempt.operation.subject, f"failed: {reason}", fence=attempt.fence)


async def starting(folder: Path, *runs: Callable[[Attempt[Outside]], Awaitable[Done | Wait]]) -> Start:
    before = await open_store(f"sqlite:///{folder}/store.sqlite", clock=SteppedClock())
    await before.operations.submit(operation())
    await before.close()
    steps = tuple(Step(name=run.__name__, run=run) for run in runs)

    @asynccontextmanager
    async def start(moments: Moments) -> AsyncIterator[Trial]:
        clock = SteppedClock()
        outside = Outside(clock)
        world = moments.around(outside, "put")
        definition = VerbDefinition(
            steps=steps, world=world, on_failed=tell_failure, cancel_steps=(Step(name="cancel_all", run=cancel_all),)
        )
        verbs = {Verb.ENDPOINT_CREATE: definition}

        async def end_state() -> object:
            return outside.objects

        with TemporaryDirectory(dir=folder) as life:
            shutil.copy(folder / "store.sqlite", life)
            store = await open_store(f"sqlite:///{life}/store.sqlite", clock=clock)
            yield Trial(
                store=store.operations,
                clock=clock,
                verbs=verbs,
                operation=OperationId("op-a"),
                end_state=end_state,
                effects=lambda: outside.changes,
            )
            await store.close()

    return start


async def test_killed_at_every_moment_the_end_is_the_same_and_each_effect_happened_once(tmp_path: Path) -> None:
    """Ledger: OPS-07"""
    names = await assert_survives_every_kill(await starting(tmp_path, place, await_ready, publish))
    for moment in ("before place", "after place", "after put", "after publish: guard", "before release"):
        assert moment in names


async def test_killed_at_every_moment_a_failure_is_told_and_ends_as_failed(tmp_path: Path) -> None:
    names = await assert_survives_every_kill(await starting(tmp_path, place, refuse))
    assert "after on_failed" in names


async def test_cancelled_at_every_moment_nothing_is_left(tmp_path: Path) -> None:
    await assert_cancelled_at_every_moment(await starting(tmp_path, place, await_ready, publish))


async def test_cancelling_that_leaves_something_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stays(self: Outside, name: str, *, fence: Fence) -> None:
        if name.startswith("route"):
            await Outside.put(self, name, "", fence=fence)

    monkeypatch.setattr(Outside, "remove", stays)
    with pytest.raises(AssertionError, match="cancelled at moment"):
        await assert_cancelled_at_every_moment(await starting(tmp_path, place, publish))


async def test_step_that_is_not_idempotent_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="killed at moment"):
        await assert_survives_every_kill(await starting(tmp_path, place, append))

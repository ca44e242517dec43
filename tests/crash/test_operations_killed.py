"""SIGKILL of a real worker process in the middle of an operation, and what its successor makes of it."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from provisioner.domain.clock import SystemClock
from provisioner.domain.errors import ConflictError
from provisioner.domain.ids import OperationId
from provisioner.domain.lease import LEASE_SECONDS
from provisioner.domain.operation import OperationState, StepRecord
from provisioner.store.sql import open_store
from tests.crash.operations_worker import CANCEL_MOMENTS, MOMENTS, World, build_worker
from tests.store.examples import operation


class LaterClock:
    """The system's clock after every lease of now has expired."""

    def now(self) -> datetime:
        return SystemClock().now() + timedelta(seconds=LEASE_SECONDS + 1)


async def kill_at(moment: str, url: str, folder: Path) -> None:
    arguments = ("-m", "tests.crash.operations_worker", url, str(folder), moment)
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        assert line.decode().strip() == moment
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("moment", MOMENTS)
async def test_killed_worker_is_succeeded_after_its_lease_and_its_late_write_is_refused(
    moment: str, tmp_path: Path
) -> None:
    """Ledger: OPS-07"""
    url, id_ = f"sqlite:///{tmp_path}/store.sqlite", OperationId("op-a")
    store = await open_store(url, clock=SystemClock())
    await store.operations.submit(operation())
    await kill_at(moment, url, tmp_path)

    left = await store.operations.get(id_)
    assert left.state is OperationState.RUNNING and left.lease and left.lease.holder == "killed"
    world = World(tmp_path)
    assert not await build_worker(store.operations, world, clock=SystemClock(), holder="early").work_once()
    assert await build_worker(store.operations, world, clock=LaterClock(), holder="successor").work_once()

    assert (await store.operations.get(id_)).state is OperationState.SUCCEEDED
    assert world.effects() == ["place", "publish"], "each effect happened once"
    with pytest.raises(ConflictError) as refused:
        await store.operations.record_step(id_, left.lease.fence, StepRecord(name="late"))
    assert refused.value.reason == "FenceStale"
    await store.close()


@pytest.mark.parametrize("moment", CANCEL_MOMENTS)
async def test_killed_worker_of_a_cancel_is_succeeded_and_what_was_made_goes_once(moment: str, tmp_path: Path) -> None:
    """Ledger: OPS-07"""
    url, id_ = f"sqlite:///{tmp_path}/store.sqlite", OperationId("op-a")
    store = await open_store(url, clock=SystemClock())
    await store.operations.submit(operation())
    await kill_at("after publish", url, tmp_path)
    await store.operations.cancel(id_, SystemClock().now(), actor="ops", request_id="req-9")
    await kill_at(moment, url, tmp_path)

    left = await store.operations.get(id_)
    assert left.state is OperationState.CANCELLING and left.lease and left.lease.holder == "killed"
    world = World(tmp_path)
    assert await build_worker(store.operations, world, clock=LaterClock(), holder="successor").work_once()
    assert (await store.operations.get(id_)).state is OperationState.CANCELLED
    assert world.effects() == ["place", "publish", "no-publish", "no-place"], "each effect happened once"
    await store.close()

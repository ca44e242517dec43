"""Usage that goes straight to the control plane: never counted twice, and on the disk as soon as no answer comes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable

import pytest

from provisioner.domain.usage import Outcome
from provisioner.gateway.server import start_gateway
from provisioner.gateway.usage import delivery
from provisioner.gateway.usage.batch import BATCH_RECORDS
from provisioner.gateway.usage.record import json_line
from provisioner.gateway.usage.tally import Tally
from tests.gateway.conftest import Stage, until
from tests.gateway.stub import CREDENTIAL, SteppedClock, make_key, make_route
from tests.gateway.test_accounting import lost, spool, spooled

MANY = 300
"""More than wait for others."""

RECORD = {"tenant": "acme", "endpoint": "ep-1", "key": "ci", "status": 200, "outcome": "ok", "duration_ms": 1.0}


def ending(stage: Stage) -> Callable[[int], None]:
    """What ends so many requests."""
    tally = Tally(stage.clock.now(), 0.0, make_key(), b"/v1/chat/completions", b"id")
    tally.route = make_route(stage.backend)

    def end(number: int) -> None:
        for _ in range(number):
            stage.gateway._accounting.record(tally, Outcome.OK, 1.0)

    return end


def delivery_of(stage: Stage) -> delivery.Delivery:
    """The way to the control plane."""
    [outlet] = stage.gateway._accounting._outlets
    assert isinstance(outlet._sink, delivery.Delivery)
    return outlet._sink


async def counted(stage: Stage, number: int) -> None:
    """Waits until the control plane has counted so many and the gateway knows."""
    await until(lambda: len(stage.plane.records()) == number and not delivery_of(stage)._in_memory)


async def kept(stage: Stage, number: int) -> None:
    """Waits until so many are on the disk."""
    await until(lambda: spooled(spool(stage)) == number)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not delivered is tried again soon."""
    monkeypatch.setattr(delivery, "_FIRST_RETRY_SECONDS", 0.05)


@pytest.fixture
async def stage(stage: Stage) -> Stage:
    """A stage whose gateway has found nothing left from before."""
    await until(lambda: not delivery_of(stage)._is_spooling)
    return stage


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine is no slow control plane."""
    monkeypatch.setattr(delivery, "_IN_MEMORY_SECONDS", 60.0)


@pytest.mark.usefixtures("patience")
async def test_many_records_never_touch_the_disk_while_the_control_plane_answers(stage: Stage) -> None:
    end, wave = ending(stage), 2 * BATCH_RECORDS + 1
    for number in range(1, 4):
        end(wave)
        await counted(stage, number * wave)
    assert not spool(stage).exists()
    assert max(len(records) for records in stage.plane.usage.values()) <= BATCH_RECORDS
    await stage.gateway.close()
    assert not lost(stage.gateway)


@pytest.mark.usefixtures("patience")
async def test_batch_whose_answer_is_cut_off_is_sent_again_under_its_id(stage: Stage) -> None:
    """The control plane has counted it; what comes after it waits behind it, then goes straight again."""
    end = ending(stage)
    stage.plane.usage_cuts = 1
    end(MANY)
    await kept(stage, MANY)
    end(MANY)
    await until(lambda: len(stage.plane.records()) == 2 * MANY and not any(spool(stage).iterdir()))
    assert (stage.plane.batches, len(stage.plane.usage)) == (3, 2)
    spool(stage).rmdir()
    end(MANY)
    await counted(stage, 3 * MANY)
    assert not spool(stage).exists()
    assert not lost(stage.gateway)


async def test_slow_answer_is_awaited_and_what_it_is_for_is_on_the_disk_meanwhile(stage: Stage) -> None:
    stage.plane.usage_waits = asyncio.Event()
    ending(stage)(MANY)
    await kept(stage, MANY)
    assert not stage.plane.usage
    stage.plane.usage_waits.set()
    await until(lambda: len(stage.plane.records()) == MANY and not any(spool(stage).iterdir()))
    assert stage.plane.batches == 1


async def test_records_that_find_others_on_their_way_go_to_the_disk_with_them(stage: Stage) -> None:
    """So nothing is in memory alone for longer than it takes to collect twice."""
    stage.plane.usage_waits = asyncio.Event()
    lines = [json_line({**RECORD, "at": stage.clock.now()})] * MANY
    await delivery_of(stage).write(lines)
    assert not spool(stage).exists()
    await delivery_of(stage).write(lines)
    assert spooled(spool(stage)) == 2 * MANY
    stage.plane.usage_waits.set()
    await counted(stage, 2 * MANY)
    assert not lost(stage.gateway)


async def test_control_plane_that_hangs_fills_the_disk_and_not_the_queue(stage: Stage) -> None:
    """20,000 requests a second for half a second: none is lost, and each is counted once in the end."""
    end, stage.plane.usage_waits = ending(stage), asyncio.Event()
    for number in range(1, 6):
        end(2 * BATCH_RECORDS)
        await kept(stage, number * 2 * BATCH_RECORDS)
    assert stage.plane.batches == 1
    stage.plane.usage_waits.set()
    await stage.gateway.close()
    assert len(stage.plane.records()) == 10 * BATCH_RECORDS
    assert not any(spool(stage).iterdir())
    assert not lost(stage.gateway)


async def test_what_cannot_be_delivered_at_the_end_waits_for_the_next_start(stage: Stage) -> None:
    end, stage.plane.usage_status = ending(stage), 503
    end(MANY)
    await stage.gateway.close()
    assert spooled(spool(stage)) == MANY
    stage.plane.usage_status = 200
    stage.gateway = await start_gateway(stage.config, clock=SteppedClock())
    await until(lambda: not any(spool(stage).iterdir()))
    assert len(stage.plane.records()) == MANY
    assert len(stage.plane.usage) == 1


async def test_disk_that_takes_nothing_costs_no_batch_that_the_control_plane_takes_in_the_end(stage: Stage) -> None:
    end, stage.plane.usage_cuts = ending(stage), 1
    spool(stage).touch()
    end(MANY)
    await until(lambda: stage.gateway._path.counters.usage_failures["SpoolUnwritable"] > 0)
    await until(lambda: stage.plane.batches == 2)
    assert len(stage.plane.records()) == MANY
    assert not lost(stage.gateway)


async def test_few_records_that_the_disk_does_not_take_go_to_the_control_plane_all_the_same(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_PACE_SECONDS", 0.01)
    end = ending(stage)
    spool(stage).touch()
    for number in range(1, 4):
        end(2)
        await counted(stage, 2 * number)
    assert not lost(stage.gateway)


async def test_as_many_wait_in_memory_as_there_is_room_for_while_the_disk_takes_none(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_UNSPOOLED_RECORDS", 5)
    stage.plane.usage_status = 503
    spool(stage).touch()
    line = json_line({**RECORD, "at": stage.clock.now()})
    await delivery_of(stage).write([line] * 8)
    assert lost(stage.gateway) == {"SpoolUnwritable": 3}
    spool(stage).unlink()
    await delivery_of(stage).write([line])
    await kept(stage, 6)
    stage.plane.usage_status = 200
    await until(lambda: len(stage.plane.records()) == 6)


async def test_what_neither_the_control_plane_nor_the_disk_takes_at_the_end_is_counted_as_lost(stage: Stage) -> None:
    end, stage.plane.usage_status = ending(stage), 503
    spool(stage).touch()
    end(MANY)
    await stage.gateway.close()
    assert lost(stage.gateway) == {"SpoolUnwritable": MANY}


@pytest.mark.usefixtures("patience")
async def test_batches_of_processes_that_have_ended_are_found_while_others_go_straight_and_while_none_do(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(delivery, "_PACE_SECONDS", 0.05)
    end = ending(stage)
    end(MANY)
    await counted(stage, MANY)
    spool(stage).mkdir()
    (spool(stage) / "left.batch").write_bytes(json_line({**RECORD, "at": stage.clock.now()}))
    end(MANY)
    await until(lambda: "left" in stage.plane.usage)
    await counted(stage, 2 * MANY + 1)
    await until(lambda: not delivery_of(stage)._is_spooling)
    (spool(stage) / "later.batch").write_bytes(json_line({**RECORD, "at": stage.clock.now()}))
    await until(lambda: "later" in stage.plane.usage)


PROCESS = """
import asyncio, sys
from pathlib import Path
from provisioner.gateway.config import ControlPlane
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.usage.delivery import Delivery
from provisioner.gateway.usage.spool import Spool

async def main(url, credential, folder):
    control = ControlPlane(url=url, credential=credential, snapshot_file=Path(folder) / "snapshot.json")
    delivery = Delivery(control, Spool(Path(folder) / "usage", limit_bytes=10**8), Counters())
    running = asyncio.create_task(delivery.run())
    await asyncio.sleep(0.1)
    await delivery.write([sys.stdin.readline().encode()] * 300)
    await running

asyncio.run(main(*sys.argv[1:]))
"""


async def test_batch_on_its_way_when_its_gateway_is_killed_is_counted_once(stage: Stage) -> None:
    """kill -9 while the control plane counts: the next gateway sends the batch again, under the same id."""
    await stage.gateway.close()
    stage.plane.usage_waits = asyncio.Event()
    folder = stage.snapshot_file.parent
    command = (sys.executable, "-c", PROCESS, stage.plane.url, CREDENTIAL, str(folder))
    running = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE)
    assert running.stdin is not None
    running.stdin.write(json_line({**RECORD, "at": stage.clock.now()}))
    try:
        await until(lambda: spooled(folder / "usage") == MANY, 60)
    finally:
        running.kill()
        await running.wait()
    assert stage.plane.batches == 1
    stage.plane.usage_waits.set()
    stage.gateway = await start_gateway(stage.config, clock=SteppedClock())
    await until(lambda: not any((folder / "usage").iterdir()))
    assert stage.plane.batches == 2
    assert len(stage.plane.records()) == MANY

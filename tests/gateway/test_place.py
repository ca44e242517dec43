"""When a request frees its slot: with the last byte of its answer, or at once when its caller leaves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from provisioner.domain.snapshot import QueueGroup
from provisioner.gateway.operator.demand import waiting
from tests.bound import within
from tests.gateway.conftest import Stage, until
from tests.gateway.stub import Received, make_route, make_snapshot
from tests.gateway.test_stream import REQUEST, STREAM, chunk

GOOD_TIME_SECONDS = 0.1


@pytest.fixture
async def one_slot(stage: Stage) -> AsyncIterator[Stage]:
    """A stage whose replica answers one request at a time."""
    route = make_route(stage.backend)
    group = QueueGroup(name="one", slots=1)
    snapshot = replace(make_snapshot(replace(route, group="one"), version=3), groups=(group,))
    await stage.publish(snapshot)
    yield stage


@contextlib.asynccontextmanager
async def caller(stage: Stage) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection on which a request was sent; it reads little ahead."""
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port, limit=65_536)
    writer.write(REQUEST)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def test_slow_reader_keeps_its_slot_until_the_last_byte_is_copied(one_slot: Stage) -> None:
    """ADM-06."""
    stage, size = one_slot, 30_000_000

    async def large(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // 100_000):
            writer.write(bytes(100_000))
            await writer.drain()

    stage.replica.script = large
    async with caller(stage) as (reader, _):
        await reader.readuntil(b"\r\n\r\n")
        async with caller(stage):
            await until(lambda: any(one.is_slow for one in stage.connections))
            read = 0
            while read < size:
                assert len(stage.replica.received) == 1 or size - read < 8_000_000
                read += len(await reader.read(1_000_000))
            await until(lambda: len(stage.replica.received) == 2)


@pytest.mark.parametrize("phase", ["waiting", "silent", "streaming", "slow"])
async def test_caller_who_leaves_frees_its_place_at_once(one_slot: Stage, phase: str) -> None:
    """GW-17: in well under 100 ms, whatever is going on."""
    stage = one_slot

    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        if phase in ("streaming", "slow"):
            writer.write(STREAM)
        while phase in ("streaming", "slow"):
            writer.write(chunk(bytes(100_000 if phase == "slow" else 10)))
            await writer.drain()
            await asyncio.sleep(0 if phase == "slow" else 0.01)
        await asyncio.sleep(60)

    stage.replica.script = script
    async with caller(stage) as (_, first):
        await until(lambda: len(stage.replica.received) == 1)
        if phase == "slow":
            await until(lambda: any(one.is_slow for one in stage.connections))
        async with caller(stage) as (_, second):
            await until(lambda: sum(waiting(stage.gateway._path).values()) == 1)
            leaver = second if phase == "waiting" else first
            leaver.transport.abort()
            async with within(GOOD_TIME_SECONDS):
                if phase == "waiting":
                    await until(lambda: sum(waiting(stage.gateway._path).values()) == 0)
                else:
                    await until(lambda: len(stage.replica.received) == 2)

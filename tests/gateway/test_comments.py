"""Comments that keep a silent stream of events open, and a dead one not."""

from __future__ import annotations

import asyncio

from provisioner.gateway.server import Limits
from tests.gateway.conftest import StageMaker
from tests.gateway.stub import Received
from tests.gateway.test_stream import REQUEST, STREAM, chunk


async def send_event(writer: asyncio.StreamWriter, go_on: asyncio.Event) -> None:
    """Begins a stream with one event and is silent until it may go on."""
    writer.write(STREAM + chunk(b"data: 1\n\n"))
    await writer.drain()
    await go_on.wait()


async def test_silent_stream_is_kept_open_by_comments_between_events_only(make_stage: StageMaker) -> None:
    go_on = asyncio.Event()

    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        await send_event(writer, go_on)
        writer.write(chunk(b"data: "))
        await writer.drain()
        await asyncio.sleep(0.8)
        writer.write(chunk(b"2\n\n") + b"0\r\n\r\n")

    async with make_stage(limits=Limits(comment_seconds=0.2, drain_seconds=0.2)) as stage:
        stage.replica.script = script
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
        writer.write(REQUEST)
        for _ in range(2):
            await asyncio.wait_for(reader.readuntil(chunk(b": keep-alive\n\n")), 30)
        go_on.set()
        rest = await asyncio.wait_for(reader.readuntil(b"\r\n0\r\n\r\n"), 30)
        assert rest.endswith(chunk(b"data: ") + chunk(b"2\n\n") + b"0\r\n\r\n")
        writer.close()


async def test_stream_that_ends_with_the_connection_is_kept_open_too(make_stage: StageMaker) -> None:
    go_on = asyncio.Event()

    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        await send_event(writer, go_on)
        writer.write(b"0\r\n\r\n")

    async with make_stage(limits=Limits(comment_seconds=0.05, drain_seconds=0.2)) as stage:
        stage.replica.script = script
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
        writer.write(REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0"))
        await asyncio.wait_for(reader.readuntil(b"data: 1\n\n: keep-alive\n\n"), 30)
        go_on.set()
        await asyncio.wait_for(reader.read(), 30)
        writer.close()


async def test_comments_do_not_keep_a_dead_stream_alive(make_stage: StageMaker) -> None:
    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        await send_event(writer, asyncio.Event())

    limits = Limits(comment_seconds=0.2, silence_seconds=0.9, drain_seconds=0.2)
    async with make_stage(limits=limits) as stage:
        stage.replica.script = script
        received = await stage.raw(REQUEST, wait=5)
        assert received.count(b": keep-alive") >= 1
        assert b"event: error" in received
        assert b"upstream_timeout" in received
        assert not received.endswith(b"0\r\n\r\n")

"""Answers as they flow: flushed at once, no faster than the caller reads, and ended when the caller leaves."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import replace

import openai
import pytest

from provisioner.gateway.server import Limits
from tests.bound import within
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.stub import SECRET, Received, make_route, make_snapshot

BODY = b'{"model":"chat"}'
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-API-Key: %b\r\nContent-Length: 16\r\n\r\n%b" % (
    SECRET.encode(),
    BODY,
)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def stream_for_ever(request: Received, writer: asyncio.StreamWriter) -> None:
    """Sends events until the other side is gone."""
    writer.write(STREAM)
    while True:
        writer.write(chunk(b"data: {}\n\n"))
        await writer.drain()
        await asyncio.sleep(0.01)


async def test_events_reach_the_caller_one_by_one(stage: Stage) -> None:
    """Ledger: GW-06."""
    arrived = asyncio.Semaphore(0)

    async def stream(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM)
        for number in range(20):
            writer.write(chunk(b"data: %d\n\n" % number))
            await arrived.acquire()
        writer.write(b"0\r\n\r\n")

    stage.replica.script = stream
    headers = {"X-API-Key": SECRET}
    seen = []
    async with (
        asyncio.timeout(30),
        stage.http.post(f"{stage.url}/v1/chat/completions", data=BODY, headers=headers) as answer,
    ):
        async for piece in answer.content.iter_any():
            seen.append(piece)
            arrived.release()
    assert seen == [b"data: %d\n\n" % number for number in range(20)]


async def test_replica_sees_within_a_second_that_the_caller_has_left(stage: Stage) -> None:
    """Ledger: GW-17."""
    stage.replica.script = stream_for_ever
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    writer.write(REQUEST)
    await reader.readuntil(b"data: {}")
    writer.close()
    async with within(1):
        await stage.replica.left.wait()
    await until(lambda: stage.gateway._path.counters.caller_left == 1)


async def test_replica_sees_that_the_caller_left_before_the_answer_began(stage: Stage) -> None:
    """Ledger: GW-17."""

    async def silent(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    stage.replica.script = silent
    _, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    writer.write(REQUEST + REQUEST[:30])
    await until(lambda: len(stage.replica.received) == 1)
    writer.transport.abort()
    async with within(1):
        await stage.replica.left.wait()


async def test_slow_caller_slows_the_replica_and_costs_no_memory(stage: Stage) -> None:
    sent = 0

    async def flood(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(STREAM)
        for _ in range(1000):
            writer.write(chunk(b"x" * 65_536))
            await writer.drain()
            sent += 65_536
        writer.write(b"0\r\n\r\n")

    stage.replica.script = flood
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port, limit=65_536)
    writer.write(REQUEST)
    await reader.readexactly(1000)
    await until(lambda: sent > 0)
    before = -1
    while before != sent:
        before = sent
        await asyncio.sleep(0.2)
    assert sent < 40_000_000
    connection = stage.connections[0]
    assert connection._transport.get_write_buffer_size() < 2_000_000
    received = 1000
    while piece := await asyncio.wait_for(reader.read(1_000_000), 30):
        received += len(piece)
        if received > 1000 * 65_536 and piece.endswith(b"0\r\n\r\n"):
            break
    assert sent == 1000 * 65_536
    writer.close()


async def test_coded_content_passes_undecoded(stage: Stage) -> None:
    content = gzip.compress(json.dumps({"x": "y" * 10_000}).encode())

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head + chunk(content[:10]) + chunk(content[10:]) + b"0\r\nX-Trailer: 1\r\n\r\n")

    stage.replica.script = answer
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    writer.write(REQUEST)
    received = await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 30)
    assert chunk(content) in received or chunk(content[:10]) + chunk(content[10:]) in received
    assert b"Trailer" not in received
    assert b"content-encoding: gzip" in received.lower()
    writer.close()


async def test_caller_with_http_1_0_gets_a_stream_without_chunks(stage: Stage) -> None:
    async def stream(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + chunk(b"one") + chunk(b"two") + b"0\r\n\r\n")

    stage.replica.script = stream
    received = await stage.raw(REQUEST.replace(b"HTTP/1.1\r\n", b"HTTP/1.0\r\nConnection: keep-alive\r\n"))
    head, _, body = received.partition(b"\r\n\r\n")
    assert body == b"onetwo"
    assert b"connection: close" in head
    assert b"chunked" not in head


async def test_answer_that_ends_with_the_replica_s_connection_is_complete(stage: Stage) -> None:
    async def old(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhello")
        await writer.drain()
        writer.close()

    stage.replica.script = old
    answer = await stage.chat()
    assert (answer.status, answer.body) == (200, b"hello")
    assert (await stage.chat()).status == 200


async def test_answer_that_breaks_off_is_broken_off_for_the_caller_too(stage: Stage) -> None:
    async def broken(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + chunk(b"data: 1\n\n"))
        await writer.drain()
        writer.transport.abort()

    stage.replica.script = broken
    received = await stage.raw(REQUEST)
    assert b"data: 1" in received
    assert not received.endswith(b"0\r\n\r\n")


async def test_stream_that_falls_silent_is_broken_off(make_stage: StageMaker) -> None:
    async def silent(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + chunk(b"data: 1\n\n"))
        await writer.drain()
        await asyncio.sleep(60)

    async with make_stage(limits=Limits(silence_seconds=0.4, drain_seconds=0.2)) as stage:
        stage.replica.script = silent
        received = await stage.raw(REQUEST, wait=5)
        assert b"data: 1" in received
        assert not received.endswith(b"0\r\n\r\n")
        async with within(1):
            await stage.replica.left.wait()


@pytest.mark.parametrize("start", [b"0\r\nX: ", b"2\r\n{}\r\n0\r\n", b"2;"], ids=["trailer", "trailers", "extension"])
async def test_framing_of_a_replica_that_does_not_end_is_bounded(stage: Stage, start: bytes) -> None:
    sent = 0

    async def endless(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(STREAM + start)
        while True:
            writer.write(b"X: " + b"a" * 10_000 + b"\r\n" if b"{}" in start else b"a" * 10_000)
            await writer.drain()
            sent += 10_000

    stage.replica.script = endless
    received = await stage.raw(REQUEST.replace(b"Host: a", b"Host: a\r\nConnection: close"), wait=5)
    assert not received.endswith(b"0\r\n\r\n")
    async with within(1):
        await stage.replica.left.wait()
    assert sent < 20_000_000
    assert stage.gateway._path.counters.upstream_failures == {"HeaderTooLarge": 1}


async def test_caller_that_never_reads_is_broken_off_and_the_replica_is_not_blamed(make_stage: StageMaker) -> None:
    async def flood(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM)
        while True:
            writer.write(chunk(b"x" * 65_536))
            await writer.drain()

    async with make_stage(limits=Limits(silence_seconds=0.4, drain_seconds=0.2)) as stage:
        stage.replica.script = flood
        _, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port, limit=1024)
        writer.write(REQUEST)
        async with asyncio.timeout(30):
            await stage.replica.left.wait()
        counters = stage.gateway._path.counters
        assert (counters.caller_left, dict(counters.upstream_failures)) == (1, {})
        writer.transport.abort()


async def test_interim_answers_of_the_replica_are_not_passed_on(stage: Stage) -> None:
    async def hints(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    stage.replica.script = hints
    received = await stage.raw(REQUEST, wait=0.3)
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Link" not in received


async def stop_after(stage: Stage, *pieces: bytes) -> None:
    """Lets the replica send these bytes and break off."""

    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)
        writer.transport.abort()

    stage.replica.script = script


async def test_stream_of_events_that_breaks_off_ends_with_an_error_event_and_the_break(stage: Stage) -> None:
    await stop_after(stage, STREAM + chunk(b"data: 1\n\n"))
    received = await stage.raw(REQUEST)
    body = received.partition(b"\r\n\r\n")[2]
    assert body.startswith(chunk(b"data: 1\n\n"))
    event = body[len(chunk(b"data: 1\n\n")) :].split(b"\r\n")[1]
    assert event.startswith(b"event: error\ndata: {")
    assert json.loads(event.partition(b"data: ")[2])["error"]["code"] == "upstream_failed"
    assert event.endswith(b"\n\n")
    assert not body.endswith(b"0\r\n\r\n")


async def test_error_event_is_an_error_to_the_official_client(stage: Stage) -> None:
    await stop_after(stage, STREAM + chunk(b'data: {"choices":[]}\n\n'))
    async with openai.AsyncOpenAI(base_url=f"{stage.url}/v1", api_key=SECRET, max_retries=0) as client:
        stream = await client.chat.completions.create(model="chat", messages=[], stream=True)
        with pytest.raises(openai.APIError, match="broke off"):
            async for _ in stream:
                pass


@pytest.mark.parametrize(
    "pieces",
    [
        (STREAM + chunk(b"data: 1\n\ndata: {"),),
        (STREAM.replace(b"text/event-stream", b"text/plain") + chunk(b"data: 1\n\n"),),
        (STREAM.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n") + chunk(b"data: 1\n\n"),),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100\r\n\r\ndata: 1\n\n",),
    ],
    ids=["amid-an-event", "no-events", "compressed", "length", "events-of-a-length"],
)
async def test_answer_that_breaks_off_where_nothing_can_be_said_is_only_broken_off(
    stage: Stage, pieces: tuple[bytes, ...]
) -> None:
    await stop_after(stage, *pieces)
    received = await stage.raw(REQUEST)
    assert b"200 OK" in received
    assert b"event: error" not in received
    assert not received.endswith(b"0\r\n\r\n")


async def test_break_is_seen_where_the_end_of_the_connection_would_end_the_answer(stage: Stage) -> None:
    await stop_after(stage, STREAM.replace(b"text/event-stream", b"text/plain") + chunk(b"part"))
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    writer.write(REQUEST.replace(b"HTTP/1.1\r\n", b"HTTP/1.0\r\n"))
    with pytest.raises(ConnectionResetError):
        async with asyncio.timeout(30):
            while await reader.read(1000):
                pass
    writer.transport.abort()


async def test_answer_that_has_no_body_tells_no_length(stage: Stage) -> None:
    """RFC 9110, 8.6."""

    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\nConnection: close\r\n\r\n")

    stage.replica.script = script
    received = await stage.raw(REQUEST.replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n"))
    assert received.startswith(b"HTTP/1.1 204 ")
    assert b"content-length" not in received


@pytest.mark.parametrize(
    ("te", "passed"), [(b"TE: deflate, trailers\r\n", True), (b"TE: deflate\r\n", False), (b"", False)]
)
async def test_trailers_reach_a_caller_who_takes_them(stage: Stage, te: bytes, passed: bool) -> None:
    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        fields = b"X-Checksum: 1\r\nSet-Cookie: a=b\r\nContent-Encoding: gzip\r\nX-Request-ID: theirs\r\n"
        writer.write(STREAM + chunk(b"data: 1\n\n") + b"0\r\n" + fields + b"\r\n")

    stage.replica.script = script
    received = await stage.raw(REQUEST.replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n" + te))
    assert received.endswith(b"\r\n0\r\nx-checksum: 1\r\n\r\n" if passed else b"\r\n0\r\n\r\n")
    assert stage.replica.received[0].header("te") is None


async def test_large_body_that_is_answered_early_frees_the_connection_for_nobody_else(stage: Stage) -> None:
    """What the replica had not read of one request must not begin the next one."""
    early = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Large\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        await early.wait()
        writer.transport.abort()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1000)
    try:
        backend = replace(stage.backend, address=f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await stage.publish(make_snapshot(make_route(backend), version=3))
        body = b'{"model":"chat","x":"' + b"x" * 14_000_000 + b'"}'
        received = await stage.raw(REQUEST.replace(BODY, body).replace(b"Length: 16", b"Length: %d" % len(body)))
        assert received.startswith(b"HTTP/1.1 413 ")
        assert received.endswith(b"{}")
        assert stage.gateway._path.pool._idle == {}
    finally:
        early.set()
        server.close()

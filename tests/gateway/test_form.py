"""Forms are sent on while they arrive: as soon as the model is known, and no faster than the replica takes them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tracemalloc
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import pytest

from provisioner.domain.snapshot import Backend
from provisioner.gateway.server import Limits
from tests.bound import within
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.stub import OK, SECRET, make_route, make_snapshot
from tests.gateway.test_http import statuses

MODEL = b'--xx\r\nContent-Disposition: form-data; name="model"\r\n\r\nchat\r\n'
FILE = b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
END = b"\r\n--xx--\r\n"
RENAMED = MODEL.replace(b"chat", b"served/chat")


def head(framing: bytes) -> bytes:
    """The header block of a transcription; `framing` is its last field."""
    start = b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nX-API-Key: %b\r\n" % SECRET.encode()
    return start + b"Content-Type: multipart/form-data; boundary=xx\r\n" + framing + b"\r\n\r\n"


def sized(length: int) -> bytes:
    """The header block of a transcription of this length."""
    return head(b"Content-Length: %d" % length)


@dataclass(slots=True, repr=False, eq=False)
class Taker(asyncio.Protocol):
    """A replica that shows what has arrived so far, and can stop reading."""

    received: bytearray = field(default_factory=bytearray)
    count: int = 0
    connections: int = 0
    transports: list[asyncio.Transport] = field(default_factory=list)
    has_ended: bool = False
    on_data: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The gateway has connected."""
        self.transports.append(cast("asyncio.Transport", transport))
        self.connections += 1

    def data_received(self, data: bytes) -> None:
        """Notes what came."""
        self.count += len(data)
        if len(self.received) < 1_000_000:
            self.received += data
        self.on_data()

    def connection_lost(self, exc: Exception | None) -> None:
        """The gateway has gone."""
        self.has_ended = True


@dataclass(slots=True, repr=False, eq=False)
class Scene:
    """A gateway in front of a taker, and one caller."""

    stage: Stage
    taker: Taker
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self) -> bytes:
        """What the caller gets until the connection ends, or for two seconds."""
        received = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with within(2):
                while piece := await self.reader.read(65_536):
                    received += piece
        return received


@pytest.fixture
def make_scene(make_stage: StageMaker) -> Callable[..., contextlib.AbstractAsyncContextManager[Scene]]:
    """Builds a scene with other limits."""

    @contextlib.asynccontextmanager
    async def build(limits: Limits | None = None) -> AsyncIterator[Scene]:
        limits = limits or Limits(drain_seconds=0.2)
        taker = Taker()
        server = await asyncio.get_running_loop().create_server(lambda: taker, "127.0.0.1", 0)
        async with make_stage(limits=limits) as stage:
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            backend = Backend(host="r0.acme.example.com", address=address, tls=False)
            await stage.publish(make_snapshot(make_route(backend), version=3))
            reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
            try:
                yield Scene(stage, taker, reader, writer)
            finally:
                writer.transport.abort()
                for transport in taker.transports:
                    transport.abort()
                server.close()

    return build


SceneMaker = Callable[..., contextlib.AbstractAsyncContextManager[Scene]]


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
async def test_file_is_passed_on_as_it_comes_once_the_model_is_known(make_scene: SceneMaker, is_chunked: bool) -> None:
    pieces = [MODEL + FILE, b"one", b"two" * 50_000, END]
    async with make_scene() as scene:
        scene.writer.write(head(b"Transfer-Encoding: chunked") if is_chunked else sized(sum(map(len, pieces))))
        for number, piece in enumerate(pieces):
            scene.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
            last = pieces[number].replace(MODEL, RENAMED)[-4:] + (b"\r\n" if is_chunked else b"")
            await until(partial(scene.taker.received.endswith, last))
        if is_chunked:
            scene.writer.write(b"0\r\n\r\n")
            await until(lambda: scene.taker.received.endswith(b"0\r\n\r\n"))
            assert b"transfer-encoding: chunked" in scene.taker.received
        else:
            length = sum(map(len, pieces)) + len(b"served/")
            assert b"content-length: %d\r\n\r\n" % length in scene.taker.received
            assert scene.taker.received.endswith(b"".join(pieces).replace(MODEL, RENAMED))
        scene.taker.transports[0].write(OK)
        scene.writer.write(b"GET /v1/models HTTP/1.1\r\nHost: a\r\nX-API-Key: %b\r\n\r\n" % SECRET.encode())
        assert statuses(await scene.answer()) == [200, 200]
        assert scene.stage.gateway._path.body_memory.held_bytes == 0


async def test_nothing_is_sent_before_the_model_is_known_and_memory_stays_flat(make_scene: SceneMaker) -> None:
    async with make_scene(Limits(body_bytes=50_000_000, drain_seconds=0.2)) as scene:
        memory = scene.stage.gateway._path.body_memory
        piece, count = os.urandom(65_536), 400
        body_bytes = len(FILE) + count * len(piece) + 2 + len(MODEL) + len(b"--xx--\r\n")
        tracemalloc.start()
        scene.writer.write(sized(body_bytes) + FILE)
        for _ in range(count):
            scene.writer.write(piece)
            await scene.writer.drain()
            assert memory.held_bytes <= 1024 * 1024
        assert scene.taker.connections == 0
        scene.writer.write(b"\r\n" + MODEL)
        await asyncio.sleep(0)
        scene.writer.write(b"--xx--\r\n")
        await until(lambda: scene.taker.count > body_bytes)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < 8_000_000
        scene.taker.transports[0].write(OK)
        assert statuses(await scene.answer()) == [200]


async def test_replica_that_does_not_read_stops_the_caller(make_scene: SceneMaker) -> None:
    async with make_scene(Limits(body_bytes=500_000_000, drain_seconds=0.2)) as scene:
        scene.taker.on_data = lambda: scene.taker.transports[0].pause_reading()
        scene.writer.write(sized(400_000_000) + MODEL + FILE)
        sent = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.5):
                while sent < 399_000_000:
                    scene.writer.write(bytes(1_000_000))
                    await scene.writer.drain()
                    sent += 1_000_000
        assert sent < 40_000_000
        assert scene.stage.gateway._path.body_memory.held_bytes <= 1024 * 1024 + 65_536
        scene.taker.on_data = lambda: None
        scene.taker.transports[0].resume_reading()
        async with asyncio.timeout(20):
            while sent < 100_000_000:
                scene.writer.write(bytes(1_000_000))
                await scene.writer.drain()
                sent += 1_000_000


@pytest.mark.parametrize("closes", [False, True])
async def test_answer_that_comes_before_the_form_is_whole_reaches_the_caller(
    make_scene: SceneMaker, closes: bool
) -> None:
    async with make_scene() as scene:
        scene.writer.write(sized(10_000_000) + MODEL + FILE)
        await until(lambda: scene.taker.count > 0)
        body = b'{"error":{"code":"too_large"}}'
        fields = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
        scene.taker.transports[0].write(b"HTTP/1.1 413 Large\r\n" + fields + b"\r\n" + body)
        if closes:
            scene.taker.transports[0].close()
        for _ in range(20):
            scene.writer.write(bytes(10_000))
            await asyncio.sleep(0.005)
        received = await scene.answer()
        assert statuses(received) == [413]
        assert b"connection: close" in received
        assert received.endswith(body)
        await until(lambda: scene.taker.has_ended)


async def test_second_model_is_400_and_the_replica_is_left(make_scene: SceneMaker) -> None:
    async with make_scene() as scene:
        body = MODEL + FILE + b"x" * 1000 + b"\r\n" + MODEL + END[2:]
        scene.writer.write(sized(len(body)) + body[:500])
        await until(lambda: scene.taker.count > 0)
        scene.writer.write(body[500:])
        received = await scene.answer()
        assert statuses(received) == [400]
        assert b'"code": "invalid_body"' in received
        assert b"connection: close" in received
        await until(lambda: scene.taker.has_ended)
        assert b"twice" in received


@pytest.mark.parametrize(
    ("rest", "status"),
    [(b"zz\r\n", 400), (b"186a1\r\n" + b"x" * 100_001 + b"\r\n", 413), (b"4\r\n\r\n--\r\n0\r\n\r\n", 400)],
    ids=["chunk", "too-long", "cut"],
)
async def test_form_that_goes_wrong_on_its_way_is_refused(make_scene: SceneMaker, rest: bytes, status: int) -> None:
    async with make_scene(Limits(body_bytes=100_000, drain_seconds=0.2)) as scene:
        start = MODEL + FILE
        scene.writer.write(head(b"Transfer-Encoding: chunked") + b"%x\r\n%b\r\n" % (len(start), start))
        await until(lambda: scene.taker.count > 0)
        scene.writer.write(rest)
        assert statuses(await scene.answer()) == [status]
        await until(lambda: scene.taker.has_ended)
        assert not scene.taker.received.endswith(b"0\r\n\r\n")


async def test_form_without_its_end_is_refused_in_one_piece_as_in_many(make_scene: SceneMaker) -> None:
    async with make_scene() as scene:
        body = MODEL + FILE + b"x" * 100
        scene.writer.write(sized(len(body)) + body)
        received = await scene.answer()
        assert statuses(received) == [400]
        assert b'"code": "invalid_body"' in received
        assert not scene.taker.count


async def test_form_for_an_unknown_model_is_refused_while_it_is_sent(make_scene: SceneMaker) -> None:
    async with make_scene() as scene:
        scene.writer.write(sized(10_000_000) + MODEL.replace(b"chat", b"nobody") + FILE + bytes(100_000))
        received = await scene.answer()
        assert statuses(received) == [404]
        assert b"connection: close" in received


async def test_caller_who_stops_sending_is_408_and_the_replica_is_not_blamed(make_scene: SceneMaker) -> None:
    async with make_scene(Limits(body_seconds=0.3, drain_seconds=0.2)) as scene:
        scene.writer.write(sized(1000) + MODEL + FILE)
        assert statuses(await scene.answer()) == [408]
        await until(lambda: scene.taker.has_ended)
        assert scene.stage.gateway._path.counters.upstream_failures == {}


async def test_caller_who_drips_is_408_in_the_end_and_holds_no_slot(make_scene: SceneMaker) -> None:
    async with make_scene(Limits(body_seconds=5, body_total_seconds=0.5, drain_seconds=0.2)) as scene:
        scene.writer.write(sized(1000) + MODEL + FILE)
        answer = asyncio.create_task(scene.answer())
        while not answer.done():
            scene.writer.write(b"x")
            await asyncio.sleep(0.02)
        assert statuses(await answer) == [408]
        await until(lambda: scene.taker.has_ended)


async def test_replica_that_takes_nothing_is_504(make_scene: SceneMaker) -> None:
    async with make_scene(Limits(body_seconds=0.4, body_bytes=100_000_000, drain_seconds=0.2)) as scene:
        scene.taker.on_data = lambda: scene.taker.transports[0].pause_reading()
        scene.writer.write(sized(50_000_000) + MODEL + FILE + bytes(30_000_000))
        assert statuses(await scene.answer()) == [504]


async def test_caller_who_leaves_while_sending_ends_the_replica_s_work_at_once(make_scene: SceneMaker) -> None:
    """GW-17."""
    async with make_scene() as scene:
        scene.writer.write(sized(1000) + MODEL + FILE)
        await until(lambda: scene.taker.count > 0)
        scene.writer.close()
        async with within(0.1):
            await until(lambda: scene.taker.has_ended)
        assert scene.stage.gateway._path.counters.caller_left == 1


async def test_form_whose_sender_waits_to_be_told_to_go_on(make_scene: SceneMaker) -> None:
    async with make_scene() as scene:
        scene.writer.write(head(b"Expect: 100-continue\r\nContent-Length: %d" % len(MODEL + FILE + END)))
        assert await scene.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        scene.writer.write(MODEL + FILE + END)
        await until(lambda: scene.taker.received.endswith(END))
        scene.taker.transports[0].write(OK)
        assert statuses(await scene.answer()) == [200]

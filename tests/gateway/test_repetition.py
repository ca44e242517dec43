"""Requests that repeat the header block of an earlier one mean what they would mean alone, however they arrive."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from provisioner.gateway.server import Limits
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.stub import NOW, SECRET, make_key, make_route, make_snapshot

START = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-API-Key: %b\r\n" % SECRET.encode()
BODIES = [b'{"model":"chat","n":%d}' % (10**power) for power in range(4)]


def request(body: bytes, *, start: bytes = START, more: bytes = b"") -> bytes:
    """A whole request; the length stands between other fields."""
    return start + b"Content-Length: %d\r\nAccept: */*\r\n%b\r\n%b" % (len(body), more, body)


class Line:
    """One kept connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, *pieces: bytes) -> int:
        """Sends the pieces in separate reads of the gateway, and gives the status of the answer."""
        for piece in pieces:
            self._writer.write(piece)
            await asyncio.sleep(0.01)
        return await self.status()

    async def status(self) -> int:
        """The status of the next answer."""
        async with asyncio.timeout(30):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            await self._reader.readexactly(int(length[1]) if length else 0)
        return int(head[9:12])


@asynccontextmanager
async def line(stage: Stage) -> AsyncIterator[Line]:
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    try:
        yield Line(reader, writer)
    finally:
        writer.transport.abort()


def cut(data: bytes, *places: int) -> Sequence[bytes]:
    """`data` in pieces; a negative place counts from the end."""
    edges = [0, *sorted(place % len(data) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


async def test_repeated_header_block_with_other_lengths_brings_each_body_to_the_replica(stage: Stage) -> None:
    async with line(stage) as caller:
        for body in BODIES:
            assert await caller.ask(request(body)) == 200
    assert [seen.body for seen in stage.replica.received] == [
        body.replace(b'"chat"', b'"served/chat"') for body in BODIES
    ]
    assert len({seen.header("x-request-id") for seen in stage.replica.received}) == len(BODIES)


@pytest.mark.parametrize("places", [(20,), (len(START) + 17,), (-23,), (-23, -5), (-5,), (-1,), (1, -40, -23, -22)])
async def test_request_in_pieces_is_the_same_request_first_and_repeated(stage: Stage, places: tuple[int, ...]) -> None:
    async with line(stage) as caller:
        for body in BODIES[:2]:
            assert await caller.ask(*cut(request(body), *places)) == 200
            assert await caller.ask(request(body)) == 200
            assert await caller.ask(*cut(request(body), *places)) == 200
    assert {seen.body for seen in stage.replica.received} == {
        body.replace(b'"chat"', b'"served/chat"') for body in BODIES[:2]
    }


async def test_requests_behind_a_repeated_one_are_answered_in_turn(stage: Stage) -> None:
    async with line(stage) as caller:
        assert await caller.ask(request(BODIES[0])) == 200
        many = b"".join(request(body) for body in BODIES)
        assert await caller.ask(*cut(many, len(request(BODIES[0])) - 3, -30)) == 200
        assert [await caller.status() for _ in BODIES[1:]] == [200] * 3
    assert [seen.body[27:-1] for seen in stage.replica.received] == [b"1", b"1", b"10", b"100", b"1000"]


@pytest.mark.parametrize(
    ("second", "status"),
    [
        (request(BODIES[0], start=START.replace(b"chat/", b"../")), 404),
        (request(BODIES[0], start=START.replace(SECRET.encode(), b"tnt-wrong")), 401),
        (request(BODIES[0], more=b"Expect: 200-ok\r\n"), 417),
        (request(BODIES[0], more=b"Content-Length: 23\r\n"), 400),
        (request(BODIES[0], more=b"Transfer-Encoding: chunked\r\n"), 400),
        (START + b"Content-Length: +23\r\nAccept: */*\r\n\r\n" + BODIES[0], 400),
        (START + b"Content-Length: 99999999999999999999\r\nAccept: */*\r\n\r\n" + BODIES[0], 400),
        (START + b"Content-Length: 999999999\r\nAccept: */*\r\n\r\n" + BODIES[0], 413),
        (START + b"Content-Length: \r\nAccept: */*\r\n\r\n", 400),
        (START + b"Content-Length: 0\r\nAccept: */*\r\n\r\n", 400),
        (request(b'{"model":"nobody"}'), 404),
        (request(b'{"model":'), 400),
    ],
)
async def test_refusal_is_the_same_after_a_good_request(stage: Stage, second: bytes, status: int) -> None:
    async with line(stage) as caller:
        assert await caller.ask(second) == status
    async with line(stage) as caller:
        assert await caller.ask(request(BODIES[0])) == 200
        assert await caller.ask(second) == status
    assert len(stage.replica.received) == 1


async def test_length_in_a_body_is_not_taken_for_the_length(stage: Stage) -> None:
    body = b'{"model":"chat",\r\ncontent-length: 24\r\n\r\n"a":1}'
    start = START + b"Content-Length:%d\r\n\r\n" % len(body)
    async with line(stage) as caller:
        assert await caller.ask(start + body) == 400
        assert await caller.ask(start + body.replace(b"24", b"16")) == 400
        assert await caller.ask(request(BODIES[0])) == 200


async def test_header_block_behind_another_request_keeps_its_own_meaning(stage: Stage) -> None:
    keys = (make_key(), make_key("tnt-barred", endpoints=()))
    await stage.publish(make_snapshot(make_route(stage.backend), keys=keys, version=3))
    allowed = request(BODIES[0])
    barred = allowed.replace(SECRET.encode(), b"tnt-barred")
    async with line(stage) as caller:
        assert await caller.ask(allowed) == 200
        assert await caller.ask(*cut(allowed + barred, len(allowed) - 3)) == 200
        assert await caller.status() == 403
        assert await caller.ask(barred) == 403
        assert await caller.ask(allowed) == 200


async def test_repeated_key_stops_when_it_expires(stage: Stage) -> None:
    key = make_key(expires_at=NOW.replace(minute=1))
    await stage.publish(make_snapshot(make_route(stage.backend), keys=(key,), version=3))
    async with line(stage) as caller:
        assert await caller.ask(request(BODIES[0])) == 200
        stage.clock.step(60)
        assert await caller.ask(request(BODIES[0])) == 401


async def test_repeated_key_stops_when_it_is_revoked(stage: Stage) -> None:
    async with line(stage) as caller:
        assert await caller.ask(request(BODIES[0])) == 200
        await stage.publish(make_snapshot(make_route(stage.backend), keys=(make_key("tnt-new"),), version=3))
        assert await caller.ask(request(BODIES[0])) == 401


async def test_connection_that_never_repeats_is_served_like_any_other(stage: Stage) -> None:
    async with line(stage) as caller:
        for number in range(12):
            assert await caller.ask(request(BODIES[0], more=b"X-Number: %d\r\n" % number)) == 200
        assert await caller.ask(request(BODIES[1]), request(BODIES[1])) == 200
        assert await caller.status() == 200
    assert [seen.header("x-number") for seen in stage.replica.received] == [*map(str, range(12)), None, None]


async def test_repeated_body_counts_in_the_memory_of_all_and_leaves_it(make_stage: StageMaker) -> None:
    async with make_stage(limits=Limits(drain_seconds=0.2, body_memory_bytes=100)) as stage:
        memory = stage.gateway._path.body_memory
        async with line(stage) as caller, line(stage) as other:
            assert await caller.ask(request(BODIES[0])) == 200
            assert await other.ask(request(BODIES[0])) == 200
            unknown = b'{"model":"nobody","padding":"%b"}' % (b"x" * 50)
            assert await caller.ask(request(unknown)) == 404
            assert memory.held_bytes == 0
            assert await caller.ask(request(BODIES[0] + b" " * 90)) == 503
        await until(lambda: memory.held_bytes == 0)


async def test_repeated_request_that_expects_it_is_told_to_continue(stage: Stage) -> None:
    whole = request(BODIES[0], more=b"Expect: 100-continue\r\n")
    head, body = cut(whole, -len(BODIES[0]))
    async with line(stage) as caller:
        for _ in range(2):
            assert await caller.ask(head) == 100
            assert await caller.ask(body) == 200


async def test_repeated_request_whose_body_does_not_come_is_408(make_stage: StageMaker) -> None:
    async with make_stage(limits=Limits(drain_seconds=0.2, body_seconds=0.3)) as stage, line(stage) as caller:
        assert await caller.ask(request(BODIES[0])) == 200
        assert await caller.ask(request(BODIES[0])[:-4]) == 408

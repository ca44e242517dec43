"""HTTP on raw sockets: what is refused, what is bounded, and what a connection may do."""

from __future__ import annotations

import asyncio
import re

import pytest

from provisioner.gateway.caller.connection import CallerConnection
from provisioner.gateway.server import Limits
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.stub import SECRET, Received, answer_ok

BODY = b'{"model":"chat"}'
START = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"
HEAD = START + b"X-API-Key: %b\r\n" % SECRET.encode()
WHOLE = HEAD + b"Content-Length: 16\r\n\r\n" + BODY
SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: a\r\nX-API-Key: %b\r\n\r\n" % SECRET.encode()


def statuses(received: bytes) -> list[int]:
    """The statuses of all answers in `received`."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


async def test_http_1_0_answer_ends_with_the_connection(stage: Stage) -> None:
    received = await stage.raw(WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert statuses(received) == [200]
    assert received.endswith(b"connection: close\r\n\r\n{}")


async def test_http_1_0_connection_is_kept_when_asked_for(stage: Stage) -> None:
    request = WHOLE.replace(b"HTTP/1.1\r\n", b"HTTP/1.0\r\nConnection: keep-alive\r\n")
    received = await stage.raw(request + WHOLE.replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n"))
    assert statuses(received) == [200, 200]
    assert b"connection: keep-alive" in received


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_body_is_bounded_at_the_byte(make_stage: StageMaker, extra: int, *, chunked: bool) -> None:
    """Ledger: GW-02."""
    async with make_stage(limits=Limits(body_bytes=100_000, drain_seconds=0.2)) as stage:
        body = b'{"model":"chat","x":"' + b"x" * (100_000 - 23 + extra) + b'"}'
        if chunked:
            pieces = [body[at : at + 999] for at in range(0, len(body), 999)]
            framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
            data = HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + framed
        else:
            data = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        received = await stage.raw(data)
        assert statuses(received) == [413 if extra else 200]
        assert len(stage.replica.received) == (0 if extra else 1)
        if extra:
            assert b'"code": "request_too_large"' in received
        else:
            assert stage.replica.received[0].body == body.replace(b'"chat"', b'"served/chat"')


async def test_body_that_announces_too_much_is_refused_before_it_is_sent(stage: Stage) -> None:
    head = HEAD + b"X-Request-ID: mine\r\nExpect: 100-continue\r\nContent-Length: 16777217\r\n\r\n"
    received = await stage.raw(head)
    assert statuses(received) == [413]
    assert b"x-request-id: mine" in received


async def test_caller_without_a_key_is_refused_before_its_body_is_sent(stage: Stage) -> None:
    received = await stage.raw(START + b"Expect: 100-continue\r\nContent-Length: 16\r\n\r\n")
    assert statuses(received) == [401]


async def test_refusal_is_readable_by_a_caller_that_is_still_sending(stage: Stage) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    writer.write(START + b"Content-Length: 8000000\r\n\r\n")
    for _ in range(80):
        writer.write(b"x" * 100_000)
        await asyncio.sleep(0)
    received = await asyncio.wait_for(reader.read(), 30)
    assert statuses(received) == [401]
    writer.close()


async def test_expectation_is_met_before_the_body_comes(stage: Stage) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    writer.write(HEAD + b"Expect: 100-continue\r\nContent-Length: 16\r\n\r\n")
    assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30) == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(BODY)
    assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    assert stage.replica.received[0].header("expect") is None
    writer.close()


async def test_expectation_of_http_1_0_is_not_one(stage: Stage) -> None:
    """RFC 9110, 10.1.1."""
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    writer.write(HEAD.replace(b"1.1", b"1.0") + b"Expect: 100-continue\r\nContent-Length: 16\r\n\r\n")
    await asyncio.sleep(0.01)
    writer.write(BODY)
    received = await asyncio.wait_for(reader.read(), 30)
    assert received.startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_blanks_around_a_value_are_none_of_it(stage: Stage) -> None:
    """RFC 9112, 5."""
    blank = b"X-Request-ID: \tmine \t\r\nContent-Encoding: identity \r\nX-Own:  a b \r\nConnection: close \r\n"
    head = HEAD.replace(SECRET.encode(), SECRET.encode() + b" ") + blank

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked \r\nX-Own:  c \r\n\r\n2\r\n{}\r\n0\r\n\r\n")

    stage.replica.script = answer
    received = await stage.raw(head + b"Content-Length: 16 \r\n\r\n" + BODY)
    assert statuses(received) == [200]
    assert b"x-request-id: mine\r\n" in received
    assert b"x-own: c\r\n" in received
    assert ("x-own", "a b") in stage.replica.received[0].headers


@pytest.mark.parametrize(
    "rest",
    [
        b"X: " + b"x" * 40_000 + b"\r\n\r\n",
        b"".join(b"X%d: 1\r\n" % number for number in range(101)) + b"\r\n",
        b"X" * 40_000,
        b"X: " + b"x" * 300_000,
    ],
    ids=["long-value", "many-fields", "endless-name", "endless-value"],
)
async def test_header_block_is_bounded(stage: Stage, rest: bytes) -> None:
    assert statuses(await stage.raw(HEAD + rest)) == [431]
    assert statuses(await stage.raw(b"GET /v1/" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")) == [431]


@pytest.mark.parametrize("is_cut", [False, True])
async def test_header_block_is_bounded_at_the_byte(stage: Stage, *, is_cut: bool) -> None:
    start = HEAD + b"Connection: close\r\nContent-Length: 16\r\nX: "
    for more, status in ((0, 200), (1, 431)):
        data = start + b"x" * (32_768 - len(start) - 4 + more) + b"\r\n\r\n" + BODY
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
        for piece in (data[:9000], data[9000:-17], data[-17:]) if is_cut else (data,):
            writer.write(piece)
            await asyncio.sleep(0.01)
        assert statuses(await asyncio.wait_for(reader.read(), 30)) == [status]
        writer.close()


async def test_trailer_and_chunk_extension_without_end_are_bounded(stage: Stage) -> None:
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n10\r\n" + BODY + b"\r\n"
    for endless in (b"0\r\nX-Late: ", b"1;"):
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
        writer.write(head + endless)
        for _ in range(50):
            writer.write(b"x" * 1000)
            await asyncio.sleep(0.002)
        assert statuses(await asyncio.wait_for(reader.read(), 30)) == [431]
        writer.close()


async def test_trailers_are_bounded_and_dropped(stage: Stage) -> None:
    head = HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + BODY + b"\r\n0\r\n"
    assert statuses(await stage.raw(head + b"Authorization: x\r\nX-Late: 1\r\n\r\n")) == [200]
    assert stage.replica.received[0].header("x-late") is None
    assert statuses(await stage.raw(head + b"X-Late: " + b"x" * 40_000 + b"\r\n\r\n")) == [431]


async def test_slow_header_block_and_slow_body_are_408(make_stage: StageMaker) -> None:
    async with make_stage(limits=Limits(header_seconds=0.3, body_seconds=0.3, drain_seconds=0.2)) as stage:
        slow_head, slow_body, behind = await asyncio.gather(
            stage.raw(HEAD), stage.raw(HEAD + b"Content-Length: 16\r\n\r\n" + BODY[:5]), stage.raw(WHOLE + HEAD)
        )
        assert (statuses(slow_head), statuses(slow_body), statuses(behind)) == ([408], [408], [200, 408])
        assert await stage.raw(b"") == b""


async def test_body_that_drips_is_408_in_the_end(make_stage: StageMaker) -> None:
    async with make_stage(limits=Limits(body_seconds=5, body_total_seconds=0.4, drain_seconds=0.2)) as stage:
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
        writer.write(HEAD + b"Content-Length: 100000\r\n\r\n{")
        answer = asyncio.create_task(reader.read(65536))
        while not answer.done():
            writer.write(b" ")
            await asyncio.sleep(0.02)
        assert statuses(await answer) == [408]
        writer.transport.abort()


async def test_idle_connection_is_closed_without_a_word(make_stage: StageMaker) -> None:
    async with make_stage(limits=Limits(keep_alive_seconds=0.3, drain_seconds=0.2)) as stage:
        received = await stage.raw(WHOLE, wait=3)
        assert statuses(received) == [200]


async def test_pipelined_requests_are_answered_in_order(stage: Stage) -> None:
    bad = SMUGGLED.replace(b"/v1/models", b"/v1/models/none")
    last = SMUGGLED.replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n")
    received = await stage.raw(WHOLE + bad + WHOLE + SMUGGLED + last + b"ignored")
    assert statuses(received) == [200, 404, 200, 200, 200]
    assert len(stage.replica.received) == 2


@pytest.mark.parametrize("size", [1000, 90_000], ids=["read", "not-read"])
async def test_form_behind_a_request_reaches_the_replica_whole_and_in_order(stage: Stage, size: int) -> None:
    """Its model is known before the request is answered, and more of it comes before and after that."""
    form = b'--xx\r\nContent-Disposition: form-data; name="model"\r\n\r\nchat\r\n'
    form += b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    pieces = (form, b"1" * size, b"2" * size + b"\r\n--xx--\r\n")
    head = HEAD.replace(b"chat/completions", b"audio/transcriptions")
    head += b"Connection: close\r\nContent-Type: multipart/form-data; boundary=xx\r\n"
    length = sum(map(len, pieces))
    go_on = asyncio.Event()

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.line.startswith("POST /v1/chat"):
            await go_on.wait()
        await answer_ok(request, writer)

    stage.replica.script = answer
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    writer.write(WHOLE + head + b"Content-Length: %d\r\n\r\n" % length + pieces[0])
    await until(lambda: len(stage.replica.received) == 1)
    [connection] = stage.gateway._path.connections
    assert isinstance(connection, CallerConnection)
    writer.write(pieces[1])
    await until(lambda: len(connection._unread) >= min(size, 60_000))
    go_on.set()
    await asyncio.wait_for(reader.readuntil(b"{}"), 30)
    writer.write(pieces[2])
    assert statuses(await asyncio.wait_for(reader.read(), 30)) == [200]
    assert stage.replica.received[1].body == b"".join(pieces).replace(b"\r\nchat\r\n", b"\r\nserved/chat\r\n")
    writer.close()


async def test_requests_that_arrive_while_one_is_answered_wait_their_turn(stage: Stage) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    for _ in range(50):
        writer.write(WHOLE)
        await asyncio.sleep(0)
    writer.write(SMUGGLED.replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n"))
    received = await asyncio.wait_for(reader.read(), 30)
    assert statuses(received) == [200] * 51
    writer.close()


async def test_thousands_of_pipelined_requests_of_a_caller_that_does_not_read_are_bounded(stage: Stage) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port, limit=1024)
    sent = 0
    while writer.transport.get_write_buffer_size() < 4_000_000 and sent < 200_000_000:
        writer.write(SMUGGLED * 1000)
        sent += len(SMUGGLED) * 1000
        await asyncio.sleep(0)
    connection = stage.connections[0]
    assert len(connection._unread) < 1_000_000
    assert len(connection._reader.ready) < 10_000
    writer.transport.abort()


async def test_caller_who_leaves_behind_more_than_is_read_is_noticed(stage: Stage) -> None:
    async def for_ever(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    stage.replica.script = for_ever
    _, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    writer.write(WHOLE)
    await until(lambda: bool(stage.replica.received))
    writer.write(SMUGGLED * 1200)
    await until(lambda: stage.connections[0]._is_paused)
    writer.close()
    async with asyncio.timeout(30):
        await stage.replica.left.wait()


async def test_request_in_single_bytes_is_understood(stage: Stage) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    for at in range(len(WHOLE)):
        writer.write(WHOLE[at : at + 1])
        await asyncio.sleep(0)
    assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    assert stage.replica.received[0].body == b'{"model":"served/chat"}'
    writer.close()


async def test_head_and_options_are_answered_without_a_body(stage: Stage) -> None:
    head = SMUGGLED.replace(b"GET", b"HEAD")
    received = await stage.raw(head + head.replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n"))
    assert statuses(received) == [200, 200]
    assert received.endswith(b"\r\n\r\n")
    assert b"{" not in received
    options = await stage.raw(
        head.replace(b"HEAD", b"OPTIONS").replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n")
    )
    assert statuses(options) == [204]
    assert b"allow: GET, HEAD, OPTIONS\r\n" in options


async def test_absolute_target_is_read_as_its_path(stage: Stage) -> None:
    received = await stage.raw(
        WHOLE.replace(b" /v1", b" http://a/v1").replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n")
    )
    assert statuses(received) == [200]
    assert stage.replica.received[0].line == "POST /v1/chat/completions HTTP/1.1"


async def test_connection_over_the_bound_is_503(make_stage: StageMaker) -> None:
    async with make_stage(limits=Limits(connections=2, drain_seconds=0.2)) as stage:
        opened = [await asyncio.open_connection("127.0.0.1", stage.gateway.port) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert statuses(await stage.raw(SMUGGLED)) == [503]
        for _, writer in opened:
            writer.close()


async def test_bodies_of_all_connections_together_are_bounded(make_stage: StageMaker) -> None:
    """Ledger: GW-02."""
    async with make_stage(limits=Limits(body_memory_bytes=50_000, drain_seconds=0.2)) as stage:
        memory = stage.gateway._path.body_memory
        body = b'{"model":"chat","x":"' + b"x" * 30_000 + b'"}'
        data = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
        writer.write(data[:-1])
        await until(lambda: memory.held_bytes == len(body) - 1)

        refused = await stage.raw(data)
        assert statuses(refused) == [503]
        assert b"retry-after: 1\r\n" in refused
        assert b'"code": "overloaded"' in refused

        writer.write(data[-1:])
        assert statuses(await reader.read()) == [200]
        writer.close()
        assert statuses(await stage.raw(data)) == [200]
        await until(lambda: memory.held_bytes == 0)


async def test_body_of_a_caller_who_leaves_makes_room(make_stage: StageMaker) -> None:
    async with make_stage() as stage:
        memory = stage.gateway._path.body_memory
        _, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
        writer.write(HEAD + b"Content-Length: 40000\r\n\r\n" + b" " * 30_000)
        await until(lambda: memory.held_bytes == 30_000)
        writer.transport.abort()
        await until(lambda: memory.held_bytes == 0)


async def test_body_that_was_sent_on_is_not_held_while_it_is_answered(stage: Stage) -> None:
    answered = asyncio.Event()

    async def wait(request: Received, writer: asyncio.StreamWriter) -> None:
        await answered.wait()
        await answer_ok(request, writer)

    stage.replica.script = wait
    asking = asyncio.create_task(stage.chat())
    await until(lambda: len(stage.replica.received) == 1)
    assert stage.gateway._path.body_memory.held_bytes == 0
    answered.set()
    assert (await asking).status == 200


async def test_request_is_read_by_its_own_header_block_not_by_the_last_one(stage: Stage) -> None:
    """Each differs in one field from the request before it on the same connection."""
    tagged = WHOLE.replace(b"Content-Length", b"X-Tag: %b\r\nContent-Length")
    longer = HEAD + b"X-Tag: two\r\nContent-Length: 17\r\n\r\n" + BODY + b" "
    keyless = tagged.replace(SECRET.encode(), b"tnt-other") % b"two"
    end = WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0")
    received = await stage.raw(tagged % b"one" + tagged % b"one" + tagged % b"two" + longer + keyless + end)
    assert statuses(received) == [200, 200, 200, 200, 401, 200]
    seen = [(request.header("x-tag"), request.body[-1:]) for request in stage.replica.received]
    assert seen == [("one", b"}"), ("one", b"}"), ("two", b"}"), ("two", b" "), (None, b"}")]

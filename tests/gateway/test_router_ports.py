"""The ports at which a local router finds its workers: what passes, what is answered there, what ends with what."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from provisioner.domain.snapshot import Backend
from provisioner.gateway.config import Limits
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.replica.choice import Replicas
from provisioner.gateway.replica.client_tls import ClientTls
from provisioner.gateway.replica.dialer import Dialer
from provisioner.gateway.replica.router_connection import Passage
from provisioner.gateway.replica.router_ports import RouterPorts
from provisioner.gateway.replica.router_prompt import READ_BYTES
from provisioner.gateway.replica.upstream import Pool
from tests.gateway.certificates import Authority, client_files, server_context
from tests.gateway.conftest import until
from tests.gateway.stub import Received, Replica, make_route, make_snapshot

TOKEN = "router-token"
AWAY = Backend(host="away.acme.example.com", address="127.0.0.1:1", tls=False)
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass
class Room:
    """The ports of one router, and what stands behind them."""

    replica: Replica
    replicas: Replicas
    counters: Counters
    ports: RouterPorts
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self, worker: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the port of one worker."""
        port = int(self.ports.addresses[worker].rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
        self.writers.append(writer)
        return reader, writer

    async def ask(self, head: str, body: bytes = b"", worker: int = 0) -> tuple[int, bytes]:
        """The status and body of the answer to one request on a connection of its own."""
        reader, writer = await self.connect(worker)
        writer.write(f"{head}\r\nhost: {self.ports.addresses[worker]}\r\ncontent-length: {len(body)}\r\n\r\n".encode())
        writer.write(body)
        return await answer_of(reader)


CHAT = "POST /v1/chat/completions HTTP/1.1"
POST = f"{CHAT}\r\nauthorization: Bearer {TOKEN}\r\naccept-encoding: gzip\r\nx-request-id: a"


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Reads one answer that says how long it is."""
    async with asyncio.timeout(30):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        return int(head.split(" ")[1]), await reader.readexactly(length)


@contextlib.asynccontextmanager
async def opened(
    replica: Replica, backends: Sequence[Backend], dialer: Dialer, connections: int = 10
) -> AsyncIterator[Room]:
    """Ports for `backends`."""
    counters, ports = Counters(), RouterPorts()
    replicas = Replicas("cache-aware", counters)
    replicas.use(make_snapshot(make_route(*backends)))
    passage = Passage(
        pool=Pool(Limits(connect_seconds=1.0), dialer, counters),
        replicas=replicas,
        counters=counters,
        secret=lambda name: f"{name}-secret".encode(),
        token=TOKEN.encode(),
        connections=connections,
    )
    await ports.open(backends, passage)
    room = Room(replica, replicas, counters, ports)
    try:
        yield room
    finally:
        for writer in room.writers:
            writer.transport.abort()
        ports.close()
        replica.stop_listening()
        await until(lambda: not ports._connections and not replica._writers)
        for _ in range(3):
            await asyncio.sleep(0)  # uvloop takes a turn or two to close what was aborted


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    """One worker that answers, reached without TLS, and one that does not."""
    replica = Replica()
    await replica.start()
    backend = Backend(host="r0.acme.example.com", address=f"127.0.0.1:{replica.port}", tls=False)
    async with opened(replica, (backend, AWAY), Dialer(None)) as found:
        yield found


async def test_request_reaches_the_replica_by_mutual_tls_under_its_name_with_its_credential(tmp_path: Path) -> None:
    servers, clients = Authority(tmp_path, "server-ca"), Authority(tmp_path, "client-ca")
    replica, name = Replica(), "r0-abc123-ep-1.acme.example.com"
    await replica.start(server_context(servers, clients, name))
    backend = Backend(host=name, address=f"127.0.0.1:{replica.port}", credential="engine")
    async with opened(replica, (backend,), Dialer(ClientTls(client_files(servers, clients)))) as room:
        assert await room.ask(POST, b'{"model": "m"}') == (200, b"{}")
        (request,) = replica.received
        assert request.line == "POST /v1/chat/completions HTTP/1.1"
        assert sorted(request.headers) == [
            ("accept-encoding", "identity"),
            ("authorization", "Bearer engine-secret"),
            ("content-length", "14"),
            ("host", name),
            ("x-request-id", "a"),
        ]
        assert request.body == b'{"model": "m"}'


async def test_connections_are_used_again_on_both_sides(room: Room) -> None:
    reader, writer = await room.connect()
    for number in range(3):
        body = b"%d" % number
        writer.write(f"{POST}\r\nhost: w\r\ncontent-length: 1\r\n\r\n".encode() + body)
        assert await answer_of(reader) == (200, b"{}")
    assert [request.body for request in room.replica.received] == [b"0", b"1", b"2"]
    assert room.replica.connections == 1


@pytest.mark.parametrize("head", [CHAT, POST.replace(TOKEN, "guess")])
async def test_who_does_not_come_through_the_gateway_gets_nothing_of_a_replica(room: Room, head: str) -> None:
    assert (await room.ask(head, b"{}"))[0] == 401
    assert room.replica.received == []


async def test_what_a_router_asks_for_itself_no_replica_sees(room: Room) -> None:
    assert await room.ask("GET /health HTTP/1.1") == (200, b"")
    assert (await room.ask("GET /v1/models HTTP/1.1"))[0] == (await room.ask("POST /tokenize HTTP/1.1"))[0] == 404
    long = json.dumps({"model": "m", "messages": ["x" * 2 * READ_BYTES]}).encode()
    status, body = await room.ask("POST /v1/chat/completions/render HTTP/1.1", long)
    assert status == 200
    assert len(json.loads(body)["token_ids"]) > READ_BYTES / 64 - 1
    assert room.replica.received == []


async def test_next_worker_takes_what_could_not_be_sent_and_the_first_is_blamed(room: Room) -> None:
    for _ in range(3):
        assert await room.ask(POST, b"{}", worker=1) == (200, b"{}")
    assert room.counters.upstream_failures == {"ConnectFailed": 3}
    assert room.replicas.by_state()["out"] == 1
    room.replica.stop_listening()
    status, body = await room.ask(POST, b"{}", worker=1)
    assert (status, json.loads(body)["error"]["code"]) == (502, "upstream_failed")


async def test_what_was_sent_is_not_sent_again(room: Room) -> None:
    async def break_off(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    room.replica.script = break_off
    assert (await room.ask(POST, b"{}"))[0] == 502
    assert len(room.replica.received) == 1
    assert room.counters.upstream_failures == {"ConnectionLost": 1}


async def test_errors_of_a_replica_count_as_its_own(room: Room) -> None:
    async def fail(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 Broken\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")

    room.replica.script = fail
    for _ in range(3):
        assert await room.ask(POST, b"{}") == (500, b"{}")
    assert [replica.backend.host for replica in room.replicas.suspects] == ["r0.acme.example.com"]


async def test_answer_without_length_comes_in_chunks_and_breaks_off_where_the_replica_does(room: Room) -> None:
    async def stream(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"5\r\ndata:\r\n")
        if request.body == b"whole":
            writer.write(b"2\r\n\n\n\r\n0\r\n\r\n")
        else:
            await asyncio.sleep(0.05)
            writer.transport.abort()

    room.replica.script = stream
    received = {b"whole": b"", b"break": b""}
    for body in received:
        reader, writer = await room.connect()
        writer.write(f"{POST}\r\nhost: w\r\ncontent-length: 5\r\n\r\n".encode() + body)
        async with asyncio.timeout(30):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"transfer-encoding: chunked" in head
            with contextlib.suppress(ConnectionResetError, asyncio.IncompleteReadError):
                while length := int(await reader.readuntil(b"\r\n"), 16):
                    received[body] += (await reader.readexactly(length + 2))[:-2]
                received[body] += b"end"
    assert received == {b"whole": b"data:\n\nend", b"break": b"data:"}


async def test_router_that_leaves_ends_the_work_of_the_replica(room: Room) -> None:
    async def never(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(600)

    room.replica.script = never
    _, writer = await room.connect()
    writer.write(f"{POST}\r\nhost: w\r\ncontent-length: 0\r\n\r\n".encode())
    await until(lambda: len(room.replica.received) == 1)
    known = next(replica for replica in room.replicas.known if replica.backend.host == "r0.acme.example.com")
    assert known.outstanding == 1
    writer.transport.abort()
    await asyncio.wait_for(room.replica.left.wait(), 30)
    assert known.outstanding == 0


async def test_router_that_does_not_read_holds_the_replica_back(room: Room) -> None:
    written = 0

    async def flood(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(CHUNKED)
        for _ in range(1024):
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await writer.drain()
            written += 65536
        writer.write(b"0\r\n\r\n")

    room.replica.script = flood
    reader, writer = await room.connect()
    writer.write(f"{POST}\r\nhost: w\r\ncontent-length: 0\r\n\r\n".encode())
    await until(lambda: written > 0)
    before = 0
    while written > before:
        before = written
        await asyncio.sleep(0.1)
    assert written < 40 * 2**20
    count = 0
    async with asyncio.timeout(20):
        while not (piece := await reader.read(2**20)).endswith(b"\r\n0\r\n\r\n"):
            assert piece
            count += len(piece)
    assert count + len(piece) > 64 * 2**20


async def test_replica_that_does_not_read_holds_the_router_back() -> None:
    over = asyncio.Event()

    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.transport.abort()

    server = await asyncio.start_server(ignore, "127.0.0.1", 0, limit=1024)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    deaf = Backend(host="r0.acme.example.com", address=address, tls=False)
    async with opened(Replica(), (deaf,), Dialer(None)) as room:
        _, writer = await room.connect()
        writer.write(f"{POST}\r\nhost: w\r\ncontent-length: {2**26}\r\n\r\n".encode())
        sent = 0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                while sent < 2**26:
                    writer.write(b"x" * 2**16)
                    await writer.drain()
                    sent += 2**16
        assert sent < 40 * 2**20
        over.set()
    server.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: w\r\nx: " + b"y" * 70_000,
        f"{POST}\r\nhost: w\r\ncontent-length: 2\r\n\r\n{{}}{POST}\r\n\r\n".encode(),
    ],
    ids=["no-http", "head-without-end", "before-its-turn"],
)
async def test_what_no_router_sends_ends_the_connection(room: Room, sent: bytes) -> None:
    reader, writer = await room.connect()
    writer.write(sent)
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 30) == b""


async def test_connections_of_a_worker_are_bounded() -> None:
    replica = Replica()
    await replica.start()
    backend = Backend(host="r0.acme.example.com", address=f"127.0.0.1:{replica.port}", tls=False)
    async with opened(replica, (backend,), Dialer(None), connections=1) as room:
        await room.connect()
        await until(lambda: len(room.ports._connections) == 1)
        reader, _ = await room.connect()
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 30) == b""


async def test_closed_ports_take_nobody(room: Room) -> None:
    reader, _ = await room.connect()
    room.ports.close()
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 30) == b""
    with pytest.raises(ConnectionRefusedError):
        await room.connect()

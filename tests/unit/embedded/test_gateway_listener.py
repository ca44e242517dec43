"""The TLS listener: who may come in, where a request goes, and what streams through it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from provisioner.embedded.controllers.gateway_api.listener import Listeners
from provisioner.embedded.controllers.gateway_api.routing import Rule, TlsMaterial, Virtual
from tests.mutual_tls import Authority, Caller
from tests.ports import free_port

HOST = "r0-abc123-ep-one.acme.example.com"
CLIENT_CA = Authority("clients")
CHUNK_BYTES, FLOOD_CHUNKS = 64 * 1024, 1024
SERVER_CA = Authority("servers")
SERVER = SERVER_CA.issue("*.acme.example.com")


class Backend:
    """A replica in the test's own process, which remembers what it saw."""

    def __init__(self) -> None:
        self.address = ""
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        self.received = asyncio.Queue[bytes]()
        self.next_chunk = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.written = 0

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/v1/stream":
            return await self._stream(request)
        if request.path == "/v1/flood":
            return await self._flood(request)
        if request.path == "/v1/upload":
            async for chunk in request.content.iter_any():
                self.received.put_nowait(chunk)
            return web.Response()
        if request.path == "/v1/broken":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        body = await request.read()
        self.seen.append((request.raw_path, dict(request.headers), body))
        return web.Response(
            body=body or b"ok", headers={"X-Engine": "stub", "Connection": "X-Private", "X-Private": "1"}
        )

    async def _flood(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(FLOOD_CHUNKS):
            await response.write(bytes(CHUNK_BYTES))
            self.written += CHUNK_BYTES
        await response.write_eof()
        return response

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        try:
            await response.prepare(request)
            await response.write(b"first")
            await self.next_chunk.wait()
            await response.write(b"second")
            await response.write_eof()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return response


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    found = Backend()
    server = web.Server(found.answer, handler_cancellation=True)
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    found.address = "{}:{}".format(*listening.sockets[0].getsockname())
    yield found
    listening.close()
    await server.shutdown(0.1)


@pytest.fixture
async def listeners() -> AsyncIterator[Listeners]:
    found = Listeners()
    yield found
    await found.close()


@pytest.fixture
def port() -> int:
    return free_port()


def virtual(port: int, *addresses: str, host: str = HOST, client_ca: Authority = CLIENT_CA) -> Virtual:
    rules = tuple(
        Rule(path, exact, addresses, True) for path, exact in (("/health", True), ("/metrics", True), ("/v1/", False))
    )
    material = TlsMaterial(SERVER.certificate, SERVER.key, client_ca.certificate)
    return Virtual(("inference", "tenant"), "replicas", port, "*.acme.example.com", material, ((host, rules),))


@pytest.fixture
async def caller(tmp_path: Path, port: int) -> AsyncIterator[Caller]:
    async with Caller(tmp_path, port, SERVER_CA, CLIENT_CA.issue("gateway")) as found:
        yield found


async def test_routed_paths_reach_the_replica_and_others_do_not(
    listeners: Listeners, backend: Backend, caller: Caller, port: int
) -> None:
    assert await listeners.publish("a", [virtual(port, backend.address)]) == {}
    wanted = {"/health": 200, "/metrics": 200, "/v1/models": 200, "/slots": 404, "/healthz": 404, "/v2": 404, "/": 404}
    found = {}
    for path in wanted:
        async with caller.session.get(caller.url(HOST, path)) as answer:
            found[path] = answer.status
    assert found == wanted


async def test_path_with_dot_segments_is_refused(
    listeners: Listeners, backend: Backend, caller: Caller, port: int
) -> None:
    await listeners.publish("a", [virtual(port, backend.address)])
    for path in ("/v1/../slots", "/v1/%2e%2e/slots", "/v1/..%2fslots", "/v1/x%5c..%5cslots"):
        async with caller.session.get(caller.url(HOST, path)) as answer:
            assert answer.status == 400
    assert backend.seen == []


async def test_body_and_headers_go_through_and_hop_by_hop_headers_do_not(
    listeners: Listeners, backend: Backend, caller: Caller, port: int
) -> None:
    await listeners.publish("a", [virtual(port, backend.address)])
    headers = {"X-Request-ID": "req-1", "Connection": "keep-alive, X-Hop", "X-Hop": "1", "TE": "trailers"}
    async with caller.session.post(caller.url(HOST, "/v1/echo?a=%2F"), data=b"hello", headers=headers) as answer:
        assert await answer.read() == b"hello"
        assert answer.headers["X-Engine"] == "stub"
        assert "X-Private" not in answer.headers
    [(path, seen, body)] = backend.seen
    assert (path, body) == ("/v1/echo?a=%2F", b"hello")
    assert seen["X-Request-ID"] == "req-1"
    assert seen["Content-Length"] == "5"
    assert not {"X-Hop", "TE"} & seen.keys()


async def test_stranger_without_our_client_certificate_is_refused(
    listeners: Listeners, backend: Backend, port: int, tmp_path: Path
) -> None:
    await listeners.publish("a", [virtual(port, backend.address)])
    for pair in (None, Authority("clients").issue("gateway")):  # the second CA has our CA's name and another key
        async with Caller(tmp_path, port, SERVER_CA, pair) as stranger:
            with pytest.raises(aiohttp.ClientError):
                await stranger.session.get(stranger.url(HOST, "/health"))
    assert backend.seen == []


async def test_client_of_one_gateway_is_a_stranger_to_another(
    listeners: Listeners, backend: Backend, port: int, tmp_path: Path, caller: Caller
) -> None:
    other_ca, other_host = Authority("others"), "r0-abc123-ep-two.acme.example.com"
    await listeners.publish("a", [virtual(port, backend.address)])
    await listeners.publish("b", [virtual(port, backend.address, host=other_host, client_ca=other_ca)])
    async with caller.session.get(caller.url(HOST, "/health")) as answer:
        assert answer.status == 200
    with pytest.raises(aiohttp.ClientError):
        await caller.session.get(caller.url(other_host, "/health"))
    async with caller.session.get(caller.url(HOST, "/health"), headers={"Host": other_host}) as answer:
        assert answer.status == 421
    async with (
        Caller(tmp_path, port, SERVER_CA, other_ca.issue("gateway")) as other,
        other.session.get(other.url(other_host, "/health")) as answer,
    ):
        assert answer.status == 200


async def test_name_that_no_gateway_serves_is_refused_in_the_handshake(
    listeners: Listeners, backend: Backend, caller: Caller, port: int
) -> None:
    await listeners.publish("a", [virtual(port, backend.address)])
    with pytest.raises(aiohttp.ClientError):
        await caller.session.get(caller.url("r0.other.example.com", "/health"))


async def test_answer_streams_as_it_is_written_and_a_leaving_caller_cancels_it(
    listeners: Listeners, backend: Backend, caller: Caller, port: int
) -> None:
    await listeners.publish("a", [virtual(port, backend.address)])
    async with caller.session.get(caller.url(HOST, "/v1/stream")) as answer:
        assert await answer.content.readany() == b"first"
        backend.next_chunk.set()
        assert await answer.content.readany() == b"second"
    backend.next_chunk.clear()
    answer = await caller.session.get(caller.url(HOST, "/v1/stream"))
    assert await answer.content.readany() == b"first"
    answer.close()
    await asyncio.wait_for(backend.cancelled.wait(), 60)


async def test_caller_that_does_not_read_holds_the_replica_back(
    listeners: Listeners, backend: Backend, caller: Caller, port: int
) -> None:
    await listeners.publish("a", [virtual(port, backend.address)])
    async with caller.session.get(caller.url(HOST, "/v1/flood")) as answer:
        seen = -1
        while seen != backend.written:  # until nothing moves any more
            seen = backend.written
            await asyncio.sleep(0.3)
        assert 0 < backend.written < CHUNK_BYTES * FLOOD_CHUNKS / 2
        assert len(await answer.read()) == CHUNK_BYTES * FLOOD_CHUNKS


async def test_caller_that_asks_before_it_sends_is_told_to_go_on(
    listeners: Listeners, backend: Backend, caller: Caller, port: int
) -> None:
    await listeners.publish("a", [virtual(port, backend.address)])
    async with caller.session.post(caller.url(HOST, "/v1/echo"), data=b"hello", expect100=True) as answer:
        assert await asyncio.wait_for(answer.read(), 60) == b"hello"
    assert "Expect" not in backend.seen[0][1]


async def test_request_body_streams_before_it_is_complete(
    listeners: Listeners, backend: Backend, caller: Caller, port: int
) -> None:
    await listeners.publish("a", [virtual(port, backend.address)])
    more = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"one"
        await more.wait()
        yield b"two"

    sending = asyncio.create_task(caller.session.post(caller.url(HOST, "/v1/upload"), data=body()))
    assert await asyncio.wait_for(backend.received.get(), 60) == b"one"
    more.set()
    assert await asyncio.wait_for(backend.received.get(), 60) == b"two"
    (await sending).release()


async def test_replica_that_is_absent_broken_or_slow_is_told_apart(
    listeners: Listeners, backend: Backend, caller: Caller, port: int
) -> None:
    seen = []
    base = virtual(port, backend.address)
    ((name, rules),) = base.routes
    slow = replace(rules[-1], request_seconds=0.1)
    missing = replace(rules[-1], is_resolved=False)
    for table, path in (
        (virtual(port), "/v1/models"),
        (base, "/v1/broken"),
        (replace(base, routes=((name, (slow,)),)), "/v1/upload"),
        (replace(base, routes=((name, (missing,)),)), "/v1/models"),
    ):
        await listeners.publish("a", [table])
        never = asyncio.Event()

        async def body(never: asyncio.Event = never) -> AsyncIterator[bytes]:
            yield b"x"
            await never.wait()

        data = body() if path == "/v1/upload" else None
        async with caller.session.post(caller.url(HOST, path), data=data) as answer:
            seen.append(answer.status)
    assert seen == [503, 502, 504, 500]


async def test_port_that_is_taken_is_reported_and_opens_once_it_is_free(
    listeners: Listeners, backend: Backend, caller: Caller, port: int
) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        [problem] = (await listeners.publish("a", [virtual(port, backend.address)])).values()
        assert str(port) in problem
    assert await listeners.publish("a", [virtual(port, backend.address)]) == {}
    async with caller.session.get(caller.url(HOST, "/health")) as answer:
        assert answer.status == 200
    await listeners.withdraw("a")
    with pytest.raises(ConnectionRefusedError), socket.socket() as probe:
        probe.connect(("127.0.0.1", port))


async def test_unusable_certificate_keeps_only_its_own_gateway_out(
    listeners: Listeners, backend: Backend, caller: Caller, port: int
) -> None:
    broken = replace(virtual(port, host="x.acme.example.com"), tls=TlsMaterial("no", "pem", CLIENT_CA.certificate))
    await listeners.publish("a", [virtual(port, backend.address)])
    assert list(await listeners.publish("b", [broken])) == [broken]
    async with caller.session.get(caller.url(HOST, "/health")) as answer:
        assert answer.status == 200

"""Replicas that are away, break, stay silent or answer nonsense; connections kept; mutual TLS."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.domain.snapshot import Backend
from provisioner.gateway.server import Limits, TlsFiles
from tests.bound import within
from tests.gateway.certificates import Authority, client_files, server_context
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.stub import Received, Replica, make_route, make_snapshot

NAME = "r0-abc123-ep-1.acme.example.com"


async def test_connection_to_a_replica_is_used_again(stage: Stage) -> None:
    for _ in range(5):
        assert (await stage.chat()).status == 200
    assert stage.replica.connections == 1


async def test_connection_that_the_replica_closed_is_not_used_again(stage: Stage) -> None:
    async def close_after(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    stage.replica.script = close_after
    assert [(await stage.chat()).status for _ in range(3)] == [200, 200, 200]
    assert stage.replica.connections == 3


async def test_unused_connection_is_closed_before_the_replica_would(make_stage: StageMaker) -> None:
    async with make_stage(limits=Limits(upstream_idle_seconds=0.3, drain_seconds=0.2)) as stage:
        await stage.chat()
        async with asyncio.timeout(30):
            await stage.replica.left.wait()
        assert (await stage.chat()).status == 200


async def test_next_replica_is_tried_when_one_cannot_be_reached(stage: Stage) -> None:
    away = Backend(host="away.example.com", address="127.0.0.1:1", tls=False)
    await stage.publish(make_snapshot(make_route(away, stage.backend), version=3))
    assert [(await stage.chat()).status for _ in range(4)] == [200] * 4
    assert stage.gateway._path.counters.upstream_failures["ConnectFailed"] > 0


async def test_next_replica_is_tried_when_one_does_not_take_the_connection_in_time(
    make_stage: StageMaker, tmp_path: Path
) -> None:
    """It accepts and then says nothing to our TLS handshake, so nothing of the request was written."""

    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(stall, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    files = client_files(Authority(tmp_path, "server-ca"), Authority(tmp_path, "client-ca"))
    async with make_stage(limits=Limits(connect_seconds=0.2, drain_seconds=0.2), tls=files) as stage:
        slow = Backend(host="slow.example.com", address=f"127.0.0.1:{port}")
        await stage.publish(make_snapshot(make_route(slow, stage.backend), version=3))
        assert [(await stage.chat()).status for _ in range(8)] == [200] * 8
        assert len(stage.replica.received) == 8
        assert stage.gateway._path.counters.upstream_failures == {"ConnectTimeout": 3}  # then it is out
    server.close()


async def test_nobody_is_asked_any_more_for_a_caller_who_has_got_an_answer(
    make_stage: StageMaker, tmp_path: Path
) -> None:
    """Its time is over while a connection is still being made: what comes of that must not reach its next answer."""
    left = asyncio.Event()

    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        left.set()

    server = await asyncio.start_server(stall, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    files = client_files(Authority(tmp_path, "server-ca"), Authority(tmp_path, "client-ca"))
    limits = Limits(connect_seconds=60.0, upstream_header_seconds=0.01, drain_seconds=0.2)
    async with make_stage(limits=limits, tls=files) as stage:
        slow = Backend(host="slow.example.com", address=f"127.0.0.1:{port}")
        await stage.publish(make_snapshot(make_route(slow, stage.backend), version=3))
        status = (await stage.chat()).status
        await until(left.is_set)
        failures = stage.gateway._path.counters.upstream_failures
    server.close()
    assert (status, stage.replica.received, failures) == (504, [], {"HeaderTimeout": 1})


async def test_502_when_no_replica_can_be_reached(stage: Stage) -> None:
    away = Backend(host="away.example.com", address="127.0.0.1:1", tls=False)
    await stage.publish(make_snapshot(make_route(away, replace(away, address="nonsense")), version=3))
    answer = await stage.chat()
    assert (answer.status, answer.error()["code"]) == (502, "upstream_failed")
    assert "127.0.0.1" not in answer.body.decode()


async def test_request_that_was_sent_is_never_sent_again(stage: Stage) -> None:
    async def die(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    stage.replica.script = die
    await stage.publish(make_snapshot(make_route(stage.backend, stage.backend, stage.backend), version=3))
    answer = await stage.chat()
    assert (answer.status, answer.error()["type"]) == (502, "api_error")
    assert len(stage.replica.received) == 1


async def test_replica_that_does_not_begin_to_answer_is_504(make_stage: StageMaker) -> None:
    async def silent(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with make_stage(limits=Limits(upstream_header_seconds=0.4, drain_seconds=0.2)) as stage:
        stage.replica.script = silent
        answer = await stage.chat()
        assert (answer.status, answer.error()["code"]) == (504, "upstream_timeout")
        async with within(1):
            await stage.replica.left.wait()


@pytest.mark.parametrize(
    "answer",
    [
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    ],
    ids=["no-http", "two-framings", "two-lengths", "other-coding", "switching", "endless-header"],
)
async def test_nonsense_of_a_replica_is_502(stage: Stage, answer: bytes) -> None:
    async def nonsense(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        await asyncio.sleep(5)

    stage.replica.script = nonsense
    assert (await stage.chat()).status == 502


async def test_bytes_after_an_answer_never_reach_the_next_caller(stage: Stage) -> None:
    async def surplus(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"
        )

    stage.replica.script = surplus
    assert [(await stage.chat()).body for _ in range(3)] == [b"{}"] * 3
    assert stage.replica.connections == 3


async def test_caller_who_leaves_while_a_connection_is_made_leaves_nothing(make_stage: StageMaker) -> None:
    listening = asyncio.Event()

    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listening.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(stall, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with make_stage() as stage:
        backend = Backend(host=NAME, address=f"127.0.0.1:{port}", tls=False)
        await stage.publish(make_snapshot(make_route(backend), version=3))
        request = asyncio.create_task(stage.chat())
        await listening.wait()
        request.cancel()
        await until(lambda: stage.gateway._path.counters.caller_left == 1)
    server.close()


@pytest.fixture
def authorities(tmp_path: Path) -> tuple[Authority, Authority]:
    """The CA of servers and the CA of clients."""
    return Authority(tmp_path, "server-ca"), Authority(tmp_path, "client-ca")


async def test_replica_is_reached_by_mutual_tls_under_its_own_name(
    make_stage: StageMaker, authorities: tuple[Authority, Authority]
) -> None:
    replica = Replica()
    await replica.start(server_context(*authorities, NAME))
    async with make_stage(tls=client_files(*authorities)) as stage:
        backend = Backend(host=NAME, address=f"127.0.0.1:{replica.port}")
        await stage.publish(make_snapshot(make_route(backend), version=3))
        assert [(await stage.chat()).status for _ in range(3)] == [200] * 3
    assert replica.received[0].header("host") == NAME
    assert replica.connections == 1
    replica.stop_listening()


@pytest.mark.parametrize("case", ["other-name", "other-ca", "no-client-certificate"])
async def test_replica_that_cannot_prove_itself_is_not_spoken_to(
    make_stage: StageMaker, authorities: tuple[Authority, Authority], tmp_path: Path, case: str
) -> None:
    servers, clients = authorities
    replica, tls = Replica(), client_files(servers, clients)
    if case == "other-ca":
        servers = Authority(tmp_path, "other-ca")
    await replica.start(server_context(servers, clients, "r9.example.com" if case == "other-name" else NAME))
    async with make_stage(tls=None if case == "no-client-certificate" else tls) as stage:
        backend = Backend(host=NAME, address=f"127.0.0.1:{replica.port}")
        await stage.publish(make_snapshot(make_route(backend), version=3))
        assert (await stage.chat()).status == 502
    assert replica.received == []
    replica.stop_listening()


async def test_renewed_client_certificate_is_used_without_a_restart(
    make_stage: StageMaker, authorities: tuple[Authority, Authority], tmp_path: Path
) -> None:
    servers, clients = authorities
    wrong: TlsFiles = client_files(servers, Authority(tmp_path, "old-ca"))
    replica = Replica()
    await replica.start(server_context(servers, clients, NAME))
    async with make_stage(tls=wrong) as stage:
        backend = Backend(host=NAME, address=f"127.0.0.1:{replica.port}")
        await stage.publish(make_snapshot(make_route(backend), version=3))
        assert (await stage.chat()).status == 502
        wrong.client_key.write_bytes(b"half-writ")
        assert (await stage.chat()).status == 502
        client_files(servers, clients)
        assert (await stage.chat()).status == 200
    replica.stop_listening()

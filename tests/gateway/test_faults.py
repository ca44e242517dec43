"""Everything a replica can do wrong: what the caller gets, what is noted, and that nothing is sent twice or kept.

Each fault happens at a replica with one slot. Afterwards the same replica behaves, and the next request is answered:
the slot was free.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from provisioner.domain.snapshot import QueueGroup
from provisioner.domain.usage import Outcome
from provisioner.gateway.server import Limits
from tests.gateway.conftest import StageMaker, until
from tests.gateway.stub import OK, make_route, make_snapshot
from tests.gateway.test_http import statuses
from tests.gateway.test_stream import REQUEST, STREAM, chunk

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"
EVENT = STREAM + chunk(b"data: 1\n\n")
SOON_SECONDS, LATE_SECONDS = 0.5, 60.0
"""How long the gateway waits for a replica that falls silent, and for any other."""


def reads_then(*pieces: bytes, end: str = "reset", pause: float = 0.0) -> Behaviour:
    """Reads the request, sends the pieces, and then `reset`s, `close`s or `stall`s."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b'"served/chat"}')
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        if end == "stall":
            await reader.read()
        elif end == "close":
            writer.close()
        else:
            writer.transport.abort()

    return behave


async def reset_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes the connection and drops it."""
    writer.transport.abort()


async def reset_while_reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads some of the request."""
    await reader.read(10)
    writer.transport.abort()


async def stall_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes the connection and says nothing."""
    await reader.read(10_000)
    await reader.read()


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers one byte at a time, slowly, but never silent for long."""
    await reader.readuntil(b'"served/chat"}')
    for byte in EVENT + b"0\r\n\r\n":
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.004)
    await reader.read()


@dataclass(frozen=True, slots=True)
class Fault:
    """`status` None means that the answer had begun; `ends` is whether it was brought to its end."""

    behave: Behaviour
    status: int
    outcome: Outcome
    has_body: bool = False
    ends: bool = True


BROKE, SILENT, FINE = Outcome.UPSTREAM_FAILED, Outcome.TIMED_OUT, Outcome.OK
FAULTS = {
    "reset-at-once": Fault(reset_at_once, 502, BROKE),
    "reset-while-reading": Fault(reset_while_reading, 502, BROKE),
    "reset-before-answering": Fault(reads_then(), 502, BROKE),
    "reset-amid-the-head": Fault(reads_then(LENGTH[:30]), 502, BROKE),
    "reset-after-the-head": Fault(reads_then(LENGTH), 200, BROKE, ends=False),
    "reset-amid-the-body": Fault(reads_then(LENGTH + b"12345"), 200, BROKE, has_body=True, ends=False),
    "reset-amid-events": Fault(reads_then(EVENT), 200, BROKE, has_body=True, ends=False),
    "reset-amid-a-chunk": Fault(reads_then(STREAM + b"9\r\ndata"), 200, BROKE, has_body=True, ends=False),
    "stall-before-answering": Fault(stall_at_once, 504, SILENT),
    "stall-amid-the-head": Fault(reads_then(LENGTH[:30], end="stall"), 504, SILENT),
    "stall-after-the-head": Fault(reads_then(LENGTH, end="stall"), 200, SILENT, ends=False),
    "stall-amid-the-body": Fault(reads_then(LENGTH + b"12345", end="stall"), 200, SILENT, has_body=True, ends=False),
    "stall-amid-events": Fault(reads_then(EVENT, end="stall"), 200, SILENT, has_body=True, ends=False),
    "stall-before-the-last-chunk": Fault(
        reads_then(EVENT + b"0\r\n", end="stall"), 200, SILENT, has_body=True, ends=False
    ),
    "slow-drip": Fault(drip, 200, FINE, has_body=True),
    "garbage": Fault(reads_then(b"\x00\xff garbage\r\n\r\n"), 502, BROKE),
    "status-of-no-kind": Fault(reads_then(b"HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n", end="stall"), 502, BROKE),
    "garbage-after-the-head": Fault(reads_then(STREAM + b"zz\r\n", end="stall"), 502, BROKE),
    "garbage-between-chunks": Fault(
        reads_then(EVENT, b"zz\r\n", end="stall", pause=0.05), 200, BROKE, True, ends=False
    ),
    "interim-answers": Fault(
        reads_then(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: a\r\n\r\n" + OK), 200, FINE, True
    ),
    "interim-answer-only": Fault(reads_then(b"HTTP/1.1 102 Processing\r\n\r\n"), 502, BROKE),
    "closes-before-answering": Fault(reads_then(end="close"), 502, BROKE),
    "closes-amid-the-body": Fault(reads_then(LENGTH + b"12345", end="close"), 200, BROKE, has_body=True, ends=False),
    "closes-amid-events": Fault(reads_then(EVENT, end="close"), 200, BROKE, has_body=True, ends=False),
    "closes-at-the-end": Fault(reads_then(b"HTTP/1.1 200 OK\r\n\r\nall", end="close"), 200, FINE, has_body=True),
    "too-long": Fault(reads_then(LENGTH + b"1234567890more", end="stall"), 200, FINE, has_body=True),
    "two-answers": Fault(reads_then(OK + OK, end="stall"), 200, FINE, has_body=True),
    "two-lengths": Fault(reads_then(LENGTH[:-2] + b"Content-Length: 11\r\n\r\n", end="stall"), 502, BROKE),
    "length-and-chunks": Fault(
        reads_then(LENGTH[:-2] + b"Transfer-Encoding: chunked\r\n\r\n", end="stall"), 502, BROKE
    ),
    "endless-head": Fault(reads_then(LENGTH[:-2] + b"X: " + b"x" * 100_000, end="stall"), 502, BROKE),
    "server-error": Fault(
        reads_then(LENGTH.replace(b"200", b"500") + b'{"a":true}', end="stall"), 500, BROKE, has_body=True
    ),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_fault_of_a_replica_is_told_noted_and_over(make_stage: StageMaker, name: str) -> None:
    """FAL-11: a request that may have been sent is not sent again."""
    fault, connections = FAULTS[name], 0
    patience = SOON_SECONDS if fault.outcome is SILENT else LATE_SECONDS
    limits = Limits(upstream_header_seconds=patience, silence_seconds=patience, drain_seconds=0.2)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if connections == 1:
                await fault.behave(reader, writer)
            else:
                await reader.readuntil(b'"served/chat"}')
                writer.write(OK)
                await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)
    try:
        async with make_stage(limits=limits) as stage:
            backend = replace(stage.backend, address=f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
            route = replace(make_route(backend, replace(backend, host="same.example.com")), group="one")
            group = QueueGroup(name="one", slots=1)
            await stage.publish(replace(make_snapshot(route, version=3), groups=(group,)))
            received = await stage.raw(REQUEST.replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n"), wait=3)
            assert statuses(received) == [fault.status]
            assert connections == 1
            head, _, body = received.partition(b"\r\n\r\n")
            if fault.status < 500:
                assert bool(body) == fault.has_body or not fault.ends
            is_whole = body.endswith(b"0\r\n\r\n") if b"chunked" in head else b"content-length: %d" % len(body) in head
            assert is_whole == fault.ends
            assert statuses(await stage.raw(REQUEST, wait=0.3)) == [200]
            assert connections == 2
            await until(lambda: len(stage.plane.records()) == 2)
            noted = [(record["status"], record["outcome"]) for record in stage.plane.records()]
            assert noted == [(fault.status, fault.outcome), (200, Outcome.OK)]
    finally:
        server.close()


async def test_replica_that_refuses_connections_is_passed_over_and_then_502(make_stage: StageMaker) -> None:
    async with make_stage() as stage:
        away = replace(stage.backend, host="away.example.com", address="127.0.0.1:1")
        await stage.publish(make_snapshot(make_route(away, stage.backend), version=3))
        assert [(await stage.chat()).status for _ in range(2)] == [200, 200]
        assert len(stage.replica.received) == 2
        await stage.publish(make_snapshot(make_route(away), version=4))
        assert (await stage.chat()).status in (502, 503)

"""A gateway that its successor replaces on the same address, under load: two real processes, no failed request."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.gateway.stub import Replica
from tests.ports import free_port

SERVE = "from provisioner.wiring import run_gateway; run_gateway()"
RESTARTS = 3


@contextlib.asynccontextmanager
async def gateway(port: int, engine: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A gateway as a process of its own, which serves already."""
    environ = {
        **os.environ,
        "LISTEN_ADDR": f"127.0.0.1:{port}",
        "BACKEND_GENERAL": f"http://127.0.0.1:{engine}",
        "CONCURRENCY_GENERAL": "0",
        "DRAIN_TIMEOUT": "10s",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, env=environ, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    while b"serving on" not in (line := await process.stderr.readline()):
        assert line, "the gateway ended before it served"
    reading = asyncio.create_task(process.stderr.read())
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await reading


async def ask(url: str, found: Counter[str], stop: asyncio.Event, *, keeps_connection: bool) -> None:
    """Asks one request after the other and counts what comes of them."""
    connector = aiohttp.TCPConnector(force_close=not keeps_connection)
    async with aiohttp.ClientSession(connector=connector) as http:
        while not stop.is_set():
            try:
                async with http.post(url, json={"model": "general", "messages": []}) as answer:
                    await answer.read()
                    found[str(answer.status)] += 1
            except aiohttp.ClientError as error:
                found[type(error).__name__] += 1
            await asyncio.sleep(0.002)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands connections over")
async def test_restart_under_load_fails_no_request() -> None:
    port, engine, found, stop = free_port(), Replica(), Counter[str](), asyncio.Event()
    await engine.start()
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with contextlib.AsyncExitStack() as stack:
        serving = await stack.enter_async_context(gateway(port, engine.port))
        callers = [asyncio.create_task(ask(url, found, stop, keeps_connection=number % 2 == 0)) for number in range(8)]
        for _ in range(RESTARTS):
            successor = await stack.enter_async_context(gateway(port, engine.port))
            await asyncio.sleep(0.2)
            serving.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(serving.wait(), 60) == 0
            before = found["200"]
            async with asyncio.timeout(60):
                while found["200"] == before:
                    await asyncio.sleep(0.01)
            serving = successor
        stop.set()
        await asyncio.gather(*callers)
    engine.stop_listening()
    assert set(found) == {"200"}, found
    assert found["200"] > 200

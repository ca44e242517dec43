"""A gateway is replaced by another one on the same port while customers ask."""

from __future__ import annotations

import asyncio
from collections import Counter

import aiohttp

from provisioner.domain.clock import SystemClock
from provisioner.gateway.server import Gateway, start_gateway
from provisioner.settings.gateway import read_gateway_config
from tests.gateway.alone import Alone, alone
from tests.gateway.conftest import until
from tests.gateway.held import Held


async def test_next_gateway_serves_on_the_port_before_the_last_one_has_drained() -> None:
    """What runs in the old one finishes there; who comes meanwhile is served by the new one, and nobody is refused."""
    async with alone(CONCURRENCY_GENERAL="0", DRAIN_TIMEOUT="20s") as stage:
        held = stage.engines["general"].script = Held()
        running = asyncio.create_task(stage.chat("general"))
        await until(lambda: held.names == ["general"])
        environ = {
            "BACKEND_GENERAL": f"http://127.0.0.1:{stage.engines['general'].port}",
            "LISTEN_ADDR": f"127.0.0.1:{stage.gateway.port}",
            "CONCURRENCY_GENERAL": "0",
            "DRAIN_TIMEOUT": "200ms",
        }
        follower = await start_gateway(read_gateway_config(environ), clock=SystemClock())
        seen: Counter[int] = Counter()
        asking = [asyncio.create_task(ask_on_and_on(stage, seen)) for _ in range(4)]
        await until(lambda: seen[200] >= 20)
        ending = asyncio.create_task(stage.gateway.close())
        before = seen[200]
        await until(lambda: seen[200] >= before + 100)
        assert not ending.done()
        held.release("general")
        assert (await running).status == 200
        await ending
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await follower.close()
        assert set(seen) == {200}


async def test_pages_of_the_next_gateway_are_told_from_the_moment_the_last_one_begins_to_end() -> None:
    async with alone(ADMIN_ADDR="127.0.0.1:0", CONCURRENCY_GENERAL="0", DRAIN_TIMEOUT="20s") as stage:
        held = stage.engines["general"].script = Held()
        running = asyncio.create_task(stage.chat("general"))
        await until(lambda: held.names == ["general"])
        environ = {
            "BACKEND_GENERAL": f"http://127.0.0.1:{stage.engines['general'].port}",
            "LISTEN_ADDR": f"127.0.0.1:{stage.gateway.port}",
            "ADMIN_ADDR": f"127.0.0.1:{stage.gateway.admin_port}",
        }
        follower = await start_gateway(read_gateway_config(environ), clock=SystemClock())
        ending = asyncio.create_task(stage.gateway.close())
        async with asyncio.timeout(30):
            while await pages(stage, follower) != {b"ready\n"}:
                pass
        assert not ending.done()
        held.release("general")
        await asyncio.gather(running, ending)
        await follower.close()


async def pages(stage: Alone, follower: Gateway) -> set[bytes]:
    """What is told on the port that both have, asked often enough to meet each."""
    assert follower.admin_port == stage.gateway.admin_port
    return {(await stage.send("GET", "/readyz", port=follower.admin_port)).body for _ in range(20)}


async def ask_on_and_on(stage: Alone, seen: Counter[int]) -> None:
    """Asks on a connection of its own each time. One that the system had not handed over when its listener closed is
    reset before anything was read of it, so it is tried again, as the official clients do."""
    url = f"http://127.0.0.1:{stage.gateway.port}/v1/chat/completions"
    while True:
        async with aiohttp.ClientSession() as http:
            for _ in range(2):
                try:
                    async with http.post(url, json={"model": "general"}) as answer:
                        seen[answer.status] += 1
                        break
                except aiohttp.ClientOSError:
                    continue
            else:
                seen[0] += 1

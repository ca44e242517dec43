"""The real gateway in front of an installation, and customers who never stop asking through it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import aiohttp
from aiohttp import web

from provisioner.api.snapshots import SnapshotFeed, entity_tag
from provisioner.gateway.server import ControlPlane, GatewayConfig, TlsFiles, start_gateway
from tests.contract.verbs_installation import HOST, Installation
from tests.store.examples import api_key

SECRET = "tnt-secret"
CUSTOMERS = 4


@dataclass
class Customers:
    """What they were answered where they ask: how often with which words, and everything that was no answer."""

    url: str
    answers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


@asynccontextmanager
async def asking(laptop: Installation, alias: str) -> AsyncIterator[Customers]:
    """Customers who ask the endpoint one request after the other, each on a connection of its own."""
    await laptop.store.keys.add(api_key(SECRET))
    async with _gateway(laptop) as url, aiohttp.ClientSession() as http:
        customers = Customers(url)
        asked = [asyncio.create_task(_ask(http, url, alias, customers)) for _ in range(CUSTOMERS)]
        try:
            yield customers
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)


async def ask_once(url: str, alias: str, secret: str) -> int:
    """The status of one request with this key."""
    body = {"model": alias, "messages": [{"role": "user", "content": "Hello"}]}
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, json=body, headers={"Authorization": f"Bearer {secret}"}) as answer,
    ):
        await answer.read()
        return answer.status


async def _ask(http: aiohttp.ClientSession, url: str, alias: str, customers: Customers) -> None:
    body = {"model": alias, "messages": [{"role": "user", "content": "Hello"}]}
    while True:
        try:
            async with http.post(url, json=body, headers={"Authorization": f"Bearer {SECRET}"}) as answer:
                if answer.status == 200:
                    customers.answers[(await answer.json(content_type=None))["choices"][0]["message"]["content"]] += 1
                else:
                    customers.failures.append(f"{answer.status} {await answer.text()}")
        except aiohttp.ClientError as error:
            customers.failures.append(repr(error))
        await asyncio.sleep(0.03)


@asynccontextmanager
async def _gateway(laptop: Installation) -> AsyncIterator[str]:
    """The URL of chat completions, once the gateway knows a snapshot with customers' key."""
    async with _snapshots(laptop) as snapshots:
        pki = laptop.state / "pki"
        config = GatewayConfig(
            listen_host=HOST,
            listen_port=0,
            control=ControlPlane(
                url=snapshots, credential="any", snapshot_file=laptop.state / "gateway" / "snapshot.json"
            ),
            tls=TlsFiles(
                client_certificate=pki / "client.crt", client_key=pki / "client.key", server_ca=pki / "server-ca.crt"
            ),
        )
        gateway = await start_gateway(config, clock=laptop.world.clock, random=Random(0))
        try:
            await _until_known(url := f"http://{HOST}:{gateway.port}/v1")
            yield f"{url}/chat/completions"
        finally:
            await gateway.close()


async def _until_known(url: str) -> None:
    async with asyncio.timeout(60), aiohttp.ClientSession() as http:
        while True:
            async with http.get(f"{url}/models", headers={"Authorization": f"Bearer {SECRET}"}) as answer:
                if answer.status == 200 and (await answer.json())["data"]:
                    return
            await asyncio.sleep(0.05)


@asynccontextmanager
async def _snapshots(laptop: Installation) -> AsyncIterator[str]:
    """The gateways' door of the API, and nothing else of it."""
    feed = SnapshotFeed(laptop.store.snapshots, is_stopping=lambda: False)

    async def answer(request: web.Request) -> web.Response:
        known = request.headers.get("If-None-Match")
        newest = await feed.wait_for_other_than(known, seconds=1.0)
        if newest is None:
            return web.Response(status=503)
        if entity_tag(newest) == known:
            return web.Response(status=304)
        return web.Response(body=newest.body, headers={"ETag": entity_tag(newest)})

    application = web.Application()
    application.router.add_get("/internal/snapshots", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0).start()
    try:
        yield f"http://{HOST}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()

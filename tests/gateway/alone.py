"""A gateway without a control plane in front of scripted engines, told by an environment."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import aiohttp
from yarl import URL

from provisioner.domain.clock import SystemClock
from provisioner.domain.key import key_digest
from provisioner.gateway.server import Gateway, start_gateway
from provisioner.settings.gateway import read_gateway_config
from tests.gateway.conftest import Answer
from tests.gateway.stub import Replica


@dataclass(slots=True)
class Alone:
    """A gateway in front of engines, and a client of it."""

    gateway: Gateway
    engines: Mapping[str, Replica]
    http: aiohttp.ClientSession

    async def send(self, method: str, path: str, *, port: int | None = None, **options: Any) -> Answer:
        """Any request, to the customers' address unless another port is told."""
        url = URL(f"http://127.0.0.1:{port or self.gateway.port}{path}", encoded=True)
        async with self.http.request(method, url, **options) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def chat(self, model: str, *, key: str | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        """A request for `model`, with a key or without, that a replica may hold."""
        own = {"X-Name": model} if key is None else {"X-Name": model, "Authorization": f"Bearer {key}"}
        return await self.send(
            "POST", "/v1/chat/completions", json={"model": model}, headers={**own, **(headers or {})}
        )

    async def models(self, key: str | None = None) -> list[str]:
        """The models that are listed for the holder of `key`."""
        answer = await self.send("GET", "/v1/models", headers={} if key is None else {"X-API-Key": key})
        return [model["id"] for model in json.loads(answer.body)["data"]]

    def asked(self, engine: str) -> list[str]:
        """The models for which an engine was asked."""
        received = self.engines[engine].received
        return [json.loads(request.body)["model"] for request in received if request.line.startswith("POST ")]


@contextlib.asynccontextmanager
async def alone(*engines: str, **environ: str) -> AsyncIterator[Alone]:
    """A gateway told by `environ`, in which `<name>` of an engine stands for its URL; general has its own by itself."""
    running = {name: Replica() for name in engines or ("general",)}
    for engine in running.values():
        await engine.start()
    urls = {f"<{name}>": f"http://127.0.0.1:{engine.port}" for name, engine in running.items()}
    told = {
        "LISTEN_ADDR": "127.0.0.1:0",
        "DRAIN_TIMEOUT": "200ms",
        "PROBE_INTERVAL": "1h",
        "BACKEND_GENERAL": "<general>",
        **environ,
    }
    for name, url in urls.items():
        told = {variable: value.replace(name, url) for variable, value in told.items()}
    async with aiohttp.ClientSession() as http:
        gateway = await start_gateway(read_gateway_config(told), clock=SystemClock(), random=Random(7))
        try:
            yield Alone(gateway, running, http)
        finally:
            await gateway.close()
            for engine in running.values():
                engine.stop_listening()


def key_line(secret: str, tenant: str = "acme", **more: str) -> str:
    """A line of a keys file."""
    return json.dumps({"sha256": key_digest(secret), "tenant": tenant, **more}) + "\n"

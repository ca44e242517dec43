"""Two gateways and the real API: what operators do reaches both at once, and budgets hold over both of them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import jwt
import pytest

from provisioner.api.app import create_app
from provisioner.api.services import Services
from provisioner.catalog.fallback import FallbackBudget, FallbackOffer
from provisioner.domain.endpoint import Phase
from provisioner.domain.key import key_digest, priority_key
from provisioner.domain.operation import OperationState
from provisioner.gateway.server import ControlPlane, Gateway, GatewayConfig, start_gateway
from provisioner.reconciler.loop import Reconciler
from provisioner.store.sql import SqlStore
from provisioner.wiring.serving import serve_app
from tests.gateway.conftest import until
from tests.gateway.stub import Received, Replica, make_key
from tests.store.examples import NOON, SteppedClock, endpoint, operation, plan, tenant, tenant_operation
from tests.store.fresh import open_fresh
from tests.unit.api.conftest import OPERATOR_KEY, CountingIds, bootstrap_key
from tests.unit.catalog.packs import site_with, small_catalog

HOST = "127.0.0.1"


@dataclass
class Running:
    """The API and two gateways, in front of a partner's server."""

    url: str
    store: SqlStore
    partner: Replica
    http: aiohttp.ClientSession
    gateways: list[Gateway] = field(default_factory=list)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    async def change(self, method: str, path: str, body: Any = None) -> Any:
        """What the API answers to an operator's change."""
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}", "Idempotency-Key": f"k{next(self._numbers)}"}
        async with self.http.request(method, f"{self.url}/v1{path}", json=body, headers=headers) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.json()

    async def get(self, path: str) -> Any:
        """What is there."""
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        async with self.http.get(f"{self.url}/v1{path}", headers=headers) as answer:
            return await answer.json()

    async def ask(self, gateway: Gateway, secret: str) -> int:
        """The status of a customer's request."""
        url, headers = f"http://{HOST}:{gateway.port}/v1/chat/completions", {"Authorization": f"Bearer {secret}"}
        async with self.http.post(url, json={"model": "chat", "messages": []}, headers=headers) as answer:
            return answer.status

    async def until_status(self, secret: str, status: int) -> None:
        """Waits until both gateways answer so."""
        async with asyncio.timeout(60):
            for gateway in self.gateways:
                while await self.ask(gateway, secret) != status:
                    await asyncio.sleep(0.02)

    @property
    def sent(self) -> int:
        """Requests of customers that the partner saw."""
        return sum(one.line.startswith("POST") for one in self.partner.received)


async def answer_as_partner(request: Received, writer: asyncio.StreamWriter) -> None:
    """Lists a model and answers requests for it."""
    body = json.dumps({"data": [{"id": "partner/tiny-1"}]}).encode() if request.line.startswith("GET") else b"{}"
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
    writer.write(body)


def offer(partner: Replica) -> FallbackOffer:
    """The partner as a policy of the site: a hundred requests an hour."""
    return FallbackOffer(
        name="partner",
        url=f"http://{HOST}:{partner.port}",
        credential="partner-key",
        models={plan().runtime.model: "partner/tiny-1"},
        budget=FallbackBudget(period="hour", requests=100),
    )


@contextlib.asynccontextmanager
async def serving(services: Services) -> AsyncIterator[str]:
    """The API with a reconciler beside it; its URL."""
    reconciler = Reconciler(
        clusters=None,  # type: ignore[arg-type] # nothing is observed: the endpoint has no replica
        store=services.store,
        clock=services.clock,
        policies=services.site.fallback_policies,
    )

    async def publish() -> None:
        while True:
            await reconciler.publish()
            await asyncio.sleep(0.05)

    listener, stop = socket.create_server((HOST, 0)), asyncio.Event()
    services = replace(services, is_stopping=stop.is_set)
    api = asyncio.create_task(serve_app(create_app(services), listener, stop))
    publishing = asyncio.create_task(publish())
    try:
        yield f"http://{HOST}:{listener.getsockname()[1]}"
    finally:
        publishing.cancel()
        stop.set()
        await api


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    """All of it: acme's endpoint `chat` is Ready and has no replica."""
    clock, partner = SteppedClock(), Replica()
    partner.script = answer_as_partner
    await partner.start()
    store = await open_fresh(tmp_path / "store.sqlite", clock=clock)
    await store.keys.add(bootstrap_key())
    await store.operations.submit(tenant_operation(), tenant=tenant())
    await store.operations.submit(operation(state=OperationState.SUCCEEDED), endpoint=endpoint(phase=Phase.READY))
    (tmp_path / "partner-key").write_text("partner-secret")
    services = Services(
        store=store,
        catalog=small_catalog(),
        site=site_with(fallbacks=(offer(partner),)),
        clock=clock,
        ids=CountingIds(),
        gateway_key_digest=key_digest("gateway"),
        priority_key=partial(priority_key, "gateway"),
    )
    async with serving(services) as url, aiohttp.ClientSession() as http:
        running = Running(url, store, partner, http)
        try:
            for number in range(2):
                file = tmp_path / f"gateway-{number}" / "snapshot.json"
                file.parent.mkdir()
                control = ControlPlane(url=url, credential="gateway", snapshot_file=file)
                config = GatewayConfig(listen_host=HOST, listen_port=0, control=control, secrets=tmp_path)
                running.gateways.append(await start_gateway(config, clock=clock, random=Random(number)))
            await until(lambda: all(gateway.is_ready for gateway in running.gateways), 10)
            yield running
        finally:
            await asyncio.gather(*(gateway.close() for gateway in running.gateways))
            partner.stop_listening()
    await store.close()


async def test_keys_work_and_stop_working_at_every_gateway(running: Running) -> None:
    """GW-01: made and revoked over the API; the endpoint has no replica, so a good key is told so."""
    made = await running.change("POST", "/keys", {"tenant": "acme", "name": "ci"})
    await running.until_status(made["secret"], 503)
    await running.change("DELETE", f"/keys/{made['key']['id']}")
    await running.until_status(made["secret"], 401)


async def test_gateways_learn_how_many_they_are(running: Running) -> None:
    directories = [gateway._path for gateway in running.gateways]
    await until(lambda: all(path.directory and path.directory.snapshot.gateways == 2 for path in directories), 10)
    await running.gateways.pop().close()
    await until(lambda: bool(directories[0].directory and directories[0].directory.snapshot.gateways == 1), 10)


async def test_balance_that_an_endpoint_asks_for_reaches_every_gateway(running: Running) -> None:
    """ROU-05: a local router is something that an endpoint asks for over the API, and no more."""
    await running.change("POST", "/endpoints/acme/chat:update", {"traffic": {"balance": "cache-aware"}})
    assert (await running.get("/endpoints/acme/chat"))["traffic"]["balance"] == "cache-aware"
    for gateway in running.gateways:
        replicas = gateway._path.replicas
        await until(lambda replicas=replicas: set(replicas.cache_aware) == {endpoint().id}, 10)  # type: ignore[misc]
    snapshot = await running.store.snapshots.current()
    assert snapshot is not None
    assert [route.balance for route in snapshot.routes] == ["cache-aware"]


async def test_a_tenants_priority_key_is_made_once_and_the_same_on_both_sides(running: Running) -> None:
    """ADM-14: a program of the tenant signs with what the API gives, each time the same; gateways are told nothing."""
    key = (await running.get("/tenants/acme/priority-key"))["key"]
    assert (await running.get("/tenants/acme/priority-key"))["key"] == key
    claims = {"aud": "model-router", "email": "ann@example.com", "exp": int(NOON.timestamp()) + 60}
    for signing_key, person in ((key, ("acme", "ann@example.com")), (priority_key("other", "acme"), None)):
        withheld = {
            b"x-inference-priority": b"interactive",
            b"x-inference-identity": jwt.encode(claims, signing_key, algorithm="HS256").encode(),
        }
        for gateway in running.gateways:
            claim = gateway._path.claims.read(make_key(tenant="acme"), withheld)
            assert claim.person == person
    async with running.http.get(f"{running.url}/v1/tenants/acme/priority-key") as stranger:
        assert stranger.status == 401


async def test_two_gateways_send_no_more_outside_than_the_budget_allows(running: Running) -> None:
    """FAL-08: a hundred requests of a hundred and forty, whoever is asked; FAL-10: what became of them is told."""
    secret = (await running.change("POST", "/keys", {"tenant": "acme", "name": "ci"}))["secret"]
    await running.until_status(secret, 503)
    body = {"policy": "partner", "enabled": True, "privacyAcknowledged": True}
    await running.change("PUT", "/fallbacks/acme/chat", body)
    await running.until_status(secret, 200)
    first = running.sent
    statuses: Counter[int] = Counter()
    for _ in range(20):
        both = itertools.chain.from_iterable(itertools.repeat(gateway, 3) for gateway in running.gateways)
        statuses.update(await asyncio.gather(*(running.ask(gateway, secret) for gateway in both)))
        await asyncio.sleep(0.02)
    async with asyncio.timeout(60):  # what one gateway has left it gives nobody while it runs
        while 429 not in statuses or running.sent < 100:
            statuses.update([await running.ask(gateway, secret) for gateway in running.gateways])
            await asyncio.sleep(0.02)
    assert running.sent == 100 == first + statuses[200]
    assert set(statuses) == {200, 429}

    async def evidence() -> Counter[str]:
        items = (await running.get("/fallback-requests?endpoint=acme/chat&limit=500"))["items"]
        return Counter(item["target"] or item["denial"] for item in items)

    async with asyncio.timeout(60):
        while (await evidence())["partner"] < 100:
            await asyncio.sleep(0.1)
    found = await evidence()
    assert found["partner"] == 100 and found["budget_exhausted"] > 0

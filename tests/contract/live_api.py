"""The REST API on a socket of its own, over a real SQLite store in which there is one of everything."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2

from provisioner.api.app import create_app
from provisioner.api.services import Services
from provisioner.catalog.written import document_of
from provisioner.domain.access import AccessRole
from provisioner.domain.key import key_digest
from provisioner.wiring.serving import serve_app
from tests.store.examples import SteppedClock
from tests.store.fresh import open_fresh
from tests.unit.api.callers import secret_of, stored_key
from tests.unit.api.conftest import REQUEST, CountingIds, bootstrap_key, claim, end, idempotent
from tests.unit.catalog.packs import small_catalog, small_site

HOST = "127.0.0.1"
STRANGER = "stranger"
"""Somebody with a key that nobody made."""

CALLERS = (AccessRole.OPERATOR.value, AccessRole.CUSTOMER.value, STRANGER)
"""Whose every request is judged, beside the administrator's."""


@dataclass(frozen=True, slots=True)
class LiveApi:
    """Where it is, and names of what is there, by the path parameters that ask for them."""

    url: str
    names: dict[str, str]


def headers_of(caller: str) -> dict[str, str]:
    """The credentials of one of the callers."""
    return {"Authorization": f"Bearer {secret_of(caller)}"}


@contextmanager
def live_api(folder: Path) -> Iterator[LiveApi]:
    """The API, served by a thread; ended afterwards. It says that it is about to stop, so that no answer waits."""
    listener = socket.create_server((HOST, 0))
    url = f"http://{HOST}:{listener.getsockname()[1]}"
    ready, stop, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(_serve(folder, listener, ready, stop),))
    thread.start()
    try:
        assert ready.wait(60)
        yield LiveApi(url, _fill(url))
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def _serve(folder: Path, listener: socket.socket, ready: threading.Event, stop: asyncio.Event) -> None:
    clock = SteppedClock()
    store = await open_fresh(folder / "store.sqlite", clock=clock)
    await store.models.bring_in([document_of(model) for model in small_catalog().models.values()], clock.now())
    await store.keys.add(bootstrap_key())
    services = Services(
        store=store,
        catalog=small_catalog(),
        site=small_site(),
        clock=clock,
        ids=CountingIds(),
        gateway_key_digest=key_digest("gateway"),
        is_stopping=lambda: True,
        customers_create=True,
    )
    app = create_app(services)
    await _make_tenant(services, clock, httpx2.ASGITransport(app))
    ready.set()
    await serve_app(app, listener, stop)
    await store.close()


async def _make_tenant(services: Services, clock: SteppedClock, transport: httpx2.ASGITransport) -> None:
    """Tenant acme with its projects made, and the callers' keys."""
    headers = {"Authorization": "Bearer operator-key", **idempotent("tenant")}
    async with httpx2.AsyncClient(transport=transport, base_url="http://api.example.com") as http:
        answer = await http.post("/v1/tenants", json={"name": "acme", "tiers": ["dedicated"]}, headers=headers)
    assert answer.status_code == 202, answer.text
    operation, tenant = await claim(services, clock), await services.store.tenants.find("acme")
    assert operation.lease is not None
    assert tenant is not None
    await services.store.tenants.save(replace(tenant, ready=True), operation=operation.id, fence=operation.lease.fence)
    await end(operation, services, clock)
    for role in (AccessRole.ADMIN, AccessRole.OPERATOR, AccessRole.CUSTOMER):
        await services.store.keys.add(stored_key(role.value, role))


def _fill(url: str) -> dict[str, str]:
    """Make an endpoint, a team and a key; how they are called."""
    with httpx2.Client(base_url=url, headers=headers_of(AccessRole.ADMIN), trust_env=False) as http:
        made = http.post("/v1/endpoints", json=REQUEST, headers=idempotent("endpoint")).raise_for_status().json()
        team = {"tenant": "acme", "name": "research"}
        http.post("/v1/teams", json=team, headers=idempotent("team")).raise_for_status()
        key = http.post("/v1/keys", json={"tenant": "acme", "name": "ci"}, headers=idempotent("key"))
        project = http.get("/v1/projects").raise_for_status().json()["items"][0]
        return {
            "reference": made["subject"],
            "operation": made["id"],
            "key": key.raise_for_status().json()["key"]["id"],
            "tenant": "acme",
            "model": REQUEST["model"],
            "name": project["name"],
        }

"""The API as an in-process application on a real SQLite store, with a stepped clock and counting ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from provisioner.api.callers import TELLING
from provisioner.api.services import Services
from provisioner.domain.access import AccessRole
from provisioner.domain.ids import EndpointId, KeyId, OperationId
from provisioner.domain.key import ApiKey, key_digest
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.store.interface.operations import Turn
from tests.store.examples import NOON, SteppedClock
from tests.store.fresh import open_fresh
from tests.unit.api.application import application
from tests.unit.catalog.packs import small_catalog, small_site

OPERATOR_KEY = "operator-key"
GATEWAY_KEY = "gateway-key"
REQUEST: dict[str, Any] = {
    "name": "chat",
    "tenant": "acme",
    "model": "tiny",
    "region": "local",
    "tier": "dedicated",
    "scaling": {"minReplicas": 1, "maxReplicas": 2},
}


class CountingIds:
    """Identifiers that count."""

    def __init__(self) -> None:
        self._count = 0

    def _next(self) -> int:
        self._count += 1
        return self._count

    def endpoint(self) -> EndpointId:
        """The next endpoint id."""
        return EndpointId(f"ep-{self._next():010}")

    def operation(self) -> OperationId:
        """The next operation id."""
        return OperationId(f"op-{self._next():016}")

    def key(self) -> KeyId:
        """The next key id."""
        return KeyId(f"key-{self._next():010}")

    def secret(self) -> str:
        """The next secret, of a customer key's form."""
        return f"tnt-{self._next():043}"


class Wakes:
    """Counts who was woken."""

    def __init__(self) -> None:
        self.worker = 0
        self.reconciler = 0

    def wake_worker(self) -> None:
        """Count a call."""
        self.worker += 1

    def wake_reconciler(self) -> None:
        """Count a call."""
        self.reconciler += 1


@pytest.fixture
def clock() -> SteppedClock:
    """A clock that tests move."""
    return SteppedClock()


@pytest.fixture
def wakes() -> Wakes:
    """Who was woken."""
    return Wakes()


@pytest.fixture
async def services(tmp_path: Path, clock: SteppedClock, wakes: Wakes) -> AsyncIterator[Services]:
    """Services on a fresh store with the small catalog."""
    store = await open_fresh(tmp_path / "store.sqlite", clock=clock)
    await store.keys.add(bootstrap_key())
    yield Services(
        store=store,
        catalog=small_catalog(),
        site=small_site(),
        clock=clock,
        ids=CountingIds(),
        gateway_key_digest=key_digest(GATEWAY_KEY),
        wake_worker=wakes.wake_worker,
        wake_reconciler=wakes.wake_reconciler,
    )
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name().startswith(TELLING)))
    await store.close()


@pytest.fixture
async def transport(services: Services) -> httpx2.ASGITransport:
    """The application without a socket."""
    return httpx2.ASGITransport(application(services))


@pytest.fixture
async def stranger(transport: httpx2.ASGITransport) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody without a key."""
    async with httpx2.AsyncClient(transport=transport, base_url="http://api.example.com") as http:
        yield http


@pytest.fixture
async def operator(transport: httpx2.ASGITransport) -> AsyncIterator[httpx2.AsyncClient]:
    """The operator; every request has an idempotency key of its own unless it brings one."""
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://api.example.com", headers=headers) as http:
        yield http


@pytest.fixture
async def asked_tenant(operator: httpx2.AsyncClient) -> str:
    """The tenant acme, as it is right after it was asked for."""
    body = {"name": "acme", "displayName": "Acme", "tiers": ["dedicated"]}
    answer = await operator.post("/v1/tenants", json=body, headers=idempotent("tenant"))
    assert answer.status_code == 202, answer.text
    return "acme"


@pytest.fixture
async def acme(asked_tenant: str, services: Services, clock: SteppedClock) -> str:
    """The tenant acme with its operation ended and its projects made."""
    operation = await claim(services, clock)
    tenant = await services.store.tenants.find(asked_tenant)
    assert tenant is not None
    assert operation.lease is not None
    await services.store.tenants.save(replace(tenant, ready=True), operation=operation.id, fence=operation.lease.fence)
    await end(operation, services, clock)
    return asked_tenant


@pytest.fixture
async def research(operator: httpx2.AsyncClient, acme: str) -> str:
    """Team research of tenant acme."""
    body = {"tenant": acme, "name": "research"}
    answer = await operator.post("/v1/teams", json=body, headers=idempotent("research"))
    assert answer.status_code == 201, answer.text
    return "research"


def bootstrap_key() -> ApiKey:
    """The operator's key, as the first start of a server stores it."""
    return ApiKey(
        id=KeyId("key-bootstrap"),
        name="bootstrap",
        digest=key_digest(OPERATOR_KEY),
        prefix="",
        tenant=None,
        created_at=NOON - timedelta(days=1),
        role=AccessRole.ADMIN,
    )


async def claim(services: Services, clock: SteppedClock) -> Operation:
    """Claim the operation that is due, as a worker would."""
    operation = await services.store.operations.claim("test", clock.now(), verbs=tuple(Verb))
    assert operation is not None
    return operation


async def end(
    operation: Operation,
    services: Services,
    clock: SteppedClock,
    *,
    state: OperationState = OperationState.SUCCEEDED,
) -> None:
    """End a claimed operation, as a worker would."""
    assert operation.lease is not None
    turn = Turn(state=state, next_attempt_at=clock.now(), attempts=0)
    await services.store.operations.release(operation.id, operation.lease.fence, turn, clock.now())


def idempotent(key: str) -> dict[str, str]:
    """The header."""
    return {"Idempotency-Key": key}

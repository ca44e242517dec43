"""The page for Prometheus: what every process counts, with bounded labels, and nothing that is anybody's."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import cast

import httpx2
import pytest

from provisioner.api.app import create_app, create_health_app
from provisioner.api.metrics import METRICS, Running
from provisioner.api.services import Services
from provisioner.domain.errors import RetryableError
from provisioner.domain.operation import Verb
from provisioner.domain.snapshot import Snapshot
from provisioner.operations.step import Attempt, Done, Step
from provisioner.operations.verb import VerbDefinition
from provisioner.operations.worker import Worker
from provisioner.platform.interface import Clusters
from provisioner.reconciler.loop import Reconciler
from provisioner.store.interface.usage import Gauges
from tests.store.examples import NOON, SteppedClock
from tests.unit.api.conftest import OPERATOR_KEY, REQUEST, idempotent


async def read(client: httpx2.AsyncClient) -> dict[str, float]:
    """Every sample by its name with its labels."""
    answer = await client.get("/metrics")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def client_of(services: Services, running: Running) -> httpx2.AsyncClient:
    """Somebody without a key, at a process that does something else as well."""
    transport = httpx2.ASGITransport(create_app(services, running=running))
    return httpx2.AsyncClient(transport=transport, base_url="http://api.example.com")


async def test_requests_are_counted_by_the_template_of_their_route(
    operator: httpx2.AsyncClient, stranger: httpx2.AsyncClient, acme: str
) -> None:
    made = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("e"))
    for _ in range(2):
        await operator.get(f"/v1/endpoints/{made.json()['subject']}")
    await operator.get("/v1/endpoints/acme/none")
    await stranger.get("/v1/tenants")
    await stranger.request("BREW", "/v1/coffee/ep-1")
    samples = await read(stranger)
    route = 'route="/v1/endpoints/{reference}",method="GET"'
    assert samples[f'tenantry_api_requests_total{{{route},status="200"}}'] == 2
    assert samples[f'tenantry_api_requests_total{{{route},status="404"}}'] == 1
    assert samples['tenantry_api_requests_total{route="/v1/tenants",method="GET",status="401"}'] == 1
    assert samples['tenantry_api_requests_total{route="none",method="other",status="404"}'] == 1
    assert samples[f"tenantry_api_request_duration_seconds_count{{{route}}}"] == 3
    assert samples[f'tenantry_api_request_duration_seconds_bucket{{{route},le="+Inf"}}'] == 3
    assert not [name for name in samples if "ep-0" in name or "acme" in name or "coffee" in name]


async def test_operations_that_are_open_are_told_and_how_long_the_oldest_waits(
    operator: httpx2.AsyncClient, services: Services, asked_tenant: str, clock: SteppedClock
) -> None:
    clock.advance(90)
    await services.store.snapshots.publish(Snapshot(version=1, created_at=NOON, routes=(), keys=()))
    samples = await read(operator)
    assert samples['tenantry_operations_open{verb="tenant.create",state="pending"}'] == 1
    assert samples["tenantry_operations_oldest_due_seconds"] == 90
    assert samples["tenantry_snapshot_version"] == 1
    assert samples["tenantry_database_up"] == 1
    assert 0 <= samples['tenantry_database_connections{state="in_use"}'] <= 8
    assert samples['tenantry_database_connections{state="most"}'] == 8


async def test_a_worker_counts_its_turns_and_a_reconciler_when_it_went_well(
    asked_tenant: str, services: Services, clock: SteppedClock
) -> None:
    async def done(attempt: Attempt[None]) -> Done:
        return Done()

    async def unheard(attempt: Attempt[None], reason: str, message: str) -> None:
        """Nobody to tell."""

    verb = VerbDefinition(steps=(Step(name="only", run=done),), world=None, on_failed=unheard)
    worker = Worker(services.store.operations, {Verb.TENANT_CREATE: verb}, clock=clock, holder="w", random=Random(0))
    reconciler = Reconciler(clusters=cast(Clusters, None), store=services.store, clock=clock)
    async with client_of(services, Running(turns=worker.turns, reconciled=reconciler.succeeded)) as client:
        assert not [name for name in await read(client) if name.startswith(("tenantry_worker", "tenantry_reconciler"))]
        assert await worker.work_once()
        running = asyncio.create_task(reconciler.run())
        async with asyncio.timeout(60):
            while len(reconciler.succeeded) < 2:
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        samples = await read(client)
    assert samples['tenantry_worker_turns_total{verb="tenant.create",state="succeeded"}'] == 1
    for turn in ("observing", "publishing"):
        name = f'tenantry_reconciler_last_success_timestamp_seconds{{turn="{turn}"}}'
        assert samples[name] == NOON.timestamp()


async def test_a_database_that_is_away_is_told_and_asked_only_now_and_then(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def away() -> Gauges:
        nonlocal asked
        asked += 1
        raise RetryableError("reading the database: away")

    monkeypatch.setattr(services.store.gauges, "read", away)
    transport = httpx2.ASGITransport(create_health_app(services.store, ids=services.ids))
    async with httpx2.AsyncClient(transport=transport, base_url="http://worker") as client:
        pages = await asyncio.gather(*(read(client) for _ in range(5)))
    assert {page["tenantry_database_up"] for page in pages} == {0}
    assert "tenantry_operations_oldest_due_seconds" not in pages[0]
    assert asked == 1


async def test_every_metric_is_explained_and_typed(services: Services, stranger: httpx2.AsyncClient, acme: str) -> None:
    await services.store.snapshots.publish(Snapshot(version=1, created_at=NOON, routes=(), keys=()))
    text = (await stranger.get("/metrics")).text
    told = Counter(line.split(" ", 3)[2] for line in text.splitlines() if line.startswith("# TYPE "))
    assert told == Counter(metric.name for metric in METRICS)
    for metric in METRICS:
        assert f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n" in text
    assert OPERATOR_KEY not in text

"""Reads of the REST API over ten thousand endpoints: a page of a hundred, and mixed reads at a steady rate.

The server is a process of its own, as `tenantry serve api` runs it, on PostgreSQL where its programs are there and on
SQLite otherwise. Requests are sent on schedule, whether earlier ones were answered or not, and a latency counts from
the moment a request was due. The baseline is `/healthz` of the same server in the same run: HTTP and nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from random import Random

import httpx2
from sqlalchemy import insert, update

from provisioner.admission import admit_endpoint
from provisioner.api.app import create_app
from provisioner.api.services import Services
from provisioner.domain.access import AccessRole
from provisioner.domain.clock import SystemClock
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.ids import EndpointId, KeyId, OperationId, RandomIds
from provisioner.domain.key import ApiKey, key_digest
from provisioner.domain.operation import OperationState
from provisioner.store.database import open_database
from provisioner.store.rows import columns_of
from provisioner.store.schema import CHANGES, ENDPOINTS, TENANTS
from provisioner.store.sql import open_store
from provisioner.wiring.serving import serve_app
from tests.store.examples import NOON, tenant, tenant_operation
from tests.store.postgresql import missing_postgresql, running_postgresql
from tests.unit.rendering.examples import catalog, example_site

ENDPOINTS_STORED = 10_000
TENANTS_STORED = 100
PAGES = 60
RATE = 200
SECONDS = 15
WARM_UP_SECONDS = 3
GOAL_PAGE_MS = 20.0
GOAL_P99_MS = 50.0
KEY = "benchmark"


async def main() -> None:
    """Fill a database, serve it, measure, print the table and the goals."""
    with ExitStack() as stack:
        if missing_postgresql() is None:
            url, where = f"{stack.enter_context(running_postgresql())}/postgres", "PostgreSQL"
        else:
            url, where = f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/a.sqlite", "SQLite"
        await fill(url)
        port = stack.enter_context(server(url))
        headers = {"Authorization": f"Bearer {KEY}"}
        base = f"http://127.0.0.1:{port}"
        async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=30, trust_env=False) as http:
            await measure(http, where)


async def measure(http: httpx2.AsyncClient, where: str) -> None:
    """The table and the goals."""
    print(f"{ENDPOINTS_STORED} endpoints of {TENANTS_STORED} tenants on {where}")
    print(f"{'':<34}{'p50 ms':>9}{'p99 ms':>9}{'ratio':>8}")
    idle = [await timed(http, "/healthz") for _ in range(PAGES)]
    base = print_row("/healthz, one at a time", idle, None)
    paged = [await timed(http, path) for path in await pages(http)]
    page = print_row("a page of 100, one at a time", paged, base)
    steady = await at_rate(http, ["/healthz"])
    base = print_row(f"/healthz at {RATE}/s", steady, None)
    await at_rate(http, reads(), seconds=WARM_UP_SECONDS)  # connections are opened, statements compiled
    mixed = await at_rate(http, reads())
    print_row(f"mixed reads at {RATE}/s", mixed, base)
    p99 = percentile(mixed, 99)
    print(f"goal: a page in {GOAL_PAGE_MS:g} ms: {page:.1f} ({'met' if page <= GOAL_PAGE_MS else 'missed'})")
    print(f"goal: p99 of reads under {GOAL_P99_MS:g} ms: {p99:.1f} ({'met' if p99 < GOAL_P99_MS else 'missed'})")


async def pages(http: httpx2.AsyncClient) -> list[str]:
    """The addresses of the first pages of the list."""
    paths = ["/v1/endpoints?limit=100"]
    while len(paths) < PAGES:
        cursor = (await http.get(paths[-1])).json()["nextCursor"]
        paths.append(f"/v1/endpoints?limit=100&cursor={cursor}")
    return paths


def reads() -> list[str]:
    """What a console, a shop and a monitor ask for: mostly single things, at times a tenant's list or a page."""
    random = Random(0)
    weighted = [
        *(f"/v1/endpoints/{endpoint_id(random.randrange(ENDPOINTS_STORED))}" for _ in range(60)),
        *(f"/v1/endpoints?tenant={tenant_name(random.randrange(TENANTS_STORED))}&limit=20" for _ in range(15)),
        *(["/v1/operations?limit=20"] * 10),
        *(["/v1/keys?limit=20"] * 8),
        *(["/v1/tenants?limit=50"] * 5),
        *(["/v1/endpoints?limit=100"] * 2),
    ]
    random.shuffle(weighted)
    return weighted


async def at_rate(http: httpx2.AsyncClient, paths: list[str], *, seconds: int = SECONDS) -> list[float]:
    """Milliseconds of requests that are sent on schedule, from the moment each was due."""
    loop = asyncio.get_running_loop()
    begin = loop.time() + 0.1

    async def send(number: int) -> float:
        due = begin + number / RATE
        await asyncio.sleep(due - loop.time())
        await timed(http, paths[number % len(paths)])
        return (loop.time() - due) * 1e3

    return list(await asyncio.gather(*map(send, range(RATE * seconds))))


async def timed(http: httpx2.AsyncClient, path: str) -> float:
    """Milliseconds of one request."""
    start = time.perf_counter()
    answer = await http.get(path)
    answer.raise_for_status()
    return (time.perf_counter() - start) * 1e3


def print_row(name: str, taken: list[float], base: float | None) -> float:
    """Print one row; its median."""
    median = statistics.median(taken)
    ratio = f"{median / base:>7.1f}x" if base else f"{'':>8}"
    print(f"{name:<34}{median:>9.2f}{percentile(taken, 99):>9.2f}{ratio}")
    return median


def percentile(taken: list[float], which: int) -> float:
    """A percentile."""
    return statistics.quantiles(taken, n=100)[which - 1]


def endpoint_id(number: int) -> EndpointId:
    """The id of an endpoint by number."""
    return EndpointId(f"ep-{number:010d}")


def tenant_name(number: int) -> str:
    """The name of a tenant by number."""
    return f"tenant-{number:03d}"


async def fill(url: str) -> None:
    """Tenants, endpoints with plans as the shipped tiers make them, and the key."""
    store = await open_store(url, clock=SystemClock())
    for number in range(TENANTS_STORED):
        name = tenant_name(number)
        made = tenant_operation(
            id=OperationId(f"op-{number}"),
            tenant=name,
            subject=name,
            idempotency_key=name,
            state=OperationState.SUCCEEDED,
            created_at=NOON + timedelta(seconds=number),
        )
        await store.operations.submit(made, tenant=tenant(name=name, ready=True))
    admin = ApiKey(
        id=KeyId("key-bench"),
        name="benchmark",
        digest=key_digest(KEY),
        prefix="",
        tenant=None,
        created_at=NOON,
        role=AccessRole.ADMIN,
    )
    await store.keys.add(admin)
    await store.close()
    database = open_database(url)
    async with database.write() as connection:
        await connection.execute(insert(ENDPOINTS), [columns_of(one) for one in stored_endpoints()])
        await connection.execute(update(CHANGES).values(number=ENDPOINTS_STORED))
        await connection.execute(update(TENANTS).values(ready=True))
    await database.close()


def stored_endpoints() -> Iterator[Endpoint]:
    """The endpoints, of every tier that makes some by itself."""
    plans = []
    for name, tier in sorted(catalog().tiers.items()):
        request, plan = admit_endpoint(
            {**tier.example, "name": name}, catalog=catalog(), site=example_site(), endpoint_id=EndpointId("ep-x")
        )
        plans.append((request, plan))
    for number in range(ENDPOINTS_STORED):
        request, plan = plans[number % len(plans)]
        owner, name, id_ = tenant_name(number % TENANTS_STORED), f"chat-{number}", endpoint_id(number)
        yield Endpoint(
            id=id_,
            name=name,
            tenant=owner,
            request=replace(request, name=name, tenant=owner),
            plan=replace(plan, endpoint=id_, name=name, tenant=owner),
            phase=Phase.READY,
            created_at=NOON,
            updated_at=NOON,
            operation=OperationId("op-0"),
            version=number,
        )


@contextmanager
def server(url: str) -> Iterator[int]:
    """The port of a server on the database, ended afterwards."""
    command = [sys.executable, "-m", "benchmarks.api", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


async def serve(url: str) -> None:
    """Serve the API as the product does, without anything that looks outside."""
    store = await open_store(url, clock=SystemClock())
    services = Services(
        store=store,
        catalog=catalog(),
        site=example_site(),
        clock=SystemClock(),
        ids=RandomIds(),
        gateway_key_digest=key_digest("gateway"),
    )
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    gc.freeze()  # as `tenantry serve` does
    await serve_app(create_app(services), listener, asyncio.Event())


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]) if len(sys.argv) > 1 else main())

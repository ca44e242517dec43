"""A thousand endpoints asked for at once: the seconds until the last is Ready, and the memory that the server took.

The server's own parts are the real ones, in this process: store, worker, reconciler, template pack, delivery repository
and probe. Outside is the embedded control plane's API server in a process of its own, whose clouds take no time
(`_instant_clouds`), so that what is measured is what creating takes and not what is waited for. Prints what the store
says of the operations, both goals, and each as a ratio of it.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import uvloop

from benchmarks._instant_clouds import HOST, SERVED_MODEL, Ports, run_clouds
from provisioner.admission import admit_endpoint
from provisioner.catalog.loader import load_catalog
from provisioner.delivery.git import GitDelivery
from provisioner.domain.clock import SystemClock
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.ids import RandomIds
from provisioner.domain.lease import Fence
from provisioner.domain.operation import Operation, OperationState
from provisioner.domain.origin import Origin
from provisioner.embedded.apiserver.kubeconfig import write_kubeconfig
from provisioner.embedded.laptop import CONTROL_PLANE, laptop_site
from provisioner.embedded.pki import ensure_pki
from provisioner.embedded.seed import ensure_repository
from provisioner.endpoints.submit import new_create
from provisioner.endpoints.verbs import endpoint_verbs
from provisioner.endpoints.world import World
from provisioner.operations.worker import Worker
from provisioner.platform.clusters import LightkubeClusters
from provisioner.platform.kinds import NAMESPACE, PROJECT
from provisioner.platform.publish import propose, publish
from provisioner.probe.http import HttpProbe
from provisioner.reconciler.loop import Reconciler
from provisioner.rendering.pack import compile_pack
from provisioner.store.interface import Store
from provisioner.store.sql import open_store
from tests.store.examples import tenant, tenant_operation

ENDPOINTS = 1000
TENANTS = 100
TIER = "dedicated"
CATALOG = load_catalog()
GOAL_SECONDS = 60.0
GOAL_MEGABYTES = 300.0
DEADLINE_SECONDS = 600.0
FINAL = frozenset(state.value for state in OperationState if state.is_final)


@dataclass(frozen=True, kw_only=True)
class Server:
    """The parts of a server and what is asked of it."""

    store: Store
    worker: Worker
    reconciler: Reconciler
    asked: Sequence[tuple[Operation, Endpoint]]


async def main(endpoints: int) -> None:
    """Measure once and print the table."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        ensure_pki(state / "pki", now=SystemClock().now())
        await ensure_repository(state / "delivery.git")
        clouds = context.Process(
            target=run_clouds,
            args=(state, [f"{name}.tenants.localhost" for name in tenant_names(endpoints)], theirs),
            daemon=True,
        )
        clouds.start()
        ports: Ports = ours.recv()
        async with server(state, ports, ours, endpoints) as made:
            before = megabytes()
            seconds, cpu = await measure(made, clouds)
            states = await final_states(made)
        ours.send("stop")
        outside = ours.recv()
        clouds.join(10)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{endpoints} endpoints of {min(TENANTS, endpoints)} tenants: {dict(states)}")
    print(f"{'seconds':<52}{seconds:>8.1f}")
    print(f"{'CPU seconds of the server':<52}{cpu:>8.1f}")
    print(f"{'CPU seconds of what is outside, git included':<52}{children.ru_utime + children.ru_stime:>8.1f}")
    print(f"{'megabytes of the server, at most (at the start)':<52}{megabytes():>8.0f} ({before:.0f})")
    print(f"{'megabytes of what is outside':<52}{outside:>8.0f}")
    print_goal("seconds", seconds, GOAL_SECONDS * endpoints / ENDPOINTS)
    print_goal("megabytes of the server", megabytes(), GOAL_MEGABYTES)


def tenant_names(endpoints: int) -> list[str]:
    """The tenants that share so many endpoints."""
    return [f"tenant-{number}" for number in range(min(TENANTS, endpoints))]


def print_goal(what: str, found: float, goal: float) -> None:
    """One goal, and the ratio of it."""
    verdict = "met" if found <= goal else "missed"
    print(f"goal: at most {goal:g} {what}; took {found:.1f}, ratio {found / goal:.2f} ({verdict})")


def megabytes() -> float:
    """The most memory that this process held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@asynccontextmanager
async def server(state: Path, ports: Ports, pipe: Connection, endpoints: int) -> AsyncIterator[Server]:
    """A server with its tier published and its tenants made; the clouds know what will be asked for."""
    write_kubeconfig(state / "kubeconfig", f"http://{HOST}:{ports.api}", ())
    async with AsyncExitStack() as stack:
        clock = SystemClock()
        store = await open_store(f"sqlite:///{state}/store.sqlite", clock=clock)
        stack.push_async_callback(store.close)
        clusters = LightkubeClusters(state / "kubeconfig")
        stack.push_async_callback(clusters.close)
        reconciler = Reconciler(clusters=clusters, store=store, clock=clock)
        pki = state / "pki"
        probe = HttpProbe(
            client_cert=pki / "client.crt", client_key=pki / "client.key", server_ca=pki / "server-ca.crt"
        )
        stack.push_async_callback(probe.close)
        site = laptop_site(
            repository=state / "delivery.git",
            client_ca=(pki / "client-ca.crt").read_text(),
            gateway_port=ports.replicas,
            public_port=ports.public,
        )
        world = World(
            clusters=clusters,
            delivery=GitDelivery(site.delivery.url, state / "work"),
            probe=probe,
            store=store,
            pack=compile_pack(CATALOG, site),
            site=site,
            clock=clock,
            ids=RandomIds(),
            wake_reconciler=reconciler.wake,
        )
        await publish_tier(world)
        for name in tenant_names(endpoints):
            await make_tenant(world, name)
        asked = [ask(world, number, endpoints) for number in range(endpoints)]
        pipe.send([endpoint.plan for _, endpoint in asked])
        worker = Worker(store.operations, endpoint_verbs(world), clock=clock, holder="benchmark", random=Random(0))
        yield Server(store=store, worker=worker, reconciler=reconciler, asked=asked)


async def publish_tier(world: World) -> None:
    """The tier and our own namespace."""
    cluster = world.clusters.control_plane(CONTROL_PLANE)
    objects = compile_pack(CATALOG, world.site).tier_objects(TIER)
    await publish(cluster, await propose(cluster, objects, tier=TIER, fence=Fence(0)), fence=Fence(0))
    await cluster.apply({"metadata": {"name": world.site.gateway.namespace}}, kind=NAMESPACE, fence=Fence(0))


async def make_tenant(world: World, name: str) -> None:
    """A tenant with a project that has no bounds."""
    made = tenant_operation(id=world.ids.operation(), tenant=name, subject=name, idempotency_key=name)
    row = replace(tenant(), name=name, ready=True)
    await world.store.operations.submit(replace(made, state=OperationState.SUCCEEDED), tenant=row)
    project = f"{name}-{TIER}"
    cluster = world.clusters.control_plane(CONTROL_PLANE)
    await cluster.apply({"metadata": {"name": project}, "spec": {}}, kind=PROJECT, fence=Fence(0))
    namespace = f"{world.site.project_namespace_prefix}{project}"
    await cluster.apply({"metadata": {"name": namespace}}, kind=NAMESPACE, fence=Fence(0))


def ask(world: World, number: int, endpoints: int) -> tuple[Operation, Endpoint]:
    """What the API stores for one request."""
    names = tenant_names(endpoints)
    raw = {
        "name": f"chat-{number}",
        "tenant": names[number % len(names)],
        "model": SERVED_MODEL,
        "region": "local",
        "tier": TIER,
        "scaling": {"minReplicas": 1, "maxReplicas": 1},
    }
    request, plan = admit_endpoint(raw, catalog=CATALOG, site=world.site, endpoint_id=world.ids.endpoint())
    key = str(number)
    origin = Origin(idempotency_key=key, request_digest=key, actor="benchmark", request_id=f"req-{key}")
    return new_create(request, plan, origin=origin, clock=world.clock, ids=world.ids)


async def measure(made: Server, clouds: BaseProcess) -> tuple[float, float]:
    """Seconds, and CPU seconds of this process, from the first request until the last operation is over."""
    start, cpu = time.perf_counter(), time.process_time()
    running = [asyncio.create_task(made.worker.run()), asyncio.create_task(made.reconciler.run())]
    for operation, endpoint in made.asked:
        await made.store.operations.submit(operation, endpoint=endpoint)
        made.worker.wake()
    while finished(made.worker) < len(made.asked) and time.perf_counter() - start < DEADLINE_SECONDS:
        await asyncio.sleep(0.1)
        if not clouds.is_alive():
            raise SystemExit(f"measuring creations: the clouds ended early, with: {clouds.exitcode}")
    seconds = time.perf_counter() - start
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    return seconds, time.process_time() - cpu


def finished(worker: Worker) -> int:
    """How many operations are over."""
    return sum(count for (_, state), count in worker.turns.items() if state in FINAL)


async def final_states(made: Server) -> Counter[str]:
    """How the operations ended, by state and reason."""
    ended = [await made.store.operations.get(operation.id) for operation, _ in made.asked]
    return Counter(f"{found.state} {found.reason}".strip() for found in ended)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoints", type=int, nargs="?", default=ENDPOINTS)
    uvloop.run(main(parser.parse_args().endpoints))

"""A whole installation in one process for tests of the verbs: the embedded control plane with a stub model server, the
shipped pack, the real store, worker, reconciler and probe. Only the gateway in front of customers is a stand-in."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from aiohttp import web

from provisioner.admission import admit_endpoint
from provisioner.admission.change import admit_scale, admit_update
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.loader import load_catalog
from provisioner.delivery.git import GitDelivery
from provisioner.domain.clock import SystemClock
from provisioner.domain.conditions import Stage as ShownStage
from provisioner.domain.conditions import StageState, current_stage
from provisioner.domain.endpoint import Change, Endpoint
from provisioner.domain.errors import NotFoundError
from provisioner.domain.ids import EndpointId, OperationId, RandomIds
from provisioner.domain.key import ApiKey, key_digest
from provisioner.domain.lease import Fence
from provisioner.domain.operation import Operation, Verb
from provisioner.domain.origin import Origin
from provisioner.domain.plan import Rollout
from provisioner.embedded.children import is_held
from provisioner.embedded.engines.engine import Engine
from provisioner.embedded.faults import Faults
from provisioner.embedded.plane import PlaneOptions, open_plane
from provisioner.endpoints import submit as endpoint_submit
from provisioner.endpoints.rotate_key import new_rotation
from provisioner.endpoints.verbs import endpoint_verbs
from provisioner.endpoints.world import World
from provisioner.operations.verb import Verbs
from provisioner.operations.worker import Worker
from provisioner.platform.clusters import LightkubeClusters
from provisioner.platform.interface import Cluster
from provisioner.platform.publish import propose, publish
from provisioner.probe.http import HttpProbe
from provisioner.reconciler.loop import Reconciler
from provisioner.rendering.pack import Pack, compile_pack
from provisioner.store.interface import Store
from provisioner.tenants import submit as tenant_submit
from provisioner.tenants.verbs import tenant_verbs
from provisioner.tenants.world import World as TenantWorld
from tests.ports import free_port
from tests.store.fresh import open_fresh

HOST = "127.0.0.1"
DEADLINE_SECONDS = 60.0
ENGINES = {"llama.cpp": Engine((sys.executable, str(Path(__file__).with_name("model_engine.py"))), notice="a stub")}
REQUEST = {
    "name": "chat",
    "tenant": "acme",
    "model": "gemma-3-270m",
    "region": "local",
    "tier": "dedicated",
    "scaling": {"minReplicas": 1, "maxReplicas": 2},
}


@dataclass(frozen=True, kw_only=True)
class Installation:
    """What a test sees and may turn."""

    state: Path
    world: World
    catalog: Catalog
    faults: Faults
    worker: Worker

    @property
    def store(self) -> Store:
        """The rows."""
        return self.world.store

    @property
    def cluster(self) -> Cluster:
        """The control plane cluster."""
        return self.world.clusters.control_plane("control-plane")

    @property
    def processes(self) -> list[str]:
        """The model servers that run."""
        return [str(lock.parent) for lock in (self.state / "pods").rglob("lock") if is_held(lock)]

    async def create_tenant(self, name: str = "acme", tier: str = "dedicated") -> Operation:
        """Create a tenant and wait."""
        operation, tenant = tenant_submit.new_create(
            name, name.title(), (tier,), origin=origin("tenant"), clock=self.world.clock, ids=self.world.ids
        )
        await self.store.operations.submit(operation, tenant=tenant)
        return await self.finish(operation.id)

    async def submit_create(self, **changes: Any) -> Operation:
        """Ask for an endpoint."""
        ids = RandomIds()
        request, plan = admit_endpoint(
            REQUEST | changes, catalog=self.catalog, site=self.world.site, endpoint_id=ids.endpoint()
        )
        pack: Any = self.world.pack
        operation, endpoint = endpoint_submit.new_create(
            request, pack.revised(plan), origin=origin(f"create {request.name}"), clock=self.world.clock, ids=ids
        )
        await self.store.operations.submit(operation, endpoint=endpoint)
        self.worker.wake()
        return operation

    async def submit_update(self, endpoint: str, raw: Any, *, mode: str = "parallel") -> Operation:
        """Ask for another model or other parameters."""
        row = await self.endpoint(endpoint)
        change = admit_update(row, raw, catalog=self.catalog, site=self.world.site)
        pack: Any = self.world.pack
        rollout = Rollout(mode=mode, gap_seconds=0, reason="")
        plan = replace(pack.revised(change.plan), rollout=rollout)
        return await self._submit_change(Verb.ENDPOINT_UPDATE, row, replace(change, plan=plan))

    async def submit_scale(self, endpoint: str, raw: Any) -> Operation:
        """Ask for other bounds."""
        row = await self.endpoint(endpoint)
        change = admit_scale(row, raw, catalog=self.catalog, site=self.world.site)
        return await self._submit_change(Verb.ENDPOINT_SCALE, row, change)

    async def _submit_change(self, verb: Verb, row: Endpoint, change: Change) -> Operation:
        operation, changed = endpoint_submit.new_change(
            verb, row, change, origin=origin(f"{verb} {row.version}"), clock=self.world.clock, ids=RandomIds()
        )
        await self.store.operations.submit(operation, endpoint=changed)
        self.worker.wake()
        return operation

    async def submit_delete(self, endpoint: str) -> Operation:
        """Ask for its end."""
        row = await self.endpoint(endpoint)
        operation, deleting = endpoint_submit.new_delete(
            row, origin=origin(f"delete {endpoint}"), clock=self.world.clock, ids=RandomIds()
        )
        await self.store.operations.submit(operation, endpoint=deleting)
        self.worker.wake()
        return operation

    async def submit_verb(self, verb: Verb, endpoint: str, **asked: Any) -> Operation:
        """Ask for a verb that changes nothing of what the endpoint is."""
        row = await self.endpoint(endpoint)
        operation, changed = endpoint_submit.new_operation(
            verb, row, asked, origin=origin(f"{verb} {row.version}"), clock=self.world.clock, ids=RandomIds()
        )
        await self.store.operations.submit(operation, endpoint=changed)
        self.worker.wake()
        return operation

    async def submit_rotation(self, endpoint: str, *old: ApiKey, secret: str, overlap_seconds: int) -> Operation:
        """Ask for a key with this secret in the place of others."""
        operation, changed, rotation = new_rotation(
            await self.endpoint(endpoint),
            old,
            secret=secret,
            overlap_seconds=overlap_seconds,
            origin=origin(f"rotate {secret}"),
            clock=self.world.clock,
            ids=RandomIds(),
        )
        await self.store.operations.submit(operation, endpoint=changed, rotation=rotation)
        self.worker.wake()
        return operation

    async def submit_offboard(self) -> Operation:
        """Ask for the end of tenant acme and all it has."""
        tenant = await self.store.tenants.find("acme")
        assert tenant
        operation, marked = tenant_submit.new_offboard(
            tenant, origin=origin("offboard"), clock=self.world.clock, ids=RandomIds()
        )
        await self.store.operations.submit(operation, tenant=marked)
        self.worker.wake()
        return operation

    async def endpoint(self, endpoint: str) -> Endpoint:
        """The endpoint's row."""
        return await self.store.endpoints.get(EndpointId(endpoint))

    async def shows(self, endpoint: str, stage: str, state: StageState) -> ShownStage:
        """The stage that a person sees, when it is this one in this state."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while True:
                    shown = current_stage((await self.endpoint(endpoint)).stages)
                    if shown and (shown.name, shown.state) == (stage, state):
                        return shown
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"not {stage} {state} but {shown}") from None

    async def finish(self, operation: OperationId) -> Operation:
        """The operation when it is over."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while True:
                    found = await self.store.operations.get(operation)
                    if found.state.is_final:
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"not over: {found}\n{await self._stages(found)}") from None

    async def waits(self, operation: OperationId, reason: str) -> None:
        """Wait until the operation waits for this reason."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (await self.store.operations.get(operation)).reason != reason:
                await asyncio.sleep(0.05)

    async def backends(self, count: int) -> None:
        """Wait until the current snapshot names so many replicas."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                snapshot = await self.store.snapshots.current()
                if snapshot and [len(route.backends) for route in snapshot.routes] == [count]:
                    return
                await asyncio.sleep(0.05)

    async def _stages(self, operation: Operation) -> object:
        try:
            return (await self.endpoint(operation.subject)).stages
        except NotFoundError:
            return None


@asynccontextmanager
async def installation(
    state: Path, *, tier: str = "dedicated", changed: Mapping[str, object] = MappingProxyType({})
) -> AsyncIterator[Installation]:
    """Everything up, a shipped tier published with options of it `changed`; at the end nothing runs any more."""
    clock, faults = SystemClock(), Faults()
    async with AsyncExitStack() as stack:
        store = await open_fresh(state / "store.sqlite", clock=clock)
        stack.push_async_callback(store.close)
        options = PlaneOptions(
            state=state,
            port=0,
            gateway_port=free_port(),
            public_port=await _front(store, stack),
            kubeconfig=state / "kubeconfig",
        )
        plane = await stack.enter_async_context(open_plane(options, clock=clock, faults=faults, engines=ENGINES))
        clusters = LightkubeClusters(state / "kubeconfig")
        stack.push_async_callback(clusters.close)
        shipped = load_catalog()
        catalog = replace(shipped, tiers={**shipped.tiers, tier: shipped.tiers[tier].model_copy(update=dict(changed))})
        pack = compile_pack(catalog, plane.site)
        cluster, objects = clusters.control_plane("control-plane"), pack.tier_objects(tier)
        await publish(cluster, await propose(cluster, objects, tier=tier, fence=Fence(0)), fence=Fence(0))
        probe = HttpProbe(
            client_cert=state / "pki" / "client.crt",
            client_key=state / "pki" / "client.key",
            server_ca=state / "pki" / "server-ca.crt",
        )
        stack.push_async_callback(probe.close)
        world = World(
            clusters=clusters,
            delivery=GitDelivery(plane.site.delivery.url, state / "work"),
            probe=probe,
            store=store,
            pack=pack,
            site=plane.site,
            clock=clock,
            ids=RandomIds(),
        )
        worker = Worker(store.operations, _verbs(world, pack), clock=clock, holder="worker", random=Random(0))
        reconciler = Reconciler(clusters=clusters, store=store, clock=clock)
        tasks = [asyncio.create_task(worker.run()), asyncio.create_task(reconciler.run())]
        stack.push_async_callback(_cancel, tasks)
        yield Installation(state=state, world=world, catalog=catalog, faults=faults, worker=worker)


def _verbs(world: World, pack: Pack) -> Verbs:
    tenants = TenantWorld(
        bootstrap=world.clusters,
        clusters=world.clusters,
        store=world.store,
        pack=pack,
        site=world.site,
        clock=world.clock,
        new_delete=lambda endpoint, origin: endpoint_submit.new_delete(
            endpoint, origin=origin, clock=world.clock, ids=world.ids
        ),
    )
    return {**endpoint_verbs(world), **tenant_verbs(tenants)}


async def _front(store: Store, stack: AsyncExitStack) -> int:
    """What customers reach, in the place of the gateway: it knows the current snapshot's keys and routes."""

    async def answer(request: web.Request) -> web.Response:
        snapshot = await store.snapshots.current()
        digest = key_digest(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if snapshot is None or digest not in {key.digest for key in snapshot.keys}:
            return web.json_response({}, status=401)
        alias = (await request.json())["model"]
        live = [route for route in snapshot.routes if route.alias == alias and route.backends]
        return web.json_response({"choices": [{}]}, status=200 if live else 404)

    application = web.Application()
    application.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, HOST, 0).start()
    port: int = runner.addresses[0][1]
    return port


def origin(key: str) -> Origin:
    """Where a request of these tests comes from."""
    return Origin(idempotency_key=key, request_digest=f"digest of {key}", actor="operator", request_id="req-7")


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    failed = [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in failed:
        task.result()

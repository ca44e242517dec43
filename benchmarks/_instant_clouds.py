"""Clouds without delays for a benchmark of creations: what is asked for is there at once, in a process of its own.

The API server is the embedded control plane's. Its controllers, which play every object of a real cluster, are replaced
by one that writes what they would have come to: the tenant cluster, its node, Argo CD's Application, routes, the pod,
and a renewed Lease for each replica. Replicas answer over mutual TLS, and customers' address knows every key.
"""

from __future__ import annotations

import asyncio
import functools
import resource
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import orjson
import uvloop
from aiohttp import web

from provisioner.domain.clock import SystemClock
from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.embedded.apiserver.clusters import Cluster, Clusters, Surroundings
from provisioner.embedded.apiserver.kinds import load_builtins
from provisioner.embedded.apiserver.routes.dispatch import Dispatcher
from provisioner.embedded.apiserver.storage import ChangeType, Key, Storage
from provisioner.embedded.apiserver.watch import Subscription
from provisioner.embedded.pki import ensure_pki, issue
from provisioner.endpoints.observe import ENDPOINT_LABEL, runtime_application
from provisioner.platform import kinds
from provisioner.platform.application import INSTANCE_LABEL
from provisioner.platform.interface import Kind

HOST = "127.0.0.1"
SERVED_MODEL = "gemma-3-270m"
_RENEW_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the clouds listen."""

    api: int
    replicas: int
    public: int


def run_clouds(state: Path, domains: Sequence[str], pipe: Connection) -> None:
    """The process, whose replicas have names in these `domains`. It tells its `Ports`, takes the plans, runs
    until it is told to stop, and tells the megabytes that it took at most."""
    uvloop.run(_run(state, domains, pipe))


async def _run(state: Path, domains: Sequence[str], pipe: Connection) -> None:
    async with AsyncExitStack() as stack:
        clusters = _open_clusters(state, stack)
        api = await _listen(stack, Dispatcher(clusters).__call__)
        replicas = await _listen(stack, _answer_replica, tls=_replica_tls(state, domains))
        public = await _listen(stack, _answer_customer)
        pipe.send(Ports(api, replicas, public))
        plans: Sequence[EndpointPlan] = await _received(pipe)
        player = _Player(clusters, {plan.endpoint: plan for plan in plans}, state / "delivery.git")
        playing = [asyncio.create_task(player.play()), asyncio.create_task(player.renew())]
        stopped = asyncio.create_task(_received(pipe))
        await asyncio.wait([*playing, stopped], return_when=asyncio.FIRST_COMPLETED)
        for task in playing:
            if task.done():
                task.result()
            task.cancel()
        pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


async def _received(pipe: Connection) -> Any:
    while not pipe.poll():
        await asyncio.sleep(0.05)
    return pipe.recv()


def _open_clusters(state: Path, stack: AsyncExitStack) -> Clusters:
    load_builtins()
    storage = Storage(state / "apiserver.sqlite")
    stack.callback(storage.close)
    numbers = iter(range(10**9))
    surroundings = Surroundings(
        clock=SystemClock(),
        new_uid=lambda: f"uid-{next(numbers)}",
        new_suffix=lambda: f"{next(numbers):05}",
        logs=state / "pods",
    )
    return Clusters(storage, surroundings)


async def _listen(stack: AsyncExitStack, answer: Any, *, tls: ssl.SSLContext | None = None) -> int:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, HOST, 0, ssl_context=tls, backlog=1024).start()
    return int(runner.addresses[0][1])


def _replica_tls(state: Path, domains: Sequence[str]) -> ssl.SSLContext:
    now, folder = SystemClock().now(), state / "pki"
    pki = ensure_pki(folder, now=now)
    names = [f"*.{domain}" for domain in domains]
    pair = issue(pki.server_ca, "replicas", now=now, lifetime=timedelta(days=1), hostnames=names)
    file = folder / "replicas.pem"
    file.write_bytes(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=pki.client_ca.certificate.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(file)
    return context


async def _answer_replica(request: web.Request) -> web.Response:
    if request.method == "GET":
        return web.json_response({"data": [{"id": SERVED_MODEL}]})
    return web.json_response({"choices": [{"message": {"content": "Hello"}}]})


async def _answer_customer(request: web.Request) -> web.Response:
    return web.json_response({"choices": [{}]}, status=200 if "Authorization" in request.headers else 401)


@dataclass(slots=True)
class _Player:
    """Does what every controller would come to do, as soon as an instance, a route or a Lease is stored."""

    clusters: Clusters
    plans: Mapping[str, EndpointPlan]
    repository: Path
    leases: list[tuple[Cluster, Key]] = field(default_factory=list)
    watches: asyncio.TaskGroup = field(init=False)

    async def play(self) -> None:
        """Until cancelled."""
        instances, routes = (
            self.clusters.control_plane.hub.subscribe(_collection(kind), None)
            for kind in (kinds.VIRTUAL_CLUSTER_INSTANCE, kinds.HTTP_ROUTE)
        )

        async with asyncio.TaskGroup() as self.watches:
            self.watches.create_task(_follow(instances, self._settle_instance))
            self.watches.create_task(_follow(routes, self._settle_route))

    async def renew(self) -> None:
        """Every replica is registered, and stays so."""
        while True:
            for tenant, key in list(self.leases):
                _renew(tenant, key)
                await asyncio.sleep(_RENEW_SECONDS / max(len(self.leases), 1))
            await asyncio.sleep(_RENEW_SECONDS / 10)

    def _register(self, tenant: Cluster, key: Key) -> None:
        self.leases.append((tenant, key))
        _renew(tenant, key)

    def _settle_route(self, key: Key) -> None:
        cluster = self.clusters.control_plane
        route = cluster.read(key)
        if route is not None and key.name in self.plans:
            parents = [{"conditions": _true("Accepted", "ResolvedRefs")}]
            status = {"parents": parents}
            cluster.commit(key, ChangeType.MODIFIED, document={**route, "status": status}, previous=route)

    def _settle_instance(self, key: Key) -> None:
        plan = self.plans.get(key.name)
        cluster = self.clusters.control_plane
        instance = cluster.read(key)
        if plan is None or instance is None:
            return
        conditions = _true("TemplateResolved", "VirtualClusterReady", "VirtualClusterAppsAndObjectsSynced")
        status = {"phase": "Ready", "conditions": conditions}
        cluster.commit(key, ChangeType.MODIFIED, document={**instance, "status": status}, previous=instance)
        claim = {"spec": {"vClusterRef": key.name, "typeRef": plan.capacity.node_type}}
        joined = {"phase": "Available", "conditions": _true("Scheduled", "Provisioned", "Joined")}
        for number in range(plan.capacity.nodes):
            _put(cluster, kinds.NODE_CLAIM, key.namespace, f"{key.name}-{number}", {**claim, "status": joined})
        self._sync(plan, key.namespace)
        self._run(plan)

    def _sync(self, plan: EndpointPlan, namespace: str) -> None:
        commit = _head(self.repository, plan.endpoint)
        told = {
            "sync": {"status": "Synced", "revision": commit},
            "health": {"status": "Healthy"},
            "resources": [{"kind": "StatefulSet", "name": plan.workload, "health": {"status": "Healthy"}}],
        }
        body = {"status": {"application": told}}
        labels = {INSTANCE_LABEL: plan.placement.tenant_cluster}
        _put(self.clusters.control_plane, kinds.APPLICATION, namespace, runtime_application(plan), body, labels)

    def _run(self, plan: EndpointPlan) -> None:
        tenant = self.clusters.tenant(plan.placement.project, plan.placement.tenant_cluster)
        leases = tenant.hub.subscribe(_collection(kinds.LEASE), None)
        self.watches.create_task(_follow(leases, functools.partial(self._register, tenant)))
        labels, place = {ENDPOINT_LABEL: str(plan.endpoint)}, TENANT_NAMESPACE
        _put(tenant, kinds.NAMESPACE, "", place, {})
        offered = {"cpu": "16", "nvidia.com/gpu": "8"}
        for number in range(plan.capacity.nodes):
            node = {"status": {"conditions": _true("Ready"), "allocatable": offered}}
            _put(tenant, kinds.NODE, "", f"node-{number}", node)
        reached = {"conditions": _true("Accepted", "Programmed"), "addresses": [{"value": HOST}]}
        gateway_namespace, gateway = plan.address.gateway
        _put(tenant, kinds.GATEWAY, gateway_namespace, gateway, {"status": reached})
        for ordinal in range(plan.runtime.max_replicas):
            host = plan.replica_host(ordinal)
            spec = {"hostnames": [host], "parentRefs": [{"name": gateway}]}
            route = {"spec": spec, "status": {"parents": [{"conditions": _true("Accepted", "ResolvedRefs")}]}}
            _put(tenant, kinds.HTTP_ROUTE, place, host.partition(".")[0], route, labels)
        owner = _put(tenant, kinds.STATEFUL_SET, place, plan.workload, {"status": {"readyReplicas": 1}}, labels)
        server = {"name": "server", "state": {"running": {}}, "ready": True}
        status = {"containerStatuses": [server], "conditions": _true("PodScheduled", "Ready")}
        pod = {"spec": {"nodeName": "node-0"}, "status": status}
        _put(tenant, kinds.POD, place, f"{plan.workload}-0", pod, labels, owner=owner)


def _head(repository: Path, branch: str) -> str:
    """Where a branch is; git packs refs from time to time."""
    with suppress(FileNotFoundError):
        return (repository / "refs" / "heads" / branch).read_text().strip()
    lines = (repository / "packed-refs").read_text().splitlines()
    return next(line.partition(" ")[0] for line in lines if line.endswith(f" refs/heads/{branch}"))


async def _follow(subscription: Subscription, settle: Callable[[Key], None]) -> None:
    while (change := await subscription.next(3600)) is not None:
        if change.type is ChangeType.ADDED:
            settle(change.key)


def _renew(tenant: Cluster, key: Key) -> None:
    lease = tenant.read(key)
    if lease is not None:
        spec = {**lease["spec"], "holderIdentity": key.name, "renewTime": SystemClock().now().isoformat()}
        tenant.commit(key, ChangeType.MODIFIED, document={**lease, "spec": spec}, previous=lease)


def _put(
    cluster: Cluster,
    kind: Kind,
    namespace: str,
    name: str,
    body: Mapping[str, Any],
    labels: Mapping[str, str] | None = None,
    *,
    owner: str | None = None,
) -> str:
    """Store an object as a controller would; its uid."""
    uid = cluster.surroundings.new_uid()
    metadata: dict[str, Any] = {"name": name, "uid": uid, "labels": dict(labels or {}), "generation": 1}
    if namespace:
        metadata["namespace"] = namespace
    if owner:
        metadata["ownerReferences"] = [{"kind": "StatefulSet", "name": name, "uid": owner}]
    status = {"observedGeneration": 1, **body.get("status", {})}
    document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body, "status": status}
    key = Key(_collection(kind), namespace, name)
    cluster.commit(key, ChangeType.ADDED, document=orjson.loads(orjson.dumps(document)), previous=None)
    return uid


def _collection(kind: Kind) -> str:
    return f"{kind.group}/{kind.plural}"


def _true(*types: str) -> list[dict[str, str]]:
    return [{"type": name, "status": "True"} for name in types]

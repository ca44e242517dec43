"""A tenant cluster for tests: the real API server with the workload half of the controllers, and no Platform.

What the Platform would do is done by hand: the instance is Ready and has a node with two pretend GPUs.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from provisioner.domain.clock import SystemClock
from provisioner.embedded.apiserver.server import serve_api
from provisioner.embedded.children import Children
from provisioner.embedded.controllers.api import Api, Json, open_session
from provisioner.embedded.controllers.core.controllers import core_controllers
from provisioner.embedded.controllers.core.kinds import DEPLOYMENT, LEASE, STATEFUL_SET
from provisioner.embedded.controllers.gateway_api.controller import gateway_controllers
from provisioner.embedded.controllers.gateway_api.listener import Listeners
from provisioner.embedded.controllers.keda import keda_controller
from provisioner.embedded.controllers.kinds import INSTANCE, NAMESPACE, NODE, POD
from provisioner.embedded.controllers.loop import Cluster, run_cluster, run_tenants
from provisioner.embedded.controllers.workload.controllers import workload_controllers
from provisioner.embedded.controllers.workload.kubelet import Kubelet
from provisioner.embedded.engines.engine import Engine, Engines
from provisioner.embedded.faults import Faults
from provisioner.platform.interface import Kind

PROJECT, NAME, INFERENCE = "acme-dedicated", "ep-one", "inference"
CLOCK = SystemClock()
T = TypeVar("T")
STUB: Engines = {
    "acme/stub": Engine((sys.executable, str(Path(__file__).with_name("stub_engine.py"))), notice="a stub answers")
}


@dataclass(frozen=True)
class Client:
    """The tenant cluster as any client sees it."""

    api: Api
    control_plane: Api

    async def create(self, *manifests: Json) -> None:
        """Create objects of kinds that the server serves."""
        for manifest in manifests:
            kind = await self.api.kind_of(manifest["apiVersion"], manifest["kind"])
            await self.api.create(kind, manifest)

    async def get(self, kind: Kind, name: str) -> Json:
        """An object of the inference namespace; empty when there is none."""
        return await self.api.get(kind, name, namespace=INFERENCE) or {}

    async def pod(self, name: str) -> Json:
        """A pod; empty when there is none."""
        return await self.get(POD, name)

    async def stateful_set(self, name: str) -> Json:
        """A StatefulSet; empty when there is none."""
        return await self.get(STATEFUL_SET, name)

    async def lease(self, name: str) -> Json:
        """A Lease; empty when there is none."""
        return await self.get(LEASE, name)

    async def scale(self, kind: Kind, name: str, replicas: int) -> None:
        """Set the replicas as `kubectl scale` does."""
        await self.api.patch(kind, name, {"spec": {"replicas": replicas}}, namespace=INFERENCE, subresource="scale")


@dataclass(frozen=True)
class Tenant(Client):
    """The tenant cluster, and what its controllers run with."""

    children: Children
    faults: Faults
    url: str


@asynccontextmanager
async def reach_tenant(url: str) -> AsyncIterator[Client]:
    """The tenant cluster of a plane that runs elsewhere."""
    async with open_session() as session:
        control_plane = Cluster(Api(session, url), Api(session, url))
        yield Client(control_plane.tenant(PROJECT, NAME).api, control_plane.api)


@asynccontextmanager
async def open_tenant(state: Path, *, engines: Engines = STUB) -> AsyncIterator[Tenant]:
    """Start the server and the controllers; at the end all processes are gone."""
    async with AsyncExitStack() as stack:
        children = Children(state / "pods")
        stack.push_async_callback(children.end_all, grace_seconds=1.0)
        server = await serve_api(state=state, host="127.0.0.1", port=0, clock=CLOCK)
        stack.push_async_callback(server.close)
        session = await stack.enter_async_context(open_session())
        control_plane = Cluster(Api(session, server.url), Api(session, server.url))
        listeners = Listeners()
        stack.push_async_callback(listeners.close)
        faults = Faults()
        kubelet = Kubelet(
            clock=CLOCK, children=children, engines=engines, models=state / "models", faults=faults, session=session
        )
        core = core_controllers(clock=CLOCK, every_kind=False)
        both = (*core, *gateway_controllers(clock=CLOCK, listeners=listeners, faults=faults))
        tenants = (*both, *workload_controllers(kubelet), keda_controller())
        running = [
            asyncio.create_task(run_cluster((*both, kubelet.control_plane_controller()), control_plane)),
            asyncio.create_task(run_tenants(tenants, control_plane)),
        ]
        stack.push_async_callback(_cancel, running)
        await make_instance(control_plane.api)
        tenant = control_plane.tenant(PROJECT, NAME)
        await _seed(tenant.api)
        yield Tenant(tenant.api, control_plane.api, children, faults, server.url)


async def make_instance(api: Api) -> None:
    """A ready tenant cluster, unless it is there."""
    namespace = f"p-{PROJECT}"
    if await api.get(INSTANCE, NAME, namespace=namespace):
        return
    await api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    manifest = {
        "apiVersion": INSTANCE.api_version,
        "kind": INSTANCE.kind,
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {},
    }
    found = await api.create(INSTANCE, manifest)
    ready = {"type": "VirtualClusterReady", "status": "True", "reason": "Ready", "message": ""}
    await api.write_status(INSTANCE, found, {"conditions": [{**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]})


async def _seed(api: Api) -> None:
    if await api.get(NAMESPACE, INFERENCE):
        return
    await api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": INFERENCE}})
    await make_node(api, "gpu-1", gpus=2)


async def make_node(api: Api, name: str, *, gpus: int) -> None:
    """A Ready node with so many pretend GPUs."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"tenantry.io/node-type": "gpu"}},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule", "value": "present"}]},
        "status": {"allocatable": allocatable, "capacity": allocatable, "conditions": [ready]},
    }
    await api.create(NODE, node)


def pod_template(*arguments: str, image: str = "registry.example.com/acme/stub:1", gpus: int = 1) -> Json:
    """What a replica looks like, with the stub in the place of a model server."""
    return {
        "metadata": {"labels": {"app": "stub"}},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "nodeSelector": {"tenantry.io/node-type": "gpu"},
            "containers": [
                {
                    "name": "server",
                    "image": image,
                    "args": ["--port", "8080", "--host=0.0.0.0", *arguments],
                    "resources": {"limits": {"nvidia.com/gpu": gpus}, "requests": {"cpu": "100m"}},
                    "readinessProbe": {"httpGet": {"path": "/health", "port": 8080}, "failureThreshold": 1},
                }
            ],
        },
    }


def stateful_set(name: str, template: Json, *, replicas: int = 1) -> Json:
    """A StatefulSet as the runtimes render it."""
    return {
        "apiVersion": STATEFUL_SET.api_version,
        "kind": STATEFUL_SET.kind,
        "metadata": {"name": name, "namespace": INFERENCE},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
            "selector": {"matchLabels": {"app": "stub"}},
            "template": template,
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "models"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
        },
    }


def deployment(name: str, template: Json, *, replicas: int = 1) -> Json:
    """A Deployment of the same pods."""
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": {"name": name, "namespace": INFERENCE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "stub"}}, "template": template},
    }


async def eventually(look: Callable[[], Awaitable[T]], holds: Callable[[T], Any], *, seconds: float = 60.0) -> T:
    """What `look` finds, as soon as `holds` is true of it."""
    deadline = time.monotonic() + seconds
    while True:
        found = await look()
        if holds(found):
            return found
        assert time.monotonic() < deadline, f"it did not come true in time: {found}"
        await asyncio.sleep(0.05)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _run(state: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with open_tenant(state) as tenant:
        print(tenant.url, flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1])))

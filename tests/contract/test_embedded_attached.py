"""The controllers are ordinary clients: attached to a real kube-apiserver they run the same workloads."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from importlib import resources
from pathlib import Path

import aiohttp
import yaml

from provisioner.embedded.children import Children
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.core.controllers import core_controllers
from provisioner.embedded.controllers.core.kinds import DEPLOYMENT, QUOTA
from provisioner.embedded.controllers.gateway_api.controller import gateway_controllers
from provisioner.embedded.controllers.gateway_api.listener import Listeners
from provisioner.embedded.controllers.keda import keda_controller
from provisioner.embedded.controllers.kinds import NAMESPACE, NODE
from provisioner.embedded.controllers.loop import Cluster, is_true, run_cluster
from provisioner.embedded.controllers.workload.controllers import workload_controllers
from provisioner.embedded.controllers.workload.kubelet import Kubelet
from provisioner.embedded.faults import Faults
from tests.conformance.servers import Server, kube_apiserver
from tests.contract.embedded_cluster import (
    CLOCK,
    INFERENCE,
    STUB,
    Client,
    deployment,
    eventually,
    make_node,
    pod_template,
    stateful_set,
)

CRDS = ("gateway.networking.k8s.io.yaml", "keda.sh.yaml")


async def test_workloads_of_a_real_cluster_become_processes_and_leave_nothing(tmp_path: Path) -> None:
    with kube_apiserver(tmp_path) as server:
        async with AsyncExitStack() as stack:
            client, children = await attach(server, tmp_path / "state", stack)
            await client.create(stateful_set("one", pod_template(), replicas=2))
            await client.create(deployment("web", pod_template(gpus=0)))
            hard = {"pods": "9"}
            quota = {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "limits", "namespace": INFERENCE},
            }
            await client.create({**quota, "spec": {"hard": hard}})
            await eventually(lambda: client.stateful_set("one"), lambda found: ready_replicas(found) == 2)
            await eventually(lambda: client.get(DEPLOYMENT, "web"), lambda found: is_true(found, "Available"))
            await eventually(
                lambda: client.get(QUOTA, "limits"), lambda found: found["status"].get("used") == {"pods": "3"}
            )
            assert len(children.names()) == 3
            await client.api.delete(NAMESPACE, INFERENCE)
            await eventually(lambda: client.api.get(NAMESPACE, INFERENCE), lambda found: found is None, seconds=30)
            assert children.names() == []


async def attach(server: Server, state: Path, stack: AsyncExitStack) -> tuple[Client, Children]:
    """Run all controllers of a tenant cluster over a real API server, which has one node."""
    connector = aiohttp.TCPConnector(limit=0, ssl=False)
    headers = {"Authorization": f"Bearer {server.token}"}
    session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector, headers=headers))
    api = Api(session, server.url)
    await install_crds(api)
    await api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": INFERENCE}})
    await make_node(api, "gpu-1", gpus=2)
    await api.patch(NODE, "gpu-1", {"spec": {"taints": None}})  # a new node of a real cluster has a taint of its own
    children = Children(state / "pods")
    stack.push_async_callback(children.end_all, grace_seconds=1.0)
    listeners = Listeners()
    stack.push_async_callback(listeners.close)
    kubelet = Kubelet(
        clock=CLOCK,
        children=children,
        engines=STUB,
        models=state / "models",
        faults=Faults(),
        session=await stack.enter_async_context(aiohttp.ClientSession()),
    )
    controllers = (
        *core_controllers(clock=CLOCK, every_kind=False),
        *gateway_controllers(clock=CLOCK, listeners=listeners, faults=Faults()),
        *workload_controllers(kubelet),
        keda_controller(),
    )
    running = asyncio.create_task(run_cluster(controllers, Cluster(api, api)))
    stack.push_async_callback(cancel, running)
    return Client(api, api), children


async def install_crds(api: Api) -> None:
    """Our own slim definitions of the kinds that a bare API server lacks."""
    kind = await api.kind_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    folder = resources.files("provisioner.embedded.apiserver") / "crds"
    for name in CRDS:
        for definition in yaml.safe_load((folder / name).read_text())["items"]:
            definition["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, slim definitions"}
            await api.create(kind, definition)
    await eventually(lambda: api.list(kind), lambda found: all(is_true(item, "Established") for item in found))


async def cancel(task: asyncio.Task[None]) -> None:
    """End the controllers."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def ready_replicas(found: Json) -> int:
    """How many replicas a StatefulSet reports ready."""
    return int((found.get("status") or {}).get("readyReplicas") or 0)

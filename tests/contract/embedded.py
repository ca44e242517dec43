"""A control plane cluster with the Platform's and Argo CD's stand-ins, for tests that look at it from outside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from provisioner.domain.clock import SystemClock
from provisioner.embedded.apiserver.server import serve_api
from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.controllers.conditions import find_condition
from provisioner.embedded.controllers.kinds import APPLICATION, INSTANCE, NODE_CLAIM
from provisioner.embedded.controllers.loop import Cluster, Controller, run_cluster
from provisioner.embedded.faults import Faults
from provisioner.embedded.laptop import laptop_site
from provisioner.embedded.seed import ensure_platform_namespace, ensure_repository, seed_cluster
from provisioner.embedded.troupe import platform_controllers

Json = dict[str, Any]
T = TypeVar("T")

NAMESPACE = "p-acme-dedicated"
DEADLINE_SECONDS = 60.0


class Applying(Protocol):
    """A control plane cluster that a test may fill."""

    @property
    def api(self) -> Api:
        """The cluster."""
        ...

    @property
    def repository(self) -> Path:
        """The delivery repository."""
        ...

    async def apply(self, manifest: Json) -> Json:
        """Make an object as a person would."""
        ...


@dataclass(frozen=True)
class World:
    """What a test sees and may turn."""

    api: Api
    faults: Faults
    repository: Path
    controllers: tuple[Controller, ...]
    task: asyncio.Task[None]

    async def stop(self) -> None:
        """Stop the controllers and leave the API server running."""
        assert not self.task.done(), self.task
        self.task.cancel()
        await asyncio.wait((self.task,))

    async def apply(self, manifest: Json) -> Json:
        """Make an object as a person would."""
        kind = await self.api.kind_of(manifest["apiVersion"], manifest["kind"])
        return await self.api.apply(kind, manifest, manager="acme")

    def tenant(self, name: str = "ep-one") -> Api:
        """The API of a tenant cluster of the project."""
        return Cluster(self.api, self.api).tenant("acme-dedicated", name).api

    async def instance(self, name: str = "ep-one") -> Json:
        """A tenant cluster's object."""
        found = await self.api.get(INSTANCE, name, namespace=NAMESPACE)
        assert found is not None
        return found

    async def condition(self, name: str, instance: str = "ep-one") -> Json:
        """A tenant cluster's condition, `{}` while there is none."""
        return find_condition(await self.instance(instance), name) or {}

    async def claims(self) -> list[Json]:
        """The node claims of the project."""
        return await self.api.list(NODE_CLAIM, namespace=NAMESPACE)

    async def application(self, name: str = "ep-one-runtime") -> Json:
        """`status.application` of an Application, `{}` while there is none."""
        found = await self.api.get(APPLICATION, name, namespace=NAMESPACE)
        status: Json = ((found or {}).get("status") or {}).get("application") or {}
        return status


async def eventually(look: Callable[[], Awaitable[T]], until: Callable[[T], object]) -> T:
    """Look until it is as wanted; the last look when the deadline passes without it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        seen = await look()
        if until(seen):
            return seen
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS} s, last seen: {seen}"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def running(state: Path, *, poll_seconds: float = 0.2) -> AsyncIterator[World]:
    """The API server and the controllers over a state, which may be one that is there."""
    server = await serve_api(state=state, host="127.0.0.1", port=0, clock=SystemClock())
    try:
        async with open_session() as session, attached(Api(session, server.url), state, poll_seconds) as world:
            yield world
    finally:
        await server.close()


@asynccontextmanager
async def attached(api: Api, state: Path, poll_seconds: float = 0.2) -> AsyncIterator[World]:
    """The controllers over any API server, with the delivery repository under `state`."""
    repository = state / "delivery.git"
    site = laptop_site(repository=repository, client_ca="PEM", gateway_port=1, public_port=2)
    faults = Faults(pace={"tenant_cluster": 0.02, "capacity": 0.02, "argo_sync": 0.02})
    await ensure_repository(repository)
    await ensure_platform_namespace(api, site)
    await seed_cluster(api, site)
    controllers = platform_controllers(site, faults=faults, clock=SystemClock(), poll_seconds=poll_seconds)
    task = asyncio.create_task(run_cluster(controllers, Cluster(api, api)))
    world = World(api, faults, repository, controllers, task)
    try:
        yield world
    finally:
        if not task.cancelled():
            await world.stop()


async def publish(world: Applying, *, project: Json | None = None, provider: Json | None = None) -> None:
    """A tier as small as it can be: provider, templates, and the project with what a test says about it."""
    types = [{"name": "gpu", "resources": {"cpu": "8", "nvidia.com/gpu": "1"}, "maxCapacity": 4, "cost": 1}]
    manifests = [
        _object("NodeProvider", "laptop", terraform={"nodeTypes": types} if provider is None else provider),
        _object("NodeProfile", "gpu", nodeLabels={"tier": "dedicated"}),
        _object("VirtualClusterTemplate", "dedicated", versions=[{"version": "1.0.0", **TENANT_CLUSTER}]),
        _object("ArgoCDApplicationTemplate", "runtime", **_runtime(str(world.repository))),
        _object("ArgoCDApplicationTemplate", "stack", template={"spec": {"source": _CHART, **_AUTOMATED}}),
        _object("Project", "acme-dedicated", **(project or {})),
    ]
    for manifest in manifests:
        await world.apply(manifest)
    namespace = await world.api.kind_of("v1", "Namespace")
    await eventually(lambda: world.api.get(namespace, NAMESPACE), bool)


async def create(world: Applying, name: str = "ep-one", *, version: str = "1.0.0", **parameters: object) -> None:
    """A tenant cluster of the tier."""
    text = "\n".join(f"{key}: {value}" for key, value in parameters.items())
    reference = {"name": "dedicated", "version": version}
    manifest = _object("VirtualClusterInstance", name, templateRef=reference, parameters=text)
    manifest["metadata"]["namespace"] = NAMESPACE
    await world.apply(manifest)


def _object(kind: str, name: str, **spec: object) -> Json:
    return {"apiVersion": "management.loft.sh/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


_VALUES = """
privateNodes:
  enabled: true
  autoNodes:
    - provider: laptop
      static:
        - name: gpu
          quantity: {{ .Values.nodes }}
          profile: gpu
          taints: [{key: gpu, effect: NoSchedule}]
          nodeTypeSelector: [{property: vcluster.com/node-type, value: laptop.gpu}]
      dynamic:
        - name: burst
          limits: {nodes: "1"}
          disruption: {consolidateAfter: 0s}
integrations:
  argoCD: {enabled: true, connector: "{{ .Values.connector }}"}
deploy:
  argoCD:
    applications:
      - name: "{{ .Values.loft.name }}-stack"
        template: {name: stack}
      - name: "{{ .Values.loft.name }}-runtime"
        template:
          name: runtime
          parameters: {path: "endpoints/{{ .Values.loft.name }}", revision: "{{ .Values.loft.name }}"}
"""
_OBJECTS = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: from-template
  namespace: default
data:
  name: "{{ .Values.loft.name }}"
"""
TENANT_CLUSTER: Json = {
    "parameters": [
        {"variable": "nodes", "type": "number", "defaultValue": "1"},
        {"variable": "connector", "defaultValue": "argocd-main"},
    ],
    "template": {
        "instanceTemplate": {"metadata": {"labels": {"tier": "dedicated"}}},
        "helmRelease": {"chart": {"version": "0.36.1"}, "values": _VALUES},
        "objects": _OBJECTS,
    },
}
_AUTOMATED: Json = {
    "destination": {"namespace": "inference"},
    "syncPolicy": {"automated": {"prune": True, "selfHeal": True}, "syncOptions": ["CreateNamespace=true"]},
}
_CHART = {"repoURL": "https://charts.example.com", "chart": "gpu-operator", "targetRevision": "v26.3.0"}


def _runtime(repository: str) -> Json:
    source = {"repoURL": repository, "path": "{{ .Values.path }}", "targetRevision": "{{ .Values.revision }}"}
    parameters = [{"variable": name, "required": True} for name in ("path", "revision")]
    return {"parameters": parameters, "template": {"spec": {"source": source, **_AUTOMATED}}}

"""Applications of Argo CD's stand-in for tests: what is committed, and what is waited for."""

from __future__ import annotations

import json
from typing import Any

from provisioner.embedded.controllers.conditions import find_condition
from provisioner.embedded.controllers.kinds import APPLICATION
from provisioner.platform.interface import Kind
from tests.contract.embedded import NAMESPACE as PROJECT_NAMESPACE
from tests.contract.embedded import World, create, eventually
from tests.unit.embedded.controllers.delivery import commit

Json = dict[str, Any]
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
SETS = Kind("apps", "v1", "StatefulSet", "statefulsets")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")


def config_map(name: str, *, wave: int | None = None, **data: str) -> Json:
    """A ConfigMap, in a wave of its sync."""
    metadata: Json = {"name": name}
    if wave is not None:
        metadata["annotations"] = {"argocd.argoproj.io/sync-wave": str(wave)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def volume_claim(name: str, *, wave: int) -> Json:
    """A claim that nobody binds."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": str(wave)}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def stateful_set(name: str) -> Json:
    """A StatefulSet of an image that is nowhere."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "example.com/x"}]}}
    spec = {"serviceName": name, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


def deliver(world: World, *manifests: Json, endpoint: str = "ep-one") -> str:
    """Commit manifests as an endpoint's; the commit."""
    files = {
        f"endpoints/{endpoint}/{found['kind'].lower()}.{found['metadata']['name']}.yaml": json.dumps(found)
        for found in manifests
    }
    return commit(world.repository, endpoint, files)


def synced(revision: str) -> Any:
    """Whether a status says that a commit is in the cluster."""
    return lambda status: (
        (status.get("sync") or {}).get("revision") == revision and status["sync"]["status"] == "Synced"
    )


def says(health: str) -> Any:
    """Whether a status says a health."""
    return lambda status: (status.get("health") or {}).get("status") == health


async def eventually_synced(world: World, revision: str) -> None:
    """The tenant cluster is there and the commit is in it."""
    await create(world)
    await eventually(world.application, synced(revision))


def own_application(spec: Json) -> Json:
    """An Application that somebody made beside that of the template."""
    return {
        "apiVersion": "management.loft.sh/v1",
        "kind": "ArgoCDApplication",
        "metadata": {"name": "ep-two-runtime", "namespace": PROJECT_NAMESPACE},
        "spec": {**spec, "destination": {"virtualCluster": {"name": "ep-one", "target": "vCluster"}}},
    }


async def synced_condition(world: World) -> Json:
    """What it says of its sync."""
    found = await world.api.get(APPLICATION, "ep-two-runtime", namespace=PROJECT_NAMESPACE)
    return find_condition(found or {}, "Synced") or {}


async def names_of_maps(world: World) -> set[str]:
    """The ConfigMaps in the tenant cluster."""
    return {found["metadata"]["name"] for found in await world.tenant().list(CONFIG_MAP, namespace="inference")}


async def data_of_one(world: World) -> Json | None:
    """What the ConfigMap `one` holds there."""
    found = await world.tenant().get(CONFIG_MAP, "one", namespace="inference")
    return found["data"] if found else None

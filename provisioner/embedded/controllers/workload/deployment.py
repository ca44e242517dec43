"""Deployments and ReplicaSets: a ReplicaSet per revision, pods per ReplicaSet, and the conditions that roll-outs show.

A new revision comes up whole beside the old one, which shrinks as the new one's pods become ready (with `Recreate` it
goes first). A laptop has room for the surge or shows that it has not; `maxSurge` and `maxUnavailable` are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from provisioner.domain.clock import Clock
from provisioner.domain.errors import ConflictError
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.conditions import Condition, write_conditions
from provisioner.embedded.controllers.core.kinds import DEPLOYMENT, REPLICA_SET
from provisioner.embedded.controllers.kinds import POD
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch, owner_keys
from provisioner.embedded.controllers.workload.pods import (
    is_final,
    is_ready,
    is_terminating,
    list_owned,
    new_pod,
    owner_reference,
    template_hash,
)

_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"


def deployment_controllers(*, clock: Clock) -> Sequence[Controller]:
    """The controllers of Deployments and ReplicaSets, for every tenant cluster."""
    deployments = (Watch(DEPLOYMENT), Watch(REPLICA_SET, keys=owner_keys("Deployment")))
    replica_sets = (Watch(REPLICA_SET), Watch(POD, keys=owner_keys("ReplicaSet")))
    return (
        Controller("deployments", deployments, _Deployments(clock).reconcile),
        Controller("replica sets", replica_sets, _reconcile_replica_set),
    )


async def _reconcile_replica_set(cluster: Cluster, key: Key) -> float | None:
    found = await cluster.api.get(REPLICA_SET, key.name, namespace=key.namespace)
    if found is None or "deletionTimestamp" in found["metadata"]:
        return None
    pods = await list_owned(cluster.api, POD, found)
    living = [pod for pod in pods if not is_terminating(pod) and not is_final(pod)]
    wanted = found["spec"].get("replicas", 1)
    for _ in range(len(living), wanted):
        await cluster.api.create(POD, new_pod(REPLICA_SET, found, labels={}, metadata={"generateName": f"{key.name}-"}))
    for pod in sorted(living, key=is_ready)[: max(0, len(living) - wanted)]:
        await cluster.api.delete(POD, pod["metadata"]["name"], namespace=key.namespace)
    ready = sum(is_ready(pod) for pod in living)
    status = {
        "observedGeneration": found["metadata"].get("generation", 1),
        "replicas": len(living),
        "fullyLabeledReplicas": len(living),
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    await cluster.api.write_status(REPLICA_SET, found, status)
    return None


@dataclass(frozen=True, slots=True)
class _Deployments:
    clock: Clock

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        found = await cluster.api.get(DEPLOYMENT, key.name, namespace=key.namespace)
        if found is None or "deletionTimestamp" in found["metadata"]:
            return None
        name = f"{key.name}-{template_hash(found['spec']['template'])}"
        owned = await list_owned(cluster.api, REPLICA_SET, found)
        current = next((item for item in owned if item["metadata"]["name"] == name), None)
        olds = [item for item in owned if item["metadata"]["name"] != name]
        recreates = (found["spec"].get("strategy") or {}).get("type") == "Recreate"
        is_clear = not recreates or all(_count(old, "replicas") == 0 for old in olds)
        revision = max((int(_revision(item)) for item in olds), default=0) + 1
        if current is None and is_clear:
            current = await _create_replica_set(cluster.api, found, name, revision)
        elif current is not None:
            await _scale(cluster.api, current, found["spec"].get("replicas", 1) if is_clear else 0)
        ready = _count(current, "readyReplicas")
        for old in olds:
            await _scale(cluster.api, old, 0 if recreates else max(0, found["spec"].get("replicas", 1) - ready))
        await self._write_status(cluster.api, found, current, olds)
        if current is not None:
            annotations = {"metadata": {"annotations": {_REVISION: _revision(current)}}}
            if (found["metadata"].get("annotations") or {}).get(_REVISION) != _revision(current):
                await cluster.api.patch(DEPLOYMENT, key.name, annotations, namespace=key.namespace)
        return None

    async def _write_status(self, api: Api, found: Json, current: Json | None, olds: Sequence[Json]) -> None:
        wanted = found["spec"].get("replicas", 1)
        every = [item for item in (current, *olds) if item is not None]
        ready = sum(_count(item, "readyReplicas") for item in every)
        updated = _count(current, "replicas")
        is_whole = ready >= wanted == updated and not any(_count(old, "replicas") for old in olds)
        name = current["metadata"]["name"] if current else ""
        conditions = (
            Condition(
                "Available",
                met=ready >= wanted,
                reason="MinimumReplicasAvailable" if ready >= wanted else "MinimumReplicasUnavailable",
                message=f"{ready} of {wanted} replicas are available",
            ),
            Condition(
                "Progressing",
                met=True,
                reason="NewReplicaSetAvailable" if is_whole else "ReplicaSetUpdated",
                message=f'ReplicaSet "{name}" ' + ("has successfully progressed." if is_whole else "is progressing."),
            ),
        )
        await write_conditions(
            api,
            DEPLOYMENT,
            found,
            conditions,
            now=self.clock.now(),
            observedGeneration=found["metadata"].get("generation", 1),
            replicas=sum(_count(item, "replicas") for item in every),
            updatedReplicas=updated,
            readyReplicas=ready,
            availableReplicas=ready,
            unavailableReplicas=max(0, wanted - ready),
        )


def _count(found: Json | None, name: str) -> int:
    return int(((found or {}).get("status") or {}).get(name) or 0)


def _revision(replica_set: Json) -> str:
    return str((replica_set["metadata"].get("annotations") or {}).get(_REVISION, "1"))


async def _scale(api: Api, replica_set: Json, wanted: int) -> None:
    metadata = replica_set["metadata"]
    if replica_set["spec"].get("replicas") != wanted:
        await api.patch(REPLICA_SET, metadata["name"], {"spec": {"replicas": wanted}}, namespace=metadata["namespace"])


async def _create_replica_set(api: Api, deployment: Json, name: str, revision: int) -> Json | None:
    spec, digest = deployment["spec"], name.rpartition("-")[2]
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), _HASH: digest}
    selector = spec["selector"]
    manifest = {
        "apiVersion": REPLICA_SET.api_version,
        "kind": REPLICA_SET.kind,
        "metadata": {
            "name": name,
            "namespace": deployment["metadata"]["namespace"],
            "labels": labels,
            "annotations": {_REVISION: str(revision)},
            "ownerReferences": [owner_reference(DEPLOYMENT, deployment)],
        },
        "spec": {
            "replicas": spec.get("replicas", 1),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), _HASH: digest}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }
    try:
        return await api.create(REPLICA_SET, manifest)
    except ConflictError:
        return None

"""StatefulSets: one pod and its volume claims per ordinal, scaling, rolling updates, and the status that says how far.

A pod of an ordinal has a name of its own, so it is replaced by another of the same name once it is gone. Claims are
kept or go with the set by its retention policy, by way of owner references that the garbage collector follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from provisioner.domain.errors import ConflictError
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.core.kinds import STATEFUL_SET, VOLUME_CLAIM
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
from provisioner.platform.interface import Kind

_REVISION = "controller-revision-hash"
_POD_NAME = "statefulset.kubernetes.io/pod-name"
_INDEX = "apps.kubernetes.io/pod-index"


def stateful_set_controller() -> Controller:
    """The controller of StatefulSets, for every tenant cluster."""
    watches = (Watch(STATEFUL_SET), Watch(POD, keys=owner_keys("StatefulSet")))
    return Controller("stateful sets", watches, _reconcile)


async def _reconcile(cluster: Cluster, key: Key) -> float | None:
    found = await cluster.api.get(STATEFUL_SET, key.name, namespace=key.namespace)
    if found is None or "deletionTimestamp" in found["metadata"]:
        return None  # its pods go by the garbage collector
    pods = {_ordinal(pod): pod for pod in await list_owned(cluster.api, POD, found)}
    work = _Set(cluster.api, found, pods)
    for ordinal, pod in pods.items():
        if is_final(pod) and not is_terminating(pod):
            await work.delete(ordinal)
    await work.scale()
    await work.roll()
    await cluster.api.write_status(STATEFUL_SET, found, work.status())
    return None


def _ordinal(pod: Json) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


@dataclass(frozen=True, slots=True)
class _Set:
    """One StatefulSet with the pods it has."""

    api: Api
    found: Json
    pods: dict[int, Json]

    @property
    def name(self) -> str:
        """The set's name."""
        return str(self.found["metadata"]["name"])

    @property
    def revision(self) -> str:
        """The wanted revision."""
        return f"{self.name}-{template_hash(self.found['spec']['template'])}"

    async def scale(self) -> None:
        """Make the missing pods and remove those beyond the wanted number: all at once, or one after the other."""
        wanted = self.found["spec"].get("replicas", 1)
        at_once = self.found["spec"].get("podManagementPolicy") == "Parallel"
        for ordinal in range(wanted):
            pod = self.pods.get(ordinal)
            if pod is None:
                await self._create(ordinal)
            if not at_once and (pod is None or not is_ready(pod)):
                return
        beyond = sorted((ordinal for ordinal in self.pods if ordinal >= wanted), reverse=True)
        for ordinal in beyond if at_once else beyond[:1]:
            await self.delete(ordinal)

    async def roll(self) -> None:
        """Replace one pod of an older revision, from the top, while all others are ready."""
        strategy = self.found["spec"].get("updateStrategy") or {}
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        if strategy.get("type") == "OnDelete":
            return
        stale = [
            ordinal
            for ordinal, pod in self.pods.items()
            if ordinal >= partition and pod["metadata"]["labels"].get(_REVISION) != self.revision
        ]
        fresh = (pod for ordinal, pod in self.pods.items() if ordinal not in stale)
        unready = [ordinal for ordinal in stale if not is_ready(self.pods[ordinal])]
        if unready:
            await self.delete(max(unready))  # a pod that does not work holds nothing up
        elif stale and all(is_ready(pod) for pod in fresh):
            await self.delete(max(stale))

    async def delete(self, ordinal: int) -> None:
        """Ask for the deletion of one pod, once."""
        pod = self.pods[ordinal]
        if not is_terminating(pod):
            await self.api.delete(POD, pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])

    def status(self) -> Json:
        """What is true of the set now."""
        pods: Sequence[Json] = tuple(self.pods.values())
        ready = sum(is_ready(pod) for pod in pods)
        updated = sum(pod["metadata"]["labels"].get(_REVISION) == self.revision for pod in pods)
        before = (self.found.get("status") or {}).get("currentRevision")
        wanted = self.found["spec"].get("replicas", 1)
        is_whole = updated == len(pods) == wanted
        current = self.revision if before is None or is_whole else before
        return {
            "observedGeneration": self.found["metadata"].get("generation", 1),
            "replicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "currentReplicas": sum(pod["metadata"]["labels"].get(_REVISION) == current for pod in pods),
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": self.revision,
            "collisionCount": 0,
        }

    async def _create(self, ordinal: int) -> None:
        name = f"{self.name}-{ordinal}"
        labels = {_REVISION: self.revision, _POD_NAME: name, _INDEX: str(ordinal)}
        pod = new_pod(STATEFUL_SET, self.found, labels=labels, metadata={"name": name})
        spec = pod["spec"]
        spec["hostname"] = name
        spec["subdomain"] = self.found["spec"].get("serviceName", "")
        claims = {entry["metadata"]["name"]: entry for entry in self.found["spec"].get("volumeClaimTemplates") or ()}
        for template in claims.values():
            await self._create_claim(template, name)
        kept = [volume for volume in spec.get("volumes") or () if volume["name"] not in claims]
        bound = [{"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in claims]
        spec["volumes"] = [*kept, *bound]
        await _create_once(self.api, POD, pod)

    async def _create_claim(self, template: Json, pod_name: str) -> None:
        metadata = template["metadata"]
        retention = self.found["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        goes = retention.get("whenDeleted") == "Delete"
        claim = {
            "apiVersion": VOLUME_CLAIM.api_version,
            "kind": VOLUME_CLAIM.kind,
            "metadata": {
                **metadata,
                "name": f"{metadata['name']}-{pod_name}",
                "namespace": self.found["metadata"]["namespace"],
                "ownerReferences": [owner_reference(STATEFUL_SET, self.found)] if goes else [],
            },
            "spec": template["spec"],
        }
        await _create_once(self.api, VOLUME_CLAIM, claim)


async def _create_once(api: Api, kind: Kind, manifest: Json) -> None:
    try:
        await api.create(kind, manifest)
    except ConflictError:
        return  # a claim that was kept, or a pod that somebody else made: the next look will tell

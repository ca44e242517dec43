"""Pods of the control plane cluster, where the product's own processes would run: pretended, and said so.

No image of theirs exists on a laptop and nobody talks to them there, but clients wait for their Deployments. So a pod
that is bound becomes Ready without a process, one that is meant to end ends well, and an Event of each says that
nothing runs. Tenant clusters have a real kubelet instead: a model server that is not there is never pretended.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from provisioner.domain.clock import Clock
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.conditions import Condition, timestamp, write_conditions
from provisioner.embedded.controllers.kinds import NODE, POD
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch
from provisioner.embedded.controllers.workload.events import record_event
from provisioner.embedded.controllers.workload.pod_status import ContainerState, derive_status, running, terminated
from provisioner.embedded.controllers.workload.pods import is_final, is_terminating

NODE_NAME = "pretended"
_MANAGER = "tenantry-embedded"
_CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "500", "nvidia.com/gpu": "8"}
_NOTICE = "no container runs here: the embedded control plane stands in for image {image}"


def stand_in_controller(*, clock: Clock) -> Controller:
    """Pretends the pods of one node of this name."""
    return Controller("stand-ins", (Watch(POD),), _StandIns(clock).reconcile)


async def ensure_node(api: Api, *, now: datetime) -> None:
    """The pretended node, ready and free of the taint that a new node of a real API server has."""
    labels = {"kubernetes.io/hostname": NODE_NAME, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    node = await api.apply(NODE, {"metadata": {"name": NODE_NAME, "labels": labels}}, manager=_MANAGER)
    if (node.get("spec") or {}).get("taints"):
        node = await api.patch(NODE, NODE_NAME, {"spec": {"taints": None}})
    ready = Condition("Ready", met=True, reason="Pretended", message="no machine stands behind this node")
    await write_conditions(api, NODE, node, (ready,), now=now, capacity=_CAPACITY, allocatable=_CAPACITY)


@dataclass(frozen=True, slots=True)
class _StandIns:
    clock: Clock

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        pod = await cluster.api.get(POD, key.name, namespace=key.namespace)
        if pod is None or pod["spec"].get("nodeName") != NODE_NAME:
            return None
        if is_terminating(pod):
            await cluster.api.delete(POD, key.name, namespace=key.namespace, grace_seconds=0)
            return None
        if not is_final(pod):
            await self._pretend(cluster.api, pod)
        return None

    async def _pretend(self, api: Api, pod: Json) -> None:
        now = self.clock.now()
        since = (pod.get("status") or {}).get("startTime") or timestamp(now)
        ends = pod["spec"].get("restartPolicy", "Always") != "Always"
        state = terminated(running(since), exit_code=0, now=now) if ends else running(since)
        container = ContainerState(state=state, is_ready=not ends, is_started=not ends)
        conditions, fields = derive_status(pod, container, now=now)
        await write_conditions(api, POD, pod, conditions, now=now, **fields)
        for entry in pod["spec"]["containers"]:
            message = _NOTICE.format(image=entry["image"])
            await record_event(api, pod, reason="StandIn", message=message, now=now, type_="Warning")

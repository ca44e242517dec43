"""DaemonSets: one pod on every node that its template may run on, replaced node by node when the template changes."""

from __future__ import annotations

from collections.abc import Iterable

from provisioner.domain.errors import ConflictError
from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.core.kinds import DAEMON_SET
from provisioner.embedded.controllers.kinds import NODE, POD
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch, owner_keys
from provisioner.embedded.controllers.workload.pods import (
    is_final,
    is_ready,
    is_terminating,
    list_owned,
    new_pod,
    template_hash,
)
from provisioner.embedded.controllers.workload.scheduling import why_not

_REVISION = "controller-revision-hash"
_ALL = ""


def daemon_set_controller() -> Controller:
    """The controller of DaemonSets, for every cluster; a node that comes or goes concerns all of them."""
    watches = (Watch(DAEMON_SET), Watch(POD, keys=owner_keys("DaemonSet")), Watch(NODE, keys=_every_set))
    return Controller("daemon sets", watches, _reconcile)


def _every_set(_: Json) -> Iterable[Key]:
    return (Key(None, _ALL),)


async def _reconcile(cluster: Cluster, key: Key) -> float | None:
    if key.name == _ALL:
        for found in await cluster.api.list(DAEMON_SET):
            await _advance(cluster, found)
        return None
    found = await cluster.api.get(DAEMON_SET, key.name, namespace=key.namespace) or {}
    if found and "deletionTimestamp" not in found["metadata"]:
        await _advance(cluster, found)
    return None


async def _advance(cluster: Cluster, found: Json) -> None:
    metadata, revision = found["metadata"], template_hash(found["spec"]["template"])
    sample = new_pod(DAEMON_SET, found, labels={_REVISION: revision}, metadata={})
    nodes = {node["metadata"]["name"] for node in await cluster.api.list(NODE) if why_not(sample, node, {}) is None}
    pods = {pod["spec"].get("nodeName"): pod for pod in await list_owned(cluster.api, POD, found)}
    fresh = {name for name, pod in pods.items() if pod["metadata"]["labels"].get(_REVISION) == revision}
    ready = {name for name, pod in pods.items() if name in nodes and is_ready(pod)}
    for name, pod in pods.items():
        # One at a time is replaced, and only while all the others serve; what is over or misplaced goes at once.
        is_due = name not in fresh and (name not in ready or ready >= nodes)
        if (name not in nodes or is_due or is_final(pod)) and not is_terminating(pod):
            await cluster.api.delete(POD, pod["metadata"]["name"], namespace=metadata["namespace"])
            ready.discard(name)
    for name in nodes - pods.keys():
        # Its node is part of the name, so that a second look before the pod is seen makes no second pod.
        pod = new_pod(DAEMON_SET, found, labels={_REVISION: revision}, metadata={"name": f"{metadata['name']}-{name}"})
        pod["spec"]["nodeName"] = name
        try:
            await cluster.api.create(POD, pod)
        except ConflictError:
            continue
    status = {
        "observedGeneration": metadata.get("generation", 1),
        "desiredNumberScheduled": len(nodes),
        "currentNumberScheduled": len(nodes & pods.keys()),
        "updatedNumberScheduled": len(nodes & fresh),
        "numberReady": len(ready),
        "numberAvailable": len(ready),
        "numberMisscheduled": len(pods.keys() - nodes),
    }
    await cluster.api.write_status(DAEMON_SET, found, status)

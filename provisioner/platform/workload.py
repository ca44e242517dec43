"""What the pods of a model server say: why a replica is not ready yet. Pure.

A replica is a pod of a StatefulSet, or a group of pods of a LeaderWorkerSet, of which the leader answers. Ready means
that the model is loaded, never that a pod runs: a running container that is not ready is loading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.platform.condition import cut, parse_conditions
from provisioner.platform.interface import Manifest
from provisioner.platform.kinds import LEADER_WORKER_SET

_GROUP_LABEL = "leaderworkerset.sigs.k8s.io/name"
_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
"""Within its group, the leader's is 0."""
_PULLING = ("", "ContainerCreating", "PodInitializing", "PullingImage")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """One pod. `failing` when what keeps it from being ready is an error rather than time."""

    name: str
    bound: bool
    ready: bool
    reason: str = ""
    message: str = ""
    failing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadStatus:
    """A workload and the pods that answer for its replicas, by name."""

    name: str
    ready_replicas: int
    pods: tuple[PodStatus, ...]


def parse_workload(workload: Manifest, pods: Iterable[Manifest]) -> WorkloadStatus:
    """Read a StatefulSet with the pods it controls, or a LeaderWorkerSet with its leaders; other pods are left out."""
    metadata, status = workload["metadata"], workload.get("status") or {}
    is_group = workload.get("kind") == LEADER_WORKER_SET.kind
    # LeaderWorkerSets before 0.8 do not say which generation they have observed.
    assumed = metadata.get("generation", 0) if is_group else 0
    is_observed = status.get("observedGeneration", assumed) >= metadata.get("generation", 0)
    belongs = _leads(str(metadata["name"])) if is_group else _is_controlled_by(str(metadata["uid"]))
    own = filter(belongs, pods)
    return WorkloadStatus(
        name=str(metadata["name"]),
        ready_replicas=int(status.get("readyReplicas") or 0) if is_observed else 0,
        pods=tuple(sorted((parse_pod(pod) for pod in own), key=lambda pod: pod.name)),
    )


def parse_pod(manifest: Manifest) -> PodStatus:
    """Read a Pod."""
    status = manifest.get("status") or {}
    conditions = parse_conditions(status)
    bound = bool((manifest.get("spec") or {}).get("nodeName"))
    ready = conditions.get("Ready")
    is_ready = ready is not None and ready.is_true and not manifest["metadata"].get("deletionTimestamp")
    scheduled = conditions.get("PodScheduled")
    if is_ready:
        reason, message, failing = "", "", False
    elif not bound:
        reason = scheduled.reason if scheduled and scheduled.reason else "Unschedulable"
        reason, message, failing = reason, scheduled.message if scheduled else "", False
    else:
        reason, message, failing = _waiting(status)
    name = str(manifest["metadata"]["name"])
    return PodStatus(name=name, bound=bound, ready=is_ready, reason=reason, message=message, failing=failing)


def _waiting(status: Mapping[str, Any]) -> tuple[str, str, bool]:
    for container in status.get("initContainerStatuses") or ():
        state = container.get("state") or {}
        if "waiting" in state:
            return _held(state["waiting"])
        if "running" in state:
            return ("DownloadingModel" if "download" in container.get("name", "") else "Initializing"), "", False
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        if "running" not in state:
            return _held(state.get("waiting") or state.get("terminated") or {})
        if not container.get("ready"):
            return _loading(container)
    return ("PullingImage", "", False) if not status.get("containerStatuses") else ("LoadingModel", "", False)


def _held(state: Mapping[str, Any]) -> tuple[str, str, bool]:
    reason = str(state.get("reason") or "")
    if reason in _PULLING:
        return "PullingImage", cut(state.get("message")), False
    return reason, cut(state.get("message")), True


def _loading(container: Mapping[str, Any]) -> tuple[str, str, bool]:
    ended = (container.get("lastState") or {}).get("terminated") or {}
    restarts = int(container.get("restartCount") or 0)
    if restarts and ended.get("reason") == "OOMKilled":
        return "OOMKilled", f"out of memory, restarts: {restarts}", True
    return "LoadingModel", f"restarts: {restarts}" if restarts else "", False


def _is_controlled_by(uid: str) -> Callable[[Manifest], bool]:
    return lambda pod: any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or ())


def _leads(group: str) -> Callable[[Manifest], bool]:
    wanted = {_GROUP_LABEL: group, _INDEX_LABEL: "0"}
    return lambda pod: wanted.items() <= (pod["metadata"].get("labels") or {}).items()

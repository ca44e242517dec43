"""A pod's status as its kubelet writes it. Pure.

Only the first container becomes a process; the states of further containers (exporters and the like, which a laptop
does not run) follow the first one's, and init containers count as done.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.conditions import Condition, timestamp

_NETWORK: Final = "10.244"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """What is true of a pod's process: one of `waiting`, `running`, `terminated` as Kubernetes writes them."""

    state: Json
    is_ready: bool = False
    is_started: bool = False
    restarts: int = 0
    last: Json | None = None


def waiting(reason: str, message: str) -> Json:
    """The state of a container that does not run yet."""
    return {"waiting": {"reason": reason, "message": message}}


def running(since: str) -> Json:
    """The state of a container that runs."""
    return {"running": {"startedAt": since}}


def terminated(state: Json, *, exit_code: int | None, now: datetime) -> Json:
    """The state that follows a running one whose process ended; nobody knows the code of one that another plane
    started."""
    code = 137 if exit_code is None else exit_code if exit_code >= 0 else 128 - exit_code
    reason = "ContainerStatusUnknown" if exit_code is None else "Completed" if code == 0 else "Error"
    started_at = (state.get("running") or {}).get("startedAt")
    ended = {"exitCode": code, "reason": reason, "finishedAt": timestamp(now)}
    return {"terminated": ended | ({"startedAt": started_at} if started_at else {})}


def container_status(pod: Json) -> Json:
    """The stored status of the first container; empty before there is one."""
    statuses: list[Json] = (pod.get("status") or {}).get("containerStatuses") or [{}]
    return statuses[0]


def pod_address(pod: Json) -> str:
    """A made-up pod IP, the same for the same pod; no more routable than a private node's pod is from outside."""
    digest = hashlib.sha256(str(pod["metadata"]["uid"]).encode()).digest()
    return f"{_NETWORK}.{digest[0]}.{max(1, digest[1])}"


def derive_status(pod: Json, container: ContainerState, *, now: datetime) -> tuple[tuple[Condition, ...], Json]:
    """The conditions and the other fields of the status of a bound pod."""
    names = [entry["name"] for entry in pod["spec"]["containers"]]
    if container.is_ready:
        reason, message = "", ""
    else:
        reason, message = "ContainersNotReady", f"containers with unready status: [{' '.join(names)}]"
    conditions = (
        Condition("PodScheduled", met=True),
        Condition("Initialized", met=True),
        Condition("ContainersReady", met=container.is_ready, reason=reason, message=message),
        Condition("Ready", met=container.is_ready, reason=reason, message=message),
    )
    address = pod_address(pod)
    fields: Json = {
        "phase": _phase(pod, container),
        "hostIP": "127.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": (pod.get("status") or {}).get("startTime") or timestamp(now),
        "containerStatuses": [_container(entry, container, pod) for entry in pod["spec"]["containers"]],
    }
    if pod["spec"].get("initContainers"):
        fields["initContainerStatuses"] = [_played(entry) for entry in pod["spec"]["initContainers"]]
    return conditions, fields


def _phase(pod: Json, container: ContainerState) -> str:
    ended = container.state.get("terminated")
    if ended is not None:
        return "Succeeded" if ended["exitCode"] == 0 else "Failed"
    return "Pending" if "waiting" in container.state and container.restarts == 0 else "Running"


def _container(entry: Json, container: ContainerState, pod: Json) -> Json:
    return {
        "name": entry["name"],
        "image": entry["image"],
        "imageID": entry["image"] if "@sha256:" in entry["image"] else "",
        "containerID": f"process://{pod['metadata']['uid']}" if "running" in container.state else "",
        "ready": container.is_ready,
        "started": container.is_started,
        "restartCount": container.restarts,
        "state": container.state,
        "lastState": container.last or {},
    }


def _played(entry: Json) -> Json:
    ended = {"terminated": {"exitCode": 0, "reason": "Completed", "message": "init containers are not run here"}}
    image = {"name": entry["name"], "image": entry["image"], "imageID": ""}
    return {**image, "ready": True, "started": False, "restartCount": 0, "state": ended, "lastState": {}}

"""The columns in which people know the common kinds from `kubectl get`. Pure.

Each column is a dotted path or a function of the object and the time. A kind that is not listed shows name and age.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from provisioner.embedded.apiserver import jsonpath
from provisioner.embedded.apiserver.shape import Json

Cell = Callable[[Json, datetime], Any]
_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column; those with a priority above 0 are shown by `-o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0


def duration_since(moment: Any, now: datetime) -> str:
    """How long ago a timestamp was, in the short form of kubectl (`5m32s`, `3d`)."""
    try:
        seconds = int((now - datetime.fromisoformat(str(moment)).astimezone(UTC)).total_seconds())
    except ValueError:
        return "<invalid>"
    return _duration(max(0, seconds))


def _duration(seconds: int) -> str:
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d" if days < 730 else f"{days // 365}y"


def _at(path: str, missing: Any = _NONE) -> Cell:
    def cell(document: Json, now: datetime) -> Any:
        found = jsonpath.find(document, path)
        return found[0] if found and found[0] not in (None, "") else missing

    return cell


def _count(path: str) -> Cell:
    def cell(document: Json, now: datetime) -> Any:
        found = jsonpath.find(document, path)
        return len(found[0] or ()) if found else 0

    return cell


def _joined(path: str) -> Cell:
    def cell(document: Json, now: datetime) -> Any:
        return ",".join(str(value) for value in jsonpath.find(document, path)) or _NONE

    return cell


def _since(path: str) -> Cell:
    def cell(document: Json, now: datetime) -> Any:
        found = jsonpath.find(document, path)
        return duration_since(found[0], now) if found and found[0] else _UNKNOWN

    return cell


def _fraction(done: str, wanted: str, otherwise: int = 0) -> Cell:
    def cell(document: Json, now: datetime) -> Any:
        return f"{_at(done, 0)(document, now)}/{_at(wanted, otherwise)(document, now)}"

    return cell


def _labels(path: str) -> Cell:
    def cell(document: Json, now: datetime) -> Any:
        found = jsonpath.find(document, path)
        return ",".join(f"{key}={value}" for key, value in sorted((found[0] or {}).items())) if found else _NONE

    return cell


def _pod_ready(document: Json, now: datetime) -> str:
    statuses = document.get("status", {}).get("containerStatuses") or []
    ready = sum(1 for entry in statuses if entry.get("ready"))
    return f"{ready}/{len(document.get('spec', {}).get('containers') or [])}"


def _pod_status(document: Json, now: datetime) -> str:
    status = document.get("status", {})
    if "deletionTimestamp" in document["metadata"]:
        return "Terminating"
    for entry in status.get("containerStatuses") or ():
        state = entry.get("state") or {}
        for phase in ("waiting", "terminated"):
            if (state.get(phase) or {}).get("reason"):
                return str(state[phase]["reason"])
    return str(status.get("reason") or status.get("phase") or _UNKNOWN)


def _pod_restarts(document: Json, now: datetime) -> str:
    statuses = document.get("status", {}).get("containerStatuses") or ()
    return str(sum(entry.get("restartCount", 0) for entry in statuses))


def _node_status(document: Json, now: datetime) -> str:
    found = jsonpath.find(document, '.status.conditions[?(@.type=="Ready")].status')
    text = "Ready" if found == ["True"] else "NotReady" if found else "Unknown"
    return text + (",SchedulingDisabled" if document.get("spec", {}).get("unschedulable") else "")


def _node_roles(document: Json, now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = document["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or _NONE


def _service_ports(document: Json, now: datetime) -> str:
    return ",".join(_port_texts(document.get("spec", {}).get("ports") or ())) or _NONE


def _port_texts(ports: Any) -> Iterator[str]:
    for port in ports:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        yield f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


def _external_address(document: Json, now: datetime) -> str:
    addresses = jsonpath.find(document, ".status.loadBalancer.ingress[*].ip")
    addresses += jsonpath.find(document, ".status.loadBalancer.ingress[*].hostname")
    addresses += jsonpath.find(document, ".spec.externalIPs[*]")
    pending = document.get("spec", {}).get("type") == "LoadBalancer"
    return ",".join(addresses) or ("<pending>" if pending else _NONE)


def _event_object(document: Json, now: datetime) -> str:
    involved = document.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_seen(document: Json, now: datetime) -> str:
    moments = (document.get("lastTimestamp"), document.get("eventTime"), document["metadata"].get("creationTimestamp"))
    return duration_since(next(moment for moment in moments if moment), now)


def _job_status(document: Json, now: datetime) -> str:
    conditions = document.get("status", {}).get("conditions") or ()
    true = {entry["type"] for entry in conditions if entry.get("status") == "True"}
    return next((name for name in ("Complete", "Failed", "Suspended") if name in true), "Running")


def _role_reference(document: Json, now: datetime) -> str:
    reference = document.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _endpoint_addresses(document: Json, now: datetime) -> str:
    found = [
        f"{address}:{port}"
        for subset in document.get("subsets") or ()
        for address in jsonpath.find(subset, ".addresses[*].ip")
        for port in jsonpath.find(subset, ".ports[*].port")
    ]
    return ",".join(found) or _NONE


NAME: Final = Column("Name", _at("metadata.name"))
AGE: Final = Column("Age", _since("metadata.creationTimestamp"))
_CONTAINERS: Final = (
    Column("Containers", _joined("spec.template.spec.containers[*].name"), priority=1),
    Column("Images", _joined("spec.template.spec.containers[*].image"), priority=1),
)
_SELECTOR: Final = Column("Selector", _labels("spec.selector.matchLabels"), priority=1)

COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    "/pods": (
        NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        AGE,
        Column("IP", _at("status.podIP"), priority=1),
        Column("Node", _at("spec.nodeName"), priority=1),
    ),
    "/services": (
        NAME,
        Column("Type", _at("spec.type")),
        Column("Cluster-IP", _at("spec.clusterIP")),
        Column("External-IP", _external_address),
        Column("Port(s)", _service_ports),
        AGE,
        Column("Selector", _labels("spec.selector"), priority=1),
    ),
    "/namespaces": (NAME, Column("Status", _at("status.phase")), AGE),
    "/nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _at("status.nodeInfo.kubeletVersion")),
    ),
    "/configmaps": (NAME, Column("Data", _count("data"), "integer"), AGE),
    "/secrets": (NAME, Column("Type", _at("type")), Column("Data", _count("data"), "integer"), AGE),
    "/endpoints": (NAME, Column("Endpoints", _endpoint_addresses), AGE),
    "/events": (
        Column("Last Seen", _event_seen),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _event_object),
        Column("Message", _at("message", "")),
        Column("Name", _at("metadata.name"), priority=1),
    ),
    "/persistentvolumeclaims": (
        NAME,
        Column("Status", _at("status.phase")),
        Column("Volume", _at("spec.volumeName", "")),
        Column("Capacity", _at("status.capacity.storage", "")),
        Column("Access Modes", _joined("status.accessModes[*]")),
        Column("StorageClass", _at("spec.storageClassName", "")),
        AGE,
    ),
    "/resourcequotas": (NAME, Column("Hard", _labels("spec.hard")), Column("Used", _labels("status.used")), AGE),
    "apps/deployments": (
        NAME,
        Column("Ready", _fraction("status.readyReplicas", "spec.replicas")),
        Column("Up-to-date", _at("status.updatedReplicas", 0), "integer"),
        Column("Available", _at("status.availableReplicas", 0), "integer"),
        AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "apps/statefulsets": (NAME, Column("Ready", _fraction("status.readyReplicas", "spec.replicas")), AGE, *_CONTAINERS),
    "apps/replicasets": (
        NAME,
        Column("Desired", _at("spec.replicas", 0), "integer"),
        Column("Current", _at("status.replicas", 0), "integer"),
        Column("Ready", _at("status.readyReplicas", 0), "integer"),
        AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "apps/daemonsets": (
        NAME,
        Column("Desired", _at("status.desiredNumberScheduled", 0), "integer"),
        Column("Current", _at("status.currentNumberScheduled", 0), "integer"),
        Column("Ready", _at("status.numberReady", 0), "integer"),
        Column("Available", _at("status.numberAvailable", 0), "integer"),
        AGE,
    ),
    "batch/jobs": (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _fraction("status.succeeded", "spec.completions", 1)),
        AGE,
    ),
    "batch/cronjobs": (
        NAME,
        Column("Schedule", _at("spec.schedule")),
        Column("Suspend", _at("spec.suspend", False), "boolean"),
        Column("Active", _count("status.active"), "integer"),
        Column("Last Schedule", _since("status.lastScheduleTime")),
        AGE,
    ),
    "coordination.k8s.io/leases": (NAME, Column("Holder", _at("spec.holderIdentity", "")), AGE),
    "networking.k8s.io/networkpolicies": (NAME, Column("Pod-Selector", _labels("spec.podSelector.matchLabels")), AGE),
    "networking.k8s.io/ingresses": (
        NAME,
        Column("Class", _at("spec.ingressClassName")),
        Column("Hosts", _joined("spec.rules[*].host")),
        Column("Address", _external_address),
        AGE,
    ),
    "policy/poddisruptionbudgets": (
        NAME,
        Column("Min Available", _at("spec.minAvailable", "N/A")),
        Column("Max Unavailable", _at("spec.maxUnavailable", "N/A")),
        Column("Allowed Disruptions", _at("status.disruptionsAllowed", 0), "integer"),
        AGE,
    ),
    "autoscaling/horizontalpodautoscalers": (
        NAME,
        Column("Reference", _joined("spec.scaleTargetRef.name")),
        Column("MinPods", _at("spec.minReplicas", "<unset>")),
        Column("MaxPods", _at("spec.maxReplicas")),
        Column("Replicas", _at("status.currentReplicas", 0)),
        AGE,
    ),
    "rbac.authorization.k8s.io/roles": (NAME, Column("Created At", _at("metadata.creationTimestamp"))),
    "rbac.authorization.k8s.io/clusterroles": (NAME, Column("Created At", _at("metadata.creationTimestamp"))),
    "rbac.authorization.k8s.io/rolebindings": (NAME, Column("Role", _role_reference), AGE),
    "rbac.authorization.k8s.io/clusterrolebindings": (NAME, Column("Role", _role_reference), AGE),
    "apiextensions.k8s.io/customresourcedefinitions": (NAME, Column("Created At", _at("metadata.creationTimestamp"))),
}

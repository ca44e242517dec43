"""Health of a live object as Argo CD assesses it, by kind. Pure.

A kind that is not listed has no health of its own and does not count; what counts is the worst of those that do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from provisioner.embedded.controllers.api import Json, spec_of
from provisioner.embedded.controllers.conditions import find_condition

_ORDER = ("Healthy", "Suspended", "Progressing", "Missing", "Degraded", "Unknown")


@dataclass(frozen=True, slots=True)
class Health:
    """A status and, where it is not Healthy, why."""

    status: str
    message: str = ""


HEALTHY = Health("Healthy")
MISSING = Health("Missing")


def assess(live: Json) -> Health | None:
    """The health of an object, or None for a kind without any."""
    if live["metadata"].get("deletionTimestamp"):
        return Health("Progressing", "Pending deletion")
    group = live["apiVersion"].rpartition("/")[0]
    assessor = _ASSESSORS.get((group, live["kind"]))
    return assessor(live) if assessor else None


def worst(healths: Iterable[Health]) -> Health:
    """The health of the whole; Healthy when there is nothing."""
    return max(healths, key=lambda health: _ORDER.index(health.status), default=HEALTHY)


def _stateful_set(live: Json) -> Health:
    spec, status = spec_of(live), live.get("status") or {}
    wanted = spec.get("replicas", 1)
    if live["metadata"].get("generation", 0) > status.get("observedGeneration", 0):
        return Health("Progressing", "Waiting for statefulset spec update to be observed...")
    if (ready := status.get("readyReplicas", 0)) < wanted:
        return Health("Progressing", f"Waiting for {wanted - ready} pods to be ready...")
    if (spec.get("updateStrategy") or {}).get("type") == "OnDelete":
        return HEALTHY
    if status.get("updateRevision", "") != status.get("currentRevision", ""):
        return Health("Progressing", f"waiting for statefulset rolling update to complete {ready} pods...")
    return HEALTHY


def _deployment(live: Json) -> Health:
    spec, status = spec_of(live), live.get("status") or {}
    wanted, updated = spec.get("replicas", 1), status.get("updatedReplicas", 0)
    if spec.get("paused"):
        return Health("Suspended", "Deployment is paused")
    if live["metadata"].get("generation", 0) > status.get("observedGeneration", 0):
        return Health("Progressing", "Waiting for rollout to finish: observed deployment generation less than desired")
    progressing = find_condition(live, "Progressing")
    if progressing and progressing.get("reason") == "ProgressDeadlineExceeded":
        return Health("Degraded", f"Deployment {live['metadata']['name']!r} exceeded its progress deadline")
    if updated < wanted:
        return Health("Progressing", f"Waiting for rollout to finish: {updated} of {wanted} updated replicas")
    if status.get("replicas", 0) > updated:
        return Health("Progressing", f"Waiting for rollout to finish: {status['replicas'] - updated} old replicas left")
    if status.get("availableReplicas", 0) < updated:
        return Health(
            "Progressing", f"Waiting for rollout to finish: {status.get('availableReplicas', 0)} of {updated}"
        )
    return HEALTHY


def _daemon_set(live: Json) -> Health:
    status = live.get("status") or {}
    wanted, available = status.get("desiredNumberScheduled", 0), status.get("numberAvailable", 0)
    if live["metadata"].get("generation", 0) > status.get("observedGeneration", 0):
        return Health("Progressing", "Waiting for daemon set spec update to be observed")
    if available < wanted:
        return Health("Progressing", f"Waiting for daemon set rollout to finish: {available} of {wanted} available")
    return HEALTHY


def _service(live: Json) -> Health:
    if spec_of(live).get("type") != "LoadBalancer":
        return HEALTHY
    ingress = ((live.get("status") or {}).get("loadBalancer") or {}).get("ingress")
    return HEALTHY if ingress else Health("Progressing", "Waiting for a load balancer address")


def _claim(live: Json) -> Health:
    match (live.get("status") or {}).get("phase"):
        case "Bound":
            return HEALTHY
        case "Lost":
            return Health("Degraded", "the volume is lost")
        case _:
            return Health("Progressing", "Waiting for the volume to be bound")


def _job(live: Json) -> Health:
    for kind, health in (("Failed", "Degraded"), ("Complete", "Healthy"), ("Suspended", "Suspended")):
        entry = find_condition(live, kind)
        if entry and entry["status"] == "True":
            return Health(health, entry.get("message", ""))
    return Health("Progressing", "Waiting for the job to complete")


def _pod(live: Json) -> Health:
    status = live.get("status") or {}
    match status.get("phase"):
        case "Failed":
            return Health("Degraded", status.get("message", ""))
        case "Succeeded":
            return HEALTHY
        case "Running" if _is_true(live, "Ready"):
            return HEALTHY
        case _:
            return Health("Progressing", "Waiting for the pod to be ready")


def _certificate(live: Json) -> Health:
    if _is_true(live, "Issuing"):
        return Health("Progressing", "Issuing certificate")
    return _by_ready(live, "Waiting for the certificate")


def _scaled_object(live: Json) -> Health:
    if _is_true(live, "Paused"):
        return Health("Suspended", "ScaledObject is paused")
    return _by_ready(live, "Waiting for the scaler")


def _by_ready(live: Json, waiting: str) -> Health:
    ready = find_condition(live, "Ready")
    if ready is None or ready["status"] == "Unknown":
        return Health("Progressing", waiting)
    return HEALTHY if ready["status"] == "True" else Health("Degraded", ready.get("message", ""))


def _gateway(live: Json) -> Health:
    for name in ("Accepted", "Programmed"):
        entry = find_condition(live, name)
        if entry is None or entry["status"] == "Unknown" or entry.get("reason") == "Pending":
            return Health("Progressing", f"Waiting for the gateway to be {name}")
        if entry["status"] == "False":
            return Health("Degraded", f"Gateway is not {name}: {entry.get('message', '')}")
    return HEALTHY


def _route(live: Json) -> Health:
    parents = (live.get("status") or {}).get("parents") or ()
    if not parents:
        return Health("Progressing", "Waiting for the route to be attached")
    for parent in parents:
        conditions = {entry["type"]: entry for entry in parent.get("conditions") or ()}
        for name in ("Accepted", "ResolvedRefs"):
            entry = conditions.get(name)
            if entry is None or entry["status"] == "Unknown":
                return Health("Progressing", f"Waiting for the route's {name}")
            if entry["status"] == "False":
                return Health("Degraded", f"Route is not {name}: {entry.get('reason')}: {entry.get('message', '')}")
    return HEALTHY


def _is_true(live: Json, condition: str) -> bool:
    entry = find_condition(live, condition)
    return entry is not None and entry["status"] == "True"


_ASSESSORS: Mapping[tuple[str, str], Callable[[Json], Health]] = {
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("", "Service"): _service,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Pod"): _pod,
    ("cert-manager.io", "Certificate"): _certificate,
    ("keda.sh", "ScaledObject"): _scaled_object,
    ("gateway.networking.k8s.io", "Gateway"): _gateway,
    ("gateway.networking.k8s.io", "HTTPRoute"): _route,
}

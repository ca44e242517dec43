"""The few values that a real server fills in and that clients wait for or merge by; the rest stays as it was sent.

The public definitions carry no defaults, so the ones here are written down. Rule of admission to this file: some client
behaves wrongly without it. Called by `collection`. Pure.
"""

from __future__ import annotations

import base64
import ipaddress
import uuid
from collections.abc import Callable
from typing import Any, Final

from provisioner.embedded.apiserver.kinds import Kind
from provisioner.embedded.apiserver.shape import Json

_REPLICATED: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"})
_SERVICE_NETWORK: Final = ipaddress.ip_network("10.96.0.0/16")
_JOB: Final[Json] = {
    "parallelism": 1,
    "completions": 1,
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "suspend": False,
}


def decoded(document: Json, kind: Kind) -> Json:
    """A write as the server understands it: what a client may leave out or send in a shorter form."""
    if kind.custom:
        return document
    if kind.kind == "Secret":
        _fold_string_data(document)
        document.setdefault("type", "Opaque")
    if kind.kind == "Service":
        _default_service(document.get("spec"))
    if kind.kind in _REPLICATED and isinstance(document.get("spec"), dict):
        document["spec"].setdefault("replicas", 1)
    return document


def at_creation(document: Json, kind: Kind, *, now: str) -> Json:
    """The state in which an object starts."""
    starter = _STARTERS.get(kind.storage_key)
    return starter(document, now) if starter else document


def at_update(old: Json, new: Json, *, kind: Kind) -> Json:
    """Keeps what the server allocated or another door writes."""
    if kind.storage_key == "/namespaces":
        return new | {"spec": old.get("spec", {})}
    if kind.storage_key == "/services" and "clusterIP" in old["spec"] and "clusterIP" not in new.get("spec", {}):
        kept = {name: old["spec"][name] for name in ("clusterIP", "clusterIPs") if name in old["spec"]}
        return new | {"spec": new.get("spec", {}) | kept}
    return new


def _fold_string_data(document: Json) -> None:
    texts, data = document.get("stringData"), document.get("data") or {}
    if isinstance(texts, dict) and isinstance(data, dict):
        encoded = {name: base64.b64encode(str(text).encode()).decode() for name, text in texts.items()}
        document["data"] = data | encoded
        del document["stringData"]


def _default_service(spec: Any) -> None:
    if not isinstance(spec, dict):
        return
    spec.setdefault("type", "ClusterIP")
    ports = spec.get("ports")
    for port in ports if isinstance(ports, list) else ():
        if isinstance(port, dict) and "port" in port:
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port["port"])


def _start_namespace(document: Json, now: str) -> Json:
    metadata = document["metadata"]
    labels = (metadata.get("labels") or {}) | {"kubernetes.io/metadata.name": metadata["name"]}
    return document | {
        "metadata": metadata | {"labels": labels},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _start_service(document: Json, now: str) -> Json:
    """An address of its own, as clients show it; nothing listens there. It follows from the uid: no table is kept."""
    spec = document.get("spec", {})
    started = document | {"status": {"loadBalancer": {}}}
    if spec.get("clusterIP") or spec.get("type") == "ExternalName":
        return started
    offset = 1 + uuid.UUID(document["metadata"]["uid"]).int % (_SERVICE_NETWORK.num_addresses - 2)
    address = str(_SERVICE_NETWORK[offset])
    return started | {"spec": spec | {"clusterIP": address, "clusterIPs": [address]}}


def _start_job(document: Json, now: str) -> Json:
    """A selector of the job's own, so that `kubectl logs job/…` finds its pods."""
    spec: Json = _JOB | document.get("spec", {})
    template = spec.get("template") or {}
    if spec.get("manualSelector") or "selector" in spec:
        return document | {"spec": spec}
    name, uid = document["metadata"]["name"], document["metadata"]["uid"]
    own = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    metadata = template.get("metadata") or {}
    labelled = template | {"metadata": metadata | {"labels": (metadata.get("labels") or {}) | own}}
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    return document | {"spec": spec | {"selector": selector, "template": labelled}}


def _start_pending(document: Json, now: str) -> Json:
    return document | {"status": {"phase": "Pending"}}


def _start_crd(document: Json, now: str) -> Json:
    spec = document["spec"]
    names = dict(spec["names"])
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    stored = [version["name"] for version in spec["versions"] if version.get("storage")]
    accepted = {"conditions": conditions, "acceptedNames": names, "storedVersions": stored}
    return document | {"spec": spec | {"names": names}, "status": accepted}


_STARTERS: Final[dict[str, Callable[[Json, str], Json]]] = {
    "/namespaces": _start_namespace,
    "/pods": _start_pending,
    "/services": _start_service,
    "/persistentvolumeclaims": _start_pending,
    "/persistentvolumes": _start_pending,
    "batch/jobs": _start_job,
    "apiextensions.k8s.io/customresourcedefinitions": _start_crd,
}

"""The few values that a real server fills in and that clients wait for or merge by; the rest stays as it was sent.

The public definitions carry no defaults, so the ones here are written down. Rule of admission to this file: some client
behaves wrongly without it. Called by `collection`. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

from provisioner.embedded.apiserver import status
from provisioner.embedded.apiserver.kinds import Kind
from provisioner.embedded.apiserver.shape import Json
from provisioner.embedded.apiserver.status import Cause

_WORKLOADS: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"})
# What may not change after creation: dotted paths of a built-in kind.
_IMMUTABLE: Final[dict[str, tuple[str, ...]]] = {
    "Deployment": ("spec.selector",),
    "ReplicaSet": ("spec.selector",),
    "DaemonSet": ("spec.selector",),
    "StatefulSet": ("spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"),
    "Job": ("spec.selector", "spec.template", "spec.completionMode"),
    "Secret": ("type",),
    "RoleBinding": ("roleRef",),
    "ClusterRoleBinding": ("roleRef",),
    "StorageClass": ("provisioner", "parameters", "reclaimPolicy"),
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
    if kind.kind in _WORKLOADS and isinstance(document.get("spec"), dict):
        document["spec"].setdefault("replicas", 1)
    return document


def at_creation(document: Json, kind: Kind, *, now: str) -> Json:
    """The state in which an object starts."""
    starter = _STARTERS.get(kind.storage_key)
    return starter(document, now) if starter else document


def at_update(old: Json, new: Json, kind: Kind) -> Json:
    """Keeps what the server allocated. Raises 422 on a change of an immutable field."""
    if kind.custom:
        return new
    causes = [
        Cause("FieldValueInvalid", "Invalid value: field is immutable", path)
        for path in _IMMUTABLE.get(kind.kind, ())
        if _at(old, path) is not None and _at(old, path) != _at(new, path)
    ]
    if old.get("immutable") is True and any(old.get(name) != new.get(name) for name in ("data", "binaryData")):
        causes.append(Cause("FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set", "data"))
    if causes:
        raise status.invalid(kind.target, new["metadata"]["name"], causes)
    if kind.kind == "Namespace" and "spec" in old:
        return new | {"spec": old["spec"]}
    return new


def _fold_string_data(document: Json) -> None:
    texts = document.pop("stringData", None)
    if isinstance(texts, dict):
        encoded = {name: base64.b64encode(str(text).encode()).decode() for name, text in texts.items()}
        document["data"] = (document.get("data") or {}) | encoded


def _default_service(spec: Any) -> None:
    if not isinstance(spec, dict):
        return
    spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
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
    "/persistentvolumeclaims": _start_pending,
    "/persistentvolumes": _start_pending,
    "apiextensions.k8s.io/customresourcedefinitions": _start_crd,
}


def _at(document: Any, path: str) -> Any:
    for step in path.split("."):
        document = document.get(step) if isinstance(document, dict) else None
    return document

"""Rules on content that no schema states: labels, immutable fields, selectors, pods without containers.

Only those that a client meets in daily work; a real server has many more. Called by `collection` after the schema
check. Pure; what is broken is told all at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from provisioner.embedded.apiserver import status
from provisioner.embedded.apiserver.kinds import Kind, check_crd
from provisioner.embedded.apiserver.names import label_key_fault, label_value_fault
from provisioner.embedded.apiserver.shape import Json
from provisioner.embedded.apiserver.status import Cause

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
_SELECTING: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"})
_POD_TEMPLATE: Final = "spec.template.spec"
_POD_SPECS: Final = {"Pod": "spec", "Job": _POD_TEMPLATE, "CronJob": "spec.jobTemplate.spec.template.spec"}


def check(old: Json | None, new: Json, *, kind: Kind) -> None:
    """Raises 422. `old` is None when the object is created."""
    causes = [*_label_faults(new)]
    if not kind.custom:
        causes += _content_faults(new, kind)
        causes += _change_faults(old, new, kind) if old is not None else ()
    if causes:
        raise status.invalid(kind.target, new["metadata"]["name"], causes=causes)
    if kind.kind == "CustomResourceDefinition":
        check_crd(new)


def _label_faults(document: Json) -> Iterator[Cause]:
    for name, value in (document["metadata"].get("labels") or {}).items():
        for fault in filter(None, (label_key_fault(name), label_value_fault(value))):
            yield Cause("FieldValueInvalid", f"Invalid value: {json.dumps(name)}: {fault}", "metadata.labels")


def _content_faults(document: Json, kind: Kind) -> Iterator[Cause]:
    if kind.kind in _SELECTING:
        wanted = _at(document, "spec.selector.matchLabels") or {}
        labels = _at(document, "spec.template.metadata.labels") or {}
        if any(labels.get(name) != value for name, value in wanted.items()):
            message = f"Invalid value: {json.dumps(labels)}: `selector` does not match template `labels`"
            yield Cause("FieldValueInvalid", message, "spec.template.metadata.labels")
    place = _POD_SPECS.get(kind.kind, _POD_TEMPLATE if kind.kind in _SELECTING else "")
    if place:
        containers = _at(document, f"{place}.containers") or []
        if not containers:
            yield Cause("FieldValueRequired", "Required value", f"{place}.containers")
        names = [container.get("name") for container in containers]
        for index, name in enumerate(names):
            if name in names[:index]:
                message = f"Duplicate value: {json.dumps(name)}"
                yield Cause("FieldValueDuplicate", message, f"{place}.containers[{index}].name")


def _change_faults(old: Json, new: Json, kind: Kind) -> Iterator[Cause]:
    for path in _IMMUTABLE.get(kind.kind, ()):
        before, after = _at(old, path), _at(new, path)
        if before is not None and before != after:
            yield Cause("FieldValueInvalid", f"Invalid value: {json.dumps(after)}: field is immutable", path)
    if old.get("immutable") is True:
        for name in ("data", "binaryData"):
            if old.get(name) != new.get(name):
                yield Cause("FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set", name)


def _at(document: Any, path: str) -> Any:
    for step in path.split("."):
        document = document.get(step) if isinstance(document, dict) else None
    return document

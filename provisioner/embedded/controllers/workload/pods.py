"""Pods as their owners make them: manifests from a template, revision hashes, and whose pods are whose.

Pure, apart from `list_owned`. Used by the controllers of StatefulSets, ReplicaSets and Jobs.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping

from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.kinds import POD
from provisioner.embedded.controllers.loop import is_true
from provisioner.platform.interface import Kind

_FINAL_PHASES = ("Succeeded", "Failed")


def owner_reference(kind: Kind, owner: Json) -> Json:
    """The controlling ownerReference to an object."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_owned_by(found: Json, owner: Json) -> bool:
    """Whether `owner` controls this object."""
    uid = owner["metadata"]["uid"]
    return any(entry["uid"] == uid for entry in found["metadata"].get("ownerReferences") or ())


async def list_owned(api: Api, kind: Kind, owner: Json) -> list[Json]:
    """The objects of a kind that `owner` controls, by name."""
    namespace = owner["metadata"]["namespace"]
    found = [item for item in await api.list(kind, namespace=namespace) if is_owned_by(item, owner)]
    return sorted(found, key=lambda item: str(item["metadata"]["name"]))


def template_hash(template: Json) -> str:
    """A short name for the content of a pod template, the same for the same content."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def new_pod(kind: Kind, owner: Json, *, labels: Mapping[str, str], metadata: Mapping[str, str]) -> Json:
    """A pod of the owner's template. `metadata` names it (`name` or `generateName`), `labels` come on top."""
    template = copy.deepcopy(owner["spec"]["template"])
    wanted = template.get("metadata") or {}
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {
            **metadata,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**(wanted.get("labels") or {}), **labels},
            "annotations": wanted.get("annotations") or {},
            "ownerReferences": [owner_reference(kind, owner)],
        },
        "spec": template["spec"],
    }


def is_ready(pod: Json) -> bool:
    """Whether the pod serves: Ready, and not on its way out."""
    return not is_terminating(pod) and is_true(pod, "Ready")


def is_terminating(pod: Json) -> bool:
    """Whether the pod's deletion was asked for."""
    return "deletionTimestamp" in pod["metadata"]


def is_final(pod: Json) -> bool:
    """Whether the pod's containers ended for good."""
    return (pod.get("status") or {}).get("phase") in _FINAL_PHASES

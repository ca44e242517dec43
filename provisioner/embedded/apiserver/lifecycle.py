"""What the server itself does to an object when it is created, updated and deleted.

Names, uid, generation and timestamps; status kept apart from the rest; finalizers and graceful deletion. Called by
`collection` between decoding and storing. Pure: time and random parts come in as arguments.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from provisioner.embedded.apiserver import status
from provisioner.embedded.apiserver.kinds import Kind, metadata_fault
from provisioner.embedded.apiserver.names import name_fault
from provisioner.embedded.apiserver.shape import Json
from provisioner.embedded.apiserver.status import Cause

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_GENERATED_BASE_LENGTH: Final = 58
_SYSTEM_FIELDS: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
# Nodes report their state when they register, in the same write.
_STATUS_AT_CREATION: Final = frozenset({"nodes"})
# Kinds with a spec whose changes a real server does not count.
_UNCOUNTED: Final = frozenset(
    {
        "certificatesigningrequests",
        "csidrivers",
        "csinodes",
        "deviceclasses",
        "horizontalpodautoscalers",
        "ipaddresses",
        "leases",
        "limitranges",
        "namespaces",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourcequotas",
        "resourceslices",
        "servicecidrs",
        "services",
        "volumeattachments",
    }
)
_UNDELETABLE: Final = frozenset({"default", "kube-system", "kube-public"})
_VERSION_REQUIRED: Final = frozenset({"customresourcedefinitions", "leases"})


def timestamp(moment: datetime) -> str:
    """A moment as the Kubernetes API writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_identity(document: Json, kind: Kind, *, namespace: str, name: str | None = None) -> None:
    """Refuses an object that is not what the path says or has unreadable metadata (400). Fills in where it lives."""
    if document.get("apiVersion") != kind.api_version or document.get("kind") != kind.kind:
        raise status.bad_request(
            f"the object provided is unrecognized: {document.get('apiVersion')}/{document.get('kind')} "
            f"(expected {kind.api_version}/{kind.kind})"
        )
    metadata = document["metadata"] = document.get("metadata") or {}
    fault = metadata_fault(metadata)
    if fault:
        raise status.bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {fault}')
    if kind.namespaced and metadata.setdefault("namespace", namespace) != namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not kind.namespaced:
        metadata.pop("namespace", None)
    if name is not None and metadata.setdefault("name", name) != name:
        raise status.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )


def begin(document: Json, kind: Kind, *, now: datetime, uid: str, suffix: str) -> Json:
    """The object as it starts to exist. `suffix` completes a generated name. Raises 422 on a bad name."""
    metadata = dict(document["metadata"])
    if metadata.get("resourceVersion"):
        raise status.bad_request("resourceVersion should not be set on objects to be created")
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"][:_GENERATED_BASE_LENGTH] + suffix
    _check_name(kind, metadata.get("name"))
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
        metadata.pop(field, None)
    metadata |= {"uid": uid, "creationTimestamp": timestamp(now)}
    if has_generation(kind):
        metadata["generation"] = 1
    begun = document | {"metadata": metadata}
    if kind.has_status and kind.plural not in _STATUS_AT_CREATION:
        begun.pop("status", None)
    return begun


def succeed(old: Json, new: Json, *, kind: Kind, subresource: str) -> Json:
    """`new` as a successor of `old`, written through the object itself or a subresource.

    Raises 409 when `new` was made from another version or another object of that name, 422 on a change that may not be.
    """
    name = old["metadata"]["name"]
    metadata = new.get("metadata", {})
    if metadata.get("uid") not in (None, "", old["metadata"]["uid"]):
        raise status.precondition(kind.target, name, field="UID", wanted=metadata["uid"], found=old["metadata"]["uid"])
    if metadata.get("resourceVersion") not in (None, "", "0", old["metadata"]["resourceVersion"]):
        raise status.stale(kind.target, name)
    if subresource == "status":
        kept = {key: value for key, value in old.items() if key != "status"}
        kept["metadata"] = old["metadata"] | _managed(metadata)
        return kept | ({"status": new["status"]} if "status" in new else {})
    successor = new | {"metadata": _with_system_fields(metadata, old["metadata"])}
    if kind.has_status:
        successor.pop("status", None)
        if "status" in old:
            successor["status"] = old["status"]
    _check_finalizers(old, successor, kind)
    if has_generation(kind) and _intent(old, kind) != _intent(successor, kind):
        successor["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return successor


def check_version_is_stated(document: Json, kind: Kind) -> None:
    """Kinds without unconditional updates want a resourceVersion in a PUT (422)."""
    metadata = document["metadata"]
    if (kind.custom or kind.plural in _VERSION_REQUIRED) and not metadata.get("resourceVersion"):
        cause = Cause(
            "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
        )
        raise status.invalid(kind.target, metadata.get("name", ""), causes=[cause])


def mark_deleted(document: Json, *, now: datetime, grace_seconds: int, policy: str | None) -> Json:
    """The object after a DELETE that does not remove it at once: deletion time and the finalizers of the policy."""
    metadata = dict(document["metadata"])
    finalizers = [
        entry for entry in metadata.get("finalizers") or () if policy is None or entry not in (FOREGROUND, ORPHAN)
    ]
    if policy == "Foreground":
        finalizers.append(FOREGROUND)
    elif policy == "Orphan":
        finalizers.append(ORPHAN)
    metadata.pop("finalizers", None)
    if finalizers:
        metadata["finalizers"] = finalizers
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace_seconds))
        metadata["deletionGracePeriodSeconds"] = grace_seconds
        if metadata.get("generation"):
            metadata["generation"] += 1
    marked = document | {"metadata": metadata}
    if document["kind"] == "Namespace":
        marked["status"] = {**document.get("status", {}), "phase": "Terminating"}
    return marked


def check_deletable(document: Json, kind: Kind) -> None:
    """Refuses to delete the namespaces that every cluster has (403)."""
    name = document["metadata"]["name"]
    if document["kind"] == "Namespace" and name in _UNDELETABLE:
        raise status.forbidden(
            f'namespaces "{name}" is forbidden: this namespace may not be deleted', target=kind.target, name=name
        )


def is_held(document: Json) -> bool:
    """Whether finalizers keep a deleted object in existence."""
    if document["metadata"].get("finalizers"):
        return True
    return document["kind"] == "Namespace" and bool(document.get("spec", {}).get("finalizers"))


def is_finished(document: Json) -> bool:
    """Whether a deleted object may go now: marked, no finalizers, no grace left."""
    metadata = document["metadata"]
    return "deletionTimestamp" in metadata and not is_held(document) and not metadata.get("deletionGracePeriodSeconds")


def grace_seconds(document: Json, requested: int | None) -> int:
    """How long a deletion waits for the node. Only pods that run on a node wait, as their kubelet confirms the end."""
    if document["kind"] != "Pod" or not document.get("spec", {}).get("nodeName"):
        return 0
    if document.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    default = document["spec"].get("terminationGracePeriodSeconds")
    grace = requested if requested is not None else default if default is not None else 30
    return max(0, int(grace))


def has_generation(kind: Kind) -> bool:
    """Whether the server counts the changes of the object's intent."""
    return kind.custom or ("spec" in kind.shape.fields and kind.plural not in _UNCOUNTED)


def _check_name(kind: Kind, name: Any) -> None:
    if not name:
        cause = Cause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
        raise status.invalid(kind.target, "", causes=[cause])
    fault = name_fault(str(name), group=kind.group, plural=kind.plural)
    if fault:
        cause = Cause("FieldValueInvalid", f'Invalid value: "{name}": {fault}', "metadata.name")
        raise status.invalid(kind.target, str(name), causes=[cause])


def _check_finalizers(old: Json, new: Json, kind: Kind) -> None:
    if "deletionTimestamp" not in old["metadata"]:
        return
    added = set(new["metadata"].get("finalizers") or ()) - set(old["metadata"].get("finalizers") or ())
    if added:
        message = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            f"{sorted(added)}"
        )
        raise status.invalid(
            kind.target, old["metadata"]["name"], causes=[Cause("FieldValueForbidden", message, "metadata.finalizers")]
        )


def _with_system_fields(metadata: Json, old: Json) -> Json:
    kept = {key: value for key, value in metadata.items() if key not in _SYSTEM_FIELDS}
    return kept | {key: old[key] for key in _SYSTEM_FIELDS if key in old}


def _managed(metadata: Json) -> Json:
    return {"managedFields": metadata["managedFields"]} if "managedFields" in metadata else {}


def _intent(document: Json, kind: Kind) -> Any:
    if not kind.custom:
        # A Deployment counts its annotations too: rollbacks of old clients are written there.
        annotations = document["metadata"].get("annotations") if kind.kind == "Deployment" else None
        return document.get("spec"), annotations
    ignored = {"metadata", "status"} if kind.has_status else {"metadata"}
    return {key: value for key, value in document.items() if key not in ignored}

"""Garbage collection by owner references: dependents go after their owner, or before it when it is deleted in the
foreground.

Looks at the kinds that the product's manifests and their controllers make (`_KINDS`); the foreground finalizer of any
other kind is not ours to take off. One key is one object of one of these kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from provisioner.domain.errors import NotFoundError
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.core.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    GATEWAY,
    HTTP_ROUTE,
    JOB,
    REPLICA_SET,
    SCALED_OBJECT,
    SERVICE,
    STATEFUL_SET,
    VOLUME_CLAIM,
)
from provisioner.embedded.controllers.kinds import CERTIFICATE, POD, SECRET
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch
from provisioner.platform.interface import Kind

_FOREGROUND: Final = "foregroundDeletion"
_ORPHAN: Final = "orphan"
_LOOK_SECONDS: Final = 0.2
_KINDS: Final = {
    kind.kind: kind
    for kind in (
        DEPLOYMENT, REPLICA_SET, STATEFUL_SET, JOB, POD, VOLUME_CLAIM, SERVICE, CONFIG_MAP, SECRET, GATEWAY, HTTP_ROUTE,
        SCALED_OBJECT, CERTIFICATE,
    )
}  # fmt: skip


def garbage_controller() -> Controller:
    """Collects garbage of the known kinds, in every cluster."""
    watches = tuple(Watch(kind, keys=_keys_of(kind)) for kind in _KINDS.values())
    return Controller("garbage", watches, _reconcile)


def _keys_of(kind: Kind) -> Callable[[Json], Iterable[Key]]:
    def keys(found: Json) -> Iterable[Key]:
        metadata = found["metadata"]
        return (Key(metadata.get("namespace"), f"{kind.kind}/{metadata['name']}"),)

    return keys


async def _reconcile(cluster: Cluster, key: Key) -> float | None:
    api, namespace = cluster.api, key.namespace
    kind_name, _, name = key.name.partition("/")
    kind = _KINDS[kind_name]
    found = await api.get(kind, name, namespace=namespace)
    if found is None:
        for dependent_kind, dependent in await _dependents(api, namespace, kind, name):
            await _collect(api, dependent_kind, dependent)
        return None
    metadata = found["metadata"]
    if "deletionTimestamp" not in metadata:
        await _collect(api, kind, found)
        return None
    finalizers = metadata.get("finalizers") or ()
    if _FOREGROUND in finalizers:
        return await _delete_dependents_first(api, kind, found)
    if _ORPHAN in finalizers:
        await _orphan_dependents(api, kind, found)
    return None


async def _dependents(api: Api, namespace: str | None, kind: Kind, name: str) -> list[tuple[Kind, Json]]:
    return [
        (dependent_kind, item)
        for dependent_kind in _KINDS.values()
        for item in await _list(api, dependent_kind, namespace)
        if any(_names(owner, kind, name) for owner in item["metadata"].get("ownerReferences") or ())
    ]


async def _list(api: Api, kind: Kind, namespace: str | None) -> list[Json]:
    try:
        return await api.list(kind, namespace=namespace)
    except NotFoundError:
        return []  # a cluster that does not serve the kind


async def _collect(api: Api, kind: Kind, found: Json) -> None:
    """Delete an object that has owners of known kinds, none of which is there any more."""
    metadata = found["metadata"]
    owners = metadata.get("ownerReferences") or ()
    if not owners or "deletionTimestamp" in metadata:
        return
    for owner in owners:
        owner_kind = _KINDS.get(owner["kind"])
        if owner_kind is None or owner_kind.api_version != owner["apiVersion"]:
            return
        living = await api.get(owner_kind, owner["name"], namespace=metadata.get("namespace"))
        if living is not None and living["metadata"]["uid"] == owner["uid"]:
            return
    await api.delete(kind, metadata["name"], namespace=metadata.get("namespace"))


async def _delete_dependents_first(api: Api, kind: Kind, found: Json) -> float | None:
    metadata = found["metadata"]
    blocking = 0
    for dependent_kind, item in await _dependents(api, metadata.get("namespace"), kind, metadata["name"]):
        owner = next(entry for entry in item["metadata"]["ownerReferences"] if entry["uid"] == metadata["uid"])
        blocking += bool(owner.get("blockOwnerDeletion"))
        if "deletionTimestamp" not in item["metadata"]:
            namespace, propagation = item["metadata"].get("namespace"), "Foreground"
            await api.delete(dependent_kind, item["metadata"]["name"], namespace=namespace, propagation=propagation)
    if blocking:
        return _LOOK_SECONDS
    await _drop_finalizer(api, kind, found, _FOREGROUND)
    return None


async def _orphan_dependents(api: Api, kind: Kind, found: Json) -> None:
    metadata = found["metadata"]
    for dependent_kind, item in await _dependents(api, metadata.get("namespace"), kind, metadata["name"]):
        kept = [entry for entry in item["metadata"]["ownerReferences"] if entry["uid"] != metadata["uid"]]
        patch = {"metadata": {"resourceVersion": item["metadata"]["resourceVersion"], "ownerReferences": kept}}
        await api.patch(dependent_kind, item["metadata"]["name"], patch, namespace=item["metadata"].get("namespace"))
    await _drop_finalizer(api, kind, found, _ORPHAN)


async def _drop_finalizer(api: Api, kind: Kind, found: Json, finalizer: str) -> None:
    metadata = found["metadata"]
    kept = [name for name in metadata["finalizers"] if name != finalizer]
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept}}
    await api.patch(kind, metadata["name"], patch, namespace=metadata.get("namespace"))


def _names(owner: Json, kind: Kind, name: str) -> bool:
    return bool(owner["kind"] == kind.kind and owner["apiVersion"] == kind.api_version and owner["name"] == name)

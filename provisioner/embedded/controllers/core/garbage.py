"""Garbage collection by owner references: dependents go after their owner, or before it when it is deleted in the
foreground.

In the control plane cluster it looks at every kind, since clients delete anything at all in the foreground and wait; in
tenant clusters at those that the product's manifests and their controllers make, for each watch is two open files. One
key is one object, named with its uid; who names whom as owner is kept from what the watches tell, and looked up again
before anything is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from provisioner.domain.errors import NotFoundError
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.core.kinds import (
    CONFIG_MAP,
    DAEMON_SET,
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

Dependent = tuple[Kind, Json]
_FOREGROUND: Final = "foregroundDeletion"
_ORPHAN: Final = "orphan"
_LOOK_SECONDS: Final = 0.2
_KINDS: Final = (
    DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, POD, VOLUME_CLAIM, SERVICE, CONFIG_MAP, SECRET, GATEWAY,
    HTTP_ROUTE, SCALED_OBJECT, CERTIFICATE,
)  # fmt: skip


def garbage_controller(*, every_kind: bool) -> Controller:
    """Collects garbage of every kind, or of the known ones."""
    garbage = _Garbage()
    watches = () if every_kind else tuple(garbage.watch(kind) for kind in _KINDS)
    return Controller("garbage", watches, garbage.reconcile, every=garbage.watch if every_kind else None)


class _Garbage:
    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}
        self._owned: dict[str, set[Key]] = {}  # by the owner's uid

    def watch(self, kind: Kind) -> Watch:
        """The watch of a kind: every object of it is a key."""
        name = f"{kind.plural}.{kind.group}"
        self._kinds[name] = kind

        def keys(found: Json) -> Iterable[Key]:
            metadata = found["metadata"]
            key = Key(metadata.get("namespace"), f"{name}/{metadata['name']}/{metadata['uid']}")
            for owner in metadata.get("ownerReferences") or ():
                self._owned.setdefault(owner["uid"], set()).add(key)
            return (key,)

        return Watch(kind, keys)

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        """Finish the deletion of one object, or of what it left behind, or delete it because its owners are gone."""
        kind, found = await self._find(cluster.api, key)
        uid = key.name.rpartition("/")[2]
        if found is None:
            for dependent_kind, dependent in await self._dependents(cluster.api, uid):
                await _collect(cluster.api, dependent_kind, dependent)
            return None
        if "deletionTimestamp" not in found["metadata"]:
            await _collect(cluster.api, kind, found)
            return None
        finalizers = found["metadata"].get("finalizers") or ()
        if _FOREGROUND in finalizers:
            return await _delete_dependents_first(cluster.api, kind, found, await self._dependents(cluster.api, uid))
        if _ORPHAN in finalizers:
            await _orphan_dependents(cluster.api, kind, found, await self._dependents(cluster.api, uid))
        return None

    async def _find(self, api: Api, key: Key) -> tuple[Kind, Json | None]:
        """The object of a key, unless it is gone or another has its name."""
        kind_name, name, uid = key.name.rsplit("/", 2)
        kind = self._kinds[kind_name]
        found = await api.get(kind, name, namespace=key.namespace)
        return kind, found if found is not None and found["metadata"]["uid"] == uid else None

    async def _dependents(self, api: Api, uid: str) -> list[Dependent]:
        living = []
        for key in sorted(self._owned.pop(uid, ())):
            kind, found = await self._find(api, key)
            if found is not None and uid in {owner["uid"] for owner in found["metadata"].get("ownerReferences") or ()}:
                living.append((kind, found))
                self._owned.setdefault(uid, set()).add(key)
        return living


async def _collect(api: Api, kind: Kind, found: Json) -> None:
    """Delete an object that has owners, none of which is there any more."""
    metadata = found["metadata"]
    owners = metadata.get("ownerReferences") or ()
    if not owners or "deletionTimestamp" in metadata:
        return
    for owner in owners:
        try:
            owner_kind = await api.kind_of(owner["apiVersion"], owner["kind"])
        except NotFoundError:
            return  # whether such an owner is there, nobody can tell
        living = await api.get(owner_kind, owner["name"], namespace=metadata.get("namespace"))
        if living is not None and living["metadata"]["uid"] == owner["uid"]:
            return
    await api.delete(kind, metadata["name"], namespace=metadata.get("namespace"))


async def _delete_dependents_first(api: Api, kind: Kind, found: Json, dependents: Iterable[Dependent]) -> float | None:
    blocking = 0
    for dependent_kind, item in dependents:
        owners = item["metadata"]["ownerReferences"]
        owner = next(entry for entry in owners if entry["uid"] == found["metadata"]["uid"])
        blocking += bool(owner.get("blockOwnerDeletion"))
        if "deletionTimestamp" not in item["metadata"]:
            namespace, propagation = item["metadata"].get("namespace"), "Foreground"
            await api.delete(dependent_kind, item["metadata"]["name"], namespace=namespace, propagation=propagation)
    if blocking:
        return _LOOK_SECONDS
    await _drop_finalizer(api, kind, found, _FOREGROUND)
    return None


async def _orphan_dependents(api: Api, kind: Kind, found: Json, dependents: Iterable[Dependent]) -> None:
    for dependent_kind, item in dependents:
        owners = item["metadata"]["ownerReferences"]
        kept = [entry for entry in owners if entry["uid"] != found["metadata"]["uid"]]
        patch = {"metadata": {"resourceVersion": item["metadata"]["resourceVersion"], "ownerReferences": kept}}
        await api.patch(dependent_kind, item["metadata"]["name"], patch, namespace=item["metadata"].get("namespace"))
    await _drop_finalizer(api, kind, found, _ORPHAN)


async def _drop_finalizer(api: Api, kind: Kind, found: Json, finalizer: str) -> None:
    metadata = found["metadata"]
    kept = [name for name in metadata["finalizers"] if name != finalizer]
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept}}
    await api.patch(kind, metadata["name"], patch, namespace=metadata.get("namespace"))

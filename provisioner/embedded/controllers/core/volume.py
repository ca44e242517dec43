"""PersistentVolumeClaims are bound as soon as they are made: the folder of a laptop's disk is never short.

No volume is made, since processes share the models' folder. A claim that a real API server protects is let go once no
pod uses it.
"""

from __future__ import annotations

from collections.abc import Iterable

from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.core.kinds import VOLUME_CLAIM
from provisioner.embedded.controllers.kinds import POD
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch

_PROTECTION = "kubernetes.io/pvc-protection"


def volume_controller() -> Controller:
    """Writes phase Bound and the capacity that was asked for."""
    return Controller("volume claims", (Watch(VOLUME_CLAIM), Watch(POD, keys=_claims_of)), _reconcile)


def _claims_of(pod: Json) -> Iterable[Key]:
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield Key(pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"])


async def _reconcile(cluster: Cluster, key: Key) -> float | None:
    found = await cluster.api.get(VOLUME_CLAIM, key.name, namespace=key.namespace)
    if found is None:
        return None
    if "deletionTimestamp" in found["metadata"]:
        await _release(cluster.api, found)
        return None
    spec = found["spec"]
    capacity = (spec.get("resources") or {}).get("requests") or {}
    status = {"phase": "Bound", "accessModes": spec.get("accessModes") or [], "capacity": capacity}
    await cluster.api.write_status(VOLUME_CLAIM, found, status)
    return None


async def _release(api: Api, found: Json) -> None:
    metadata = found["metadata"]
    finalizers = metadata.get("finalizers") or ()
    if _PROTECTION not in finalizers:
        return
    pods = await api.list(POD, namespace=metadata["namespace"])
    if any(key.name == metadata["name"] for pod in pods for key in _claims_of(pod)):
        return
    kept = [name for name in finalizers if name != _PROTECTION]
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept}}
    await api.patch(VOLUME_CLAIM, metadata["name"], patch, namespace=metadata["namespace"])

"""PersistentVolumeClaims are bound as soon as they are made: the folder of a laptop's disk is never short."""

from __future__ import annotations

from provisioner.embedded.controllers.core.kinds import VOLUME_CLAIM
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch


def volume_controller() -> Controller:
    """Writes phase Bound and the capacity that was asked for. No volume is made: processes share the models' folder."""
    return Controller("volume claims", (Watch(VOLUME_CLAIM),), _reconcile)


async def _reconcile(cluster: Cluster, key: Key) -> float | None:
    found = await cluster.api.get(VOLUME_CLAIM, key.name, namespace=key.namespace)
    if found is None:
        return None
    spec = found["spec"]
    capacity = (spec.get("resources") or {}).get("requests") or {}
    status = {"phase": "Bound", "accessModes": spec.get("accessModes") or [], "capacity": capacity}
    await cluster.api.write_status(VOLUME_CLAIM, found, status)
    return None

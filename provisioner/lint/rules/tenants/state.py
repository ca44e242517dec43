"""Where a tenant cluster's control plane keeps its state, and whether it is there after a restart.

Source: vCluster documentation, "Backing store" and "StatefulSet, persistence".
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import look, mapping
from provisioner.lint.world import World

_CLAIM = ("controlPlane", "statefulSet", "persistence", "volumeClaim", "enabled")
_OUTSIDE = (("database", "external"), ("etcd", "deploy"), ("etcd", "external"))


@rule("control-plane-without-volume", Severity.WARNING)
def control_plane_without_volume(world: World) -> Iterator[Hit]:
    """A control plane keeps its state in its own pods, and these have no volume.

    SQLite and embedded etcd write to /data of the pod. With `persistence.volumeClaim.enabled: false` every restart
    begins with an empty cluster (SQLite) or a member without its data (etcd): all objects of the tenant are lost.
    """
    for tenant in world.tenants:
        stores = mapping(tenant.value, "controlPlane", "backingStore")
        is_outside = any(look(stores, *path, "enabled") not in (None, False) for path in _OUTSIDE)
        claimed = look(tenant.value, *_CLAIM)
        volumes = look(tenant.value, *_CLAIM[:3], "dataVolume") or look(tenant.value, *_CLAIM[:3], "addVolumes")
        if claimed in (False, "false") and not is_outside and not volumes:
            message = "keeping state: it is written into pods that have no volume"
            fix = "set volumeClaim.enabled: true, or use an external database"
            yield Hit(at=tenant, path=_CLAIM, message=message, fix=fix)

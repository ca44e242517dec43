"""A tenant cluster's life: where its state is kept, when it sleeps or goes, and the name that it alone answers to.

Source: vCluster documentation, "Backing store", "StatefulSet, persistence", "Sleep" and "Ingress".
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.joins.schedule import is_duration
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import literal, look, mapping
from provisioner.lint.world import TenantValues, World

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


@rule("tenant-duration-malformed", Severity.ERROR)
def tenant_duration_malformed(world: World) -> Iterator[Hit]:
    """The time after which a tenant cluster sleeps or is deleted is no duration that Go reads.

    Go knows hours, minutes and seconds, and no days: `24h`, not `1d`. The Platform reports ErrorModifyingTemplate, and
    the tenant cluster is not made or updated.
    """
    for tenant in world.tenants:
        for block in ("sleep", "deletion"):
            path = (block, "auto", "afterInactivity")
            written = literal(tenant.value, *path)
            if written and not is_duration(written):
                message = f"reading {block}: not a duration that Go reads: `{written}`"
                days = written[:-1] if written[-1:] == "d" and written[:-1].isdecimal() else None
                fix = f"write {int(days) * 24}h" if days else "write such as 30m or 24h"
                yield Hit(at=tenant, path=path, message=message, fix=fix)


_HOSTS = (("controlPlane", "ingress", "host"), ("controlPlane", "endpoint"), ("controlPlane", "tlsRoute", "host"))


@rule("control-plane-host-taken", Severity.WARNING)
def control_plane_host_taken(world: World) -> Iterator[Hit]:
    """Two tenant clusters have their API servers under one name.

    One of both answers, and its certificate and credentials are not the other's: `x509: certificate signed by unknown
    authority`, nodes and kubeconfigs of the second never get in.
    """
    seen: dict[str, TenantValues] = {}
    for tenant in world.tenants:
        for path in _HOSTS:
            host = literal(tenant.value, *path)
            first = seen.setdefault(host, tenant) if host else tenant
            same = first.template is not None and first.template is tenant.template
            if first is not tenant and not same and first.file != tenant.file:
                message = f"exposing control plane: another tenant cluster has this name, in {first.file}: `{host}`"
                yield Hit(at=tenant, path=path, message=message, fix="give each tenant cluster a name of its own")

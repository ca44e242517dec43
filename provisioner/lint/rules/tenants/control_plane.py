"""The tenant cluster's control plane: whether nodes reach it, its address ranges, its store, its backups.

Sources: vCluster's validation code and chart values, the documentation on private nodes and high availability.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from provisioner.catalog.fields import FieldPath, dotted
from provisioner.domain.finding import Severity
from provisioner.lint.joins.schedule import is_cron
from provisioner.lint.joins.tenant import brings_nodes, is_on, is_production
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, is_known, literal, look, mapping, texts, whole
from provisioner.lint.world import TenantValues, World

_DEFAULT_POD_RANGE = "10.244.0.0/16"
_STORES: Mapping[FieldPath, str] = {
    ("database", "embedded"): "SQLite",
    ("database", "external"): "an external database",
    ("etcd", "embedded"): "embedded etcd",
    ("etcd", "external"): "external etcd",
    ("etcd", "deploy"): "deployed etcd",
}
_HA: FieldPath = ("controlPlane", "statefulSet", "highAvailability", "replicas")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@rule("control-plane-unreachable", Severity.ERROR)
def control_plane_unreachable(world: World) -> Iterator[Hit]:
    """Private nodes have no way to the tenant cluster's API server.

    Nodes join from outside the control plane cluster. The chart's Service is a ClusterIP by default, which only
    pods of that cluster reach: the nodes start, never join, and their NodeClaims stay in Provisioned. Give it a
    Service of type LoadBalancer or NodePort, `controlPlane.endpoint`, an ingress or tlsRoute with TLS passthrough,
    or the VPN. Virtual machines that KubeVirt runs in the same cluster reach a ClusterIP, so those are left out.
    """
    for tenant in world.tenants:
        if not tenant.has_private_nodes or is_on(tenant.value, "controlPlane", "standalone", "enabled"):
            continue
        if _has_way_in(tenant) or _nodes_are_inside(world, tenant):
            continue
        kind = literal(tenant.value, "controlPlane", "service", "spec", "type")
        path = ("controlPlane", "service", "spec", "type") if kind else ("privateNodes",)
        message = f"joining nodes: they cannot reach an API server behind a Service of type `{kind or 'ClusterIP'}`"
        fix = "set `controlPlane.service.spec.type: LoadBalancer`, or an endpoint, ingress, tlsRoute or VPN"
        yield Hit(at=tenant, path=path, message=message, fix=fix)


def _has_way_in(tenant: TenantValues) -> bool:
    plane = mapping(tenant.value, "controlPlane")
    kind = look(plane, "service", "spec", "type")
    return (
        kind in ("LoadBalancer", "NodePort")
        or has_hole(kind)
        or bool(look(plane, "endpoint"))
        or bool(look(plane, "service", "spec", "externalIPs"))
        or any(_may_be_on(plane, key, "enabled") for key in ("ingress", "tlsRoute"))
        or _may_be_on(tenant.value, "privateNodes", "vpn", "enabled")
        or _may_be_on(tenant.value, "privateNodes", "daemon", "controlPlaneLoadBalancer", "enabled")
        or _may_be_on(plane, "advanced", "kubeVip", "enabled")
    )


def _may_be_on(value: Any, *path: str) -> bool:
    return is_on(value, *path) or has_hole(look(value, *path))


def _nodes_are_inside(world: World, tenant: TenantValues) -> bool:
    """Whether every provider makes virtual machines in the control plane cluster itself."""
    inside = {value.name for value in world.of_kind("NodeProvider") if mapping(value.value, "spec", "kubeVirt")}
    entries = look(tenant.value, "privateNodes", "autoNodes")
    names = [look(entry, "provider") for entry in entries] if isinstance(entries, list) else []
    return bool(names) and all(
        isinstance(name, str)
        and (
            name in inside
            or re.search(r"virt|(^|[-_])vms?($|[-_])", name.lower()) is not None
            or (bool(inside) and has_hole(name))
        )
        for name in names
    )


@rule("endpoint-malformed", Severity.ERROR)
def endpoint_malformed(world: World) -> Iterator[Hit]:
    """The control plane's endpoint is not `host:port`.

    vCluster splits `controlPlane.endpoint` into host and port and ends with `invalid endpoint` when there is a
    scheme, a path or no port.
    """
    for tenant in world.tenants:
        found = literal(tenant.value, "controlPlane", "endpoint")
        if found and not re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:/\[\]\s]+):[0-9]{1,5}", found):
            message = f"joining nodes: the endpoint wants `host:port`, found: `{found}`"
            fix = "write the host name or address, a colon and the port, such as `api.acme.example.com:443`"
            yield Hit(at=tenant, path=("controlPlane", "endpoint"), message=message, fix=fix)


@rule("endpoint-inside-cluster", Severity.ERROR)
def endpoint_inside_cluster(world: World) -> Iterator[Hit]:
    """The control plane's endpoint is a name that only pods of its own cluster can resolve.

    Private nodes resolve `controlPlane.endpoint` with the DNS of their own network; `*.svc`, `*.cluster.local` and
    loopback addresses lead nowhere from there.
    """
    for tenant in world.tenants:
        found = literal(tenant.value, "controlPlane", "endpoint") or ""
        host = found.rpartition(":")[0].strip("[]").lower()
        if host in _LOOPBACK or host.endswith((".svc", ".cluster.local", ".localhost")):
            message = f"joining nodes: no node outside the cluster resolves: `{found}`"
            fix = "use a host name or address that the nodes' network reaches"
            yield Hit(at=tenant, path=("controlPlane", "endpoint"), message=message, fix=fix)


@rule("control-plane-host-example", Severity.ERROR)
def control_plane_host_example(world: World) -> Iterator[Hit]:
    """The control plane's ingress or TLS route keeps the chart's example host, or misses what it needs.

    `my-host.com` is the chart's placeholder. A `tlsRoute` also wants `parentRefs`: without a Gateway it is attached to
    nothing.
    """
    for tenant in world.tenants:
        for key in ("ingress", "tlsRoute"):
            block = mapping(tenant.value, "controlPlane", key)
            if not is_on(block, "enabled"):
                continue
            path = ("controlPlane", key)
            if block.get("host", "my-host.com") in ("my-host.com", ""):
                message = f"exposing API server: `{key}` has no host of its own, the chart's example is `my-host.com`"
                yield Hit(at=tenant, path=path, message=message, fix=f"set `controlPlane.{key}.host`")
            elif key == "tlsRoute" and not block.get("parentRefs") and not mapping(block, "spec").get("parentRefs"):
                message = "exposing API server: the TLS route names no Gateway"
                yield Hit(at=tenant, path=path, message=message, fix="set `controlPlane.tlsRoute.parentRefs`")


@rule("network-ranges-overlap", Severity.ERROR)
def network_ranges_overlap(world: World) -> Iterator[Hit]:
    """The tenant cluster's pod range and Service range overlap.

    An address would then be a pod's and a Service's at once. On private nodes `networking.podCIDR` is 10.244.0.0/16 by
    default; the Service range is `serviceCIDR` or `networking.serviceCIDR`.
    """
    for tenant in world.tenants:
        if not brings_nodes(tenant):
            continue
        pods = _networks(literal(tenant.value, "networking", "podCIDR") or _DEFAULT_POD_RANGE)
        for path in (("serviceCIDR",), ("networking", "serviceCIDR")):
            for services in _networks(literal(tenant.value, *path)):
                if any(services.version == other.version and services.overlaps(other) for other in pods):
                    message = f"giving addresses: the Service range overlaps the pod range: `{services}`"
                    fix = "choose ranges that overlap neither each other nor the nodes' own network"
                    yield Hit(at=tenant, path=path, message=message, fix=fix)


@rule("network-range-malformed", Severity.ERROR)
def network_range_malformed(world: World) -> Iterator[Hit]:
    """An address range of the tenant cluster is no range.

    It wants an address and a prefix length, such as 10.64.0.0/16; a range with host bits set is taken for another one.
    """
    paths = (("networking", "podCIDR"), ("networking", "serviceCIDR"), ("serviceCIDR",))
    for tenant in world.tenants:
        for path in paths:
            found = literal(tenant.value, *path)
            if found and len(_networks(found)) != len(found.split(",")):
                message = f"giving addresses: not an address range: `{found}`"
                yield Hit(
                    at=tenant, path=path, message=message, fix="write an address and a prefix, such as 10.64.0.0/16"
                )


def _networks(words: str | None) -> list[Network]:
    found = []
    for word in (words or "").split(","):
        try:
            if "/" in word:
                found.append(ipaddress.ip_network(word.strip()))
        except ValueError:
            continue
    return found


def _stores(tenant: TenantValues) -> list[FieldPath]:
    return [path for path in _STORES if is_on(tenant.value, "controlPlane", "backingStore", *path, "enabled")]


def _is_sqlite(tenant: TenantValues) -> bool:
    stores = mapping(tenant.value, "controlPlane", "backingStore")
    unknown = any(has_hole(look(stores, *path, "enabled")) for path in _STORES)
    return not unknown and not [path for path in _stores(tenant) if path != ("database", "embedded")]


@rule("replicas-on-sqlite", Severity.ERROR)
def replicas_on_sqlite(world: World) -> Iterator[Hit]:
    """Several control-plane replicas share no store.

    Without a `backingStore` vCluster keeps its state in SQLite inside one pod, and refuses to start with more
    replicas: `embedded database is not supported with multiple replicas`.
    """
    for tenant in world.tenants:
        replicas = whole(tenant.value, *_HA)
        if replicas is not None and replicas > 1 and _is_sqlite(tenant):
            message = f"starting control plane: the embedded database takes one replica, found {replicas}"
            fix = "set `controlPlane.backingStore.etcd.embedded.enabled: true`, or an external database"
            yield Hit(at=tenant, path=_HA, message=message, fix=fix)


@rule("even-etcd-replicas", Severity.WARNING)
def even_etcd_replicas(world: World) -> Iterator[Hit]:
    """Embedded etcd runs with an even number of members.

    etcd needs more than half of its members: two of two, three of four. An even number survives no more failures
    than one member less, and two survive none.
    """
    for tenant in world.tenants:
        replicas = whole(tenant.value, *_HA)
        if replicas and replicas % 2 == 0 and ("etcd", "embedded") in _stores(tenant):
            message = f"keeping quorum: {replicas} members survive no more failures than {replicas - 1}"
            yield Hit(at=tenant, path=_HA, message=message, fix=f"use {replicas + 1} replicas")


@rule("two-backing-stores", Severity.ERROR)
def two_backing_stores(world: World) -> Iterator[Hit]:
    """More than one backing store is switched on.

    A control plane keeps its state in one place; which one wins is not said, and a later change of mind loses the
    state.
    """
    for tenant in world.tenants:
        found = _stores(tenant)
        if len(found) > 1:
            path = ("controlPlane", "backingStore")
            message = f"storing state: {len(found)} stores are on: {', '.join(_STORES[store] for store in found)}"
            yield Hit(at=tenant, path=path, message=message, fix="leave one of them on")


@rule("production-on-one-replica", Severity.WARNING)
def production_on_one_replica(world: World) -> Iterator[Hit]:
    """A production tenant cluster has one control-plane replica.

    A node drain or a crash then takes the API server away: running model servers go on, but nothing is scheduled,
    scaled or healed meanwhile. Profile, labels, name or path say that it is production.
    """
    for tenant in world.tenants:
        replicas = look(tenant.value, *_HA)
        if is_production(tenant) and (replicas is None or replicas == 1) and not has_hole(replicas):
            message = "running control plane: production with one replica"
            fix = "set `controlPlane.statefulSet.highAvailability.replicas: 3` and embedded etcd"
            yield Hit(at=tenant, path=_HA if replicas else ("controlPlane",), message=message, fix=fix)


@rule("production-on-sqlite", Severity.WARNING)
def production_on_sqlite(world: World) -> Iterator[Hit]:
    """A production tenant cluster keeps its state in SQLite.

    The embedded database lives on one volume of one pod: it can have neither a second replica nor an online backup.
    """
    for tenant in world.tenants:
        if is_production(tenant) and _is_sqlite(tenant):
            message = "storing state: production on the embedded database (SQLite, the default)"
            fix = "set `controlPlane.backingStore.etcd.embedded.enabled: true`, or an external database"
            yield Hit(at=tenant, path=("controlPlane", "backingStore"), message=message, fix=fix)


@rule("production-without-snapshots", Severity.INFO)
def production_without_snapshots(world: World) -> Iterator[Hit]:
    """A production tenant cluster takes no scheduled snapshots.

    Without `snapshots.auto` nothing brings its state back after a lost volume, unless another tool takes backups.
    """
    for tenant in world.tenants:
        if is_production(tenant) and not mapping(tenant.value, "snapshots", "auto"):
            message = "keeping backups: production without `snapshots.auto`"
            fix = "set `snapshots.auto` with schedule, storage and retention, or back up its store by other means"
            yield Hit(at=tenant, message=message, fix=fix)


@rule("snapshots-incomplete", Severity.ERROR)
def snapshots_incomplete(world: World) -> Iterator[Hit]:
    """Scheduled snapshots miss what they need.

    `snapshots.auto` wants a schedule, a storage type with its block, and a retention whose `period` (days) and
    `maxSnapshots` are above zero; otherwise the Platform cannot resolve the template.
    """
    path = ("snapshots", "auto")
    for tenant in world.tenants:
        auto = mapping(tenant.value, *path)
        if not auto:
            continue
        missing = [key for key in ("schedule", "storage", "retention") if not auto.get(key)]
        retention = mapping(auto, "retention")
        missing += [
            f"retention.{key}" for key in ("period", "maxSnapshots") if retention and not _counts(retention.get(key))
        ]
        kind = literal(auto, "storage", "type")
        if kind and kind not in mapping(auto, "storage"):
            missing.append(f"storage.{kind}")
        if missing:
            message = f"taking snapshots: missing, or not above zero: {', '.join(missing)}"
            yield Hit(
                at=tenant, path=path, message=message, fix="set schedule, storage, retention.period and maxSnapshots"
            )


def _counts(value: Any) -> bool:
    return has_hole(value) or (isinstance(value, int) and value > 0)


@rule("schedule-malformed", Severity.ERROR)
def schedule_malformed(world: World) -> Iterator[Hit]:
    """A schedule of a tenant cluster is no cron expression, or its time zone does not exist.

    Sleep, wake-up and snapshot schedules take five cron fields (or `@daily` and the like) and a name of the IANA
    time zone database.
    """
    blocks = (("sleep", "auto"), ("sleep", "auto", "wakeup"), ("snapshots", "auto"))
    for tenant in world.tenants:
        for block in blocks:
            found = literal(tenant.value, *block, "schedule")
            if found and not is_cron(found):
                message = f"reading schedule: not a cron expression: `{found}`"
                fix = "write five fields: minute, hour, day of month, month, day of week"
                yield Hit(at=tenant, path=(*block, "schedule"), message=message, fix=fix)
            zone = literal(tenant.value, *block, "timezone")
            if zone and _zones() and zone not in _zones():
                message = f"reading schedule: unknown time zone: `{zone}`"
                yield Hit(at=tenant, path=(*block, "timezone"), message=message, fix="use a name such as Europe/Berlin")


@cache
def _zones() -> frozenset[str]:
    """The time zones that this machine knows; none where it has no database of them."""
    found = available_timezones()
    return frozenset({*found, "Local"}) if found else frozenset()


@rule("tenant-kubernetes-version", Severity.WARNING)
def tenant_kubernetes_version(world: World) -> Iterator[Hit]:
    """The tenant cluster's Kubernetes version is not one that current vCluster releases are tested with.

    vCluster 0.36 and 0.37 ship and test 1.34 to 1.36; 1.31 is the oldest that this tool checks manifests for. The
    version is an image tag, so it starts with `v` and names all three parts.
    """
    for tenant in world.tenants:
        for path in (("version",), ("image", "tag")):
            at = ("controlPlane", "distro", "k8s", *path)
            found = literal(tenant.value, *at)
            parts = re.fullmatch(r"v([0-9]+)\.([0-9]+)\.[0-9]+([-+].*)?", found or "")
            if found and (parts is None or not (1, 31) <= (int(parts[1]), int(parts[2])) <= (1, 36)):
                message = f"choosing Kubernetes: not a tag of a supported version: `{found}`"
                yield Hit(at=tenant, path=at, message=message, fix="use a full tag of 1.34 to 1.36, such as `v1.36.0`")


@rule("export-kubeconfig-contradicts", Severity.ERROR)
def export_kubeconfig_contradicts(world: World) -> Iterator[Hit]:
    """The exported kubeconfig is described in two ways that exclude each other, or its server is no URL.

    vCluster refuses `exportKubeConfig.secret` together with `additionalSecrets`, and a `server` without http(s)://.
    """
    path = ("exportKubeConfig",)
    for tenant in world.tenants:
        block = mapping(tenant.value, *path)
        if texts(block, "secret") and any(texts(block, "secret").values()) and block.get("additionalSecrets"):
            message = "exporting kubeconfig: `secret` and `additionalSecrets` exclude each other"
            yield Hit(at=tenant, path=(*path, "additionalSecrets"), message=message, fix="keep `additionalSecrets`")
        server = literal(block, "server")
        if server and not server.startswith(("https://", "http://")):
            message = f"exporting kubeconfig: the server wants a URL, found: `{server}`"
            yield Hit(at=tenant, path=(*path, "server"), message=message, fix=f"write `https://{server}`")


@rule("disruption-budget-contradicts", Severity.ERROR)
def disruption_budget_contradicts(world: World) -> Iterator[Hit]:
    """The control plane's disruption budget sets both minAvailable and maxUnavailable.

    Kubernetes takes one of them; vCluster refuses both.
    """
    path = ("controlPlane", "advanced", "podDisruptionBudget")
    for tenant in world.tenants:
        block = mapping(tenant.value, *path)
        if is_on(block, "enabled") and is_known(block.get("minAvailable")) and is_known(block.get("maxUnavailable")):
            message = f"limiting disruption: `{dotted(path)}` sets minAvailable and maxUnavailable"
            yield Hit(at=tenant, path=path, message=message, fix="keep one of them")

"""Our own processes on the control plane cluster: what each holds, where each may go, how large each is. Pure.

The REST API, the workers and the reconciler run apart, so that each has the credentials and the ways of its own work
only. Called by the platform's rendering; the commands and variables stand in its templates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from provisioner.catalog.installation import Installation
from provisioner.catalog.site import Site
from provisioner.domain.role import Role


@dataclass(frozen=True, slots=True)
class Flow:
    """Where pods may go: TCP ports of address ranges, of pods of namespaces, of pods of our own namespace."""

    ports: tuple[int, ...]
    ranges: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()

    @property
    def leads_somewhere(self) -> bool:
        """Whether it names anybody: a rule that names nobody would allow everybody."""
        return bool(self.ranges or self.namespaces or self.pods)


@dataclass(frozen=True, slots=True)
class Mount:
    """A Secret or a ConfigMap as the folder /etc/tenantry/<name>, with the mode of its files."""

    name: str
    kind: Literal["secret", "configMap"]
    source: str
    mode: int = 0o440


@dataclass(frozen=True, slots=True)
class Size:
    """What a pod asks for, as Kubernetes writes quantities; there is no limit for its CPU."""

    cpu: str
    memory: str
    memory_limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of the server. `scales_to` is how many there may be under load; None for a fixed number."""

    role: Role
    mounts: tuple[Mount, ...]
    flows: tuple[Flow, ...]
    size: Size
    scales_to: int | None

    @property
    def name(self) -> str:
        """Of its Deployment and of all that belongs to it."""
        return f"tenantry-{self.role}"


_UNPRIVILEGED = 1024
_SHIFT = 10_000
_USUAL = Size("250m", "512Mi", "1Gi")
_SMALL = Size("50m", "256Mi", "512Mi")
_MOST_UNDER_LOAD = 6
_KEYS = (Mount("operator", "secret", "tenantry-operator-key"), Mount("gateway", "secret", "tenantry-gateway-key"))
_DELIVERY = (Mount("delivery", "secret", "tenantry-delivery"), Mount("git", "configMap", "tenantry-git", 0o555))


def server_processes(site: Site, installation: Installation) -> tuple[Process, ...]:
    """The server's processes, one for each role of `tenantry serve`. Only who makes tenants holds the bootstrap key."""
    store, to_platform = _to_store(installation), _to_platform(installation)
    outside = (*_to_delivery(site, installation), *_to_replicas(site, installation), *_to_customers(site, installation))
    runtime = Mount("runtime", "secret", "tenantry-runtime")
    bootstrap = Mount("bootstrap", "secret", "tenantry-bootstrap")
    return (
        _process(Role.API, _KEYS, (store,), scales_to=_MOST_UNDER_LOAD),
        _process(Role.WORKER, (runtime, *_DELIVERY), (store, *to_platform, *outside), scales_to=_MOST_UNDER_LOAD),
        _process(Role.TENANTS, (runtime, bootstrap), (store, *to_platform), size=_SMALL),
        _process(Role.RECONCILER, (runtime,), (store, *to_platform)),
    )


def gateway_flows(site: Site, installation: Installation) -> tuple[Flow, ...]:
    """Where gateways go: to the API for snapshots, and to replicas."""
    return _leading(Flow((8400,), pods=("tenantry-api",)), *_to_replicas(site, installation))


def delivery_over_ssh(site: Site) -> bool:
    """Whether git reaches the delivery repository over SSH: by its scheme, or as scp writes it."""
    return urlsplit(site.delivery.url).scheme not in ("http", "https", "file")


def _process(
    role: Role, mounts: tuple[Mount, ...], flows: tuple[Flow, ...], *, size: Size = _USUAL, scales_to: int | None = None
) -> Process:
    return Process(role=role, mounts=mounts, flows=_leading(*flows), size=size, scales_to=scales_to)


def _to_store(installation: Installation) -> Flow:
    database = installation.database
    return Flow((database.port,), database.ranges, (database.namespace,) if database.namespace else ())


def _to_platform(installation: Installation) -> tuple[Flow, ...]:
    platform = installation.platform
    behind = _pod_ports(platform.pod_ports, platform.port)
    return Flow((platform.port,), platform.ranges), Flow(behind, namespaces=platform.namespaces)


def _to_replicas(site: Site, installation: Installation) -> tuple[Flow, ...]:
    """To replicas: by their tenants' Gateways, or by the proxies of ours where nodes are shared."""
    lent, ingress = site.gateway.lent_port, site.gateway.ingress
    elsewhere = (ingress.namespace,) if ingress and ingress.namespace else ()
    return (
        Flow(_pod_ports((), site.gateway.tenant_port), namespaces=elsewhere),
        Flow(_pod_ports(installation.entrance_pod_ports, lent), namespaces=(installation.entrance_namespace,)),
        Flow(tuple(sorted({site.gateway.tenant_port, lent})), ranges=installation.tenant_ranges),
    )


def _to_customers(site: Site, installation: Installation) -> tuple[Flow, ...]:
    """To where customers come in, to see what they see."""
    port = site.public.listener_port
    return (
        Flow(_pod_ports(installation.entrance_pod_ports, port), namespaces=(installation.entrance_namespace,)),
        Flow((port,), ranges=installation.tenant_ranges),
    )


def _to_delivery(site: Site, installation: Installation) -> tuple[Flow, ...]:
    place = urlsplit(site.delivery.url) if "://" in site.delivery.url else None
    port = (place.port if place else None) or (22 if delivery_over_ssh(site) else 443)
    behind = _pod_ports(installation.delivery_pod_ports, port)
    return Flow((port,), installation.delivery_ranges), Flow(behind, namespaces=installation.delivery_namespaces)


def _pod_ports(said: tuple[int, ...], port: int) -> tuple[int, ...]:
    """Ports of the pods behind a Service's port, which are what a policy judges. Where nobody says them: the same, or
    10000 above it, so that no privilege is needed; as Envoy Gateway has it, and the chart of vCluster Platform."""
    return said or ((port,) if port >= _UNPRIVILEGED else (port, port + _SHIFT))


def _leading(*flows: Flow) -> tuple[Flow, ...]:
    """The flows that lead somewhere, each once."""
    return tuple(dict.fromkeys(flow for flow in flows if flow.leads_somewhere))

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
    """Where pods may go: TCP ports (none means any) of address ranges, namespaces, pods of our own namespace."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of the server. `scales_to` is how many there may be under load; None for a fixed number."""

    role: Role
    mounts: tuple[Mount, ...]
    flows: tuple[Flow, ...]
    cpu: str
    memory: str
    memory_limit: str
    scales_to: int | None = None

    @property
    def name(self) -> str:
        """Of its Deployment and of all that belongs to it."""
        return f"tenantry-{self.role}"


def server_processes(site: Site, installation: Installation) -> tuple[Process, ...]:
    """The server's processes, one for each role of `tenantry serve`. Only who makes tenants holds the bootstrap key."""
    platform, database = installation.platform, installation.database
    store = Flow((database.port,), database.ranges, (database.namespace,) if database.namespace else ())
    to_platform = (Flow((platform.port,), platform.ranges), Flow((), namespaces=platform.namespaces))
    runtime = Mount("runtime", "secret", "tenantry-runtime")
    return (
        Process(
            role=Role.API,
            mounts=(
                Mount("operator", "secret", "tenantry-operator-key"),
                Mount("gateway", "secret", "tenantry-gateway-key"),
            ),
            flows=_leading(store),
            cpu="250m",
            memory="512Mi",
            memory_limit="1Gi",
            scales_to=6,
        ),
        Process(
            role=Role.WORKER,
            mounts=(
                runtime,
                Mount("delivery", "secret", "tenantry-delivery"),
                Mount("git", "configMap", "tenantry-git", 0o555),
            ),
            flows=_leading(store, *to_platform, *_to_delivery(site, installation), *_to_replicas(site, installation)),
            cpu="250m",
            memory="512Mi",
            memory_limit="1Gi",
            scales_to=6,
        ),
        Process(
            role=Role.TENANTS,
            mounts=(runtime, Mount("bootstrap", "secret", "tenantry-bootstrap")),
            flows=_leading(store, *to_platform),
            cpu="50m",
            memory="256Mi",
            memory_limit="512Mi",
        ),
        Process(
            role=Role.RECONCILER,
            mounts=(runtime,),
            flows=_leading(store, *to_platform),
            cpu="250m",
            memory="512Mi",
            memory_limit="1Gi",
        ),
    )


def gateway_flows(site: Site, installation: Installation) -> tuple[Flow, ...]:
    """Where gateways go: to the API for snapshots, and to replicas."""
    return _leading(Flow((8400,), pods=("tenantry-api",)), *_to_replicas(site, installation))


def delivery_over_ssh(site: Site) -> bool:
    """Whether git reaches the delivery repository over SSH: by its scheme, or as scp writes it."""
    return urlsplit(site.delivery.url).scheme not in ("http", "https", "file")


def _to_replicas(site: Site, installation: Installation) -> tuple[Flow, ...]:
    """To replicas: by their tenants' Gateways, or by the proxies of ours where nodes are shared."""
    ports = {site.gateway.tenant_port, site.gateway.lent_port, site.public.port or 443}
    return (
        Flow((), namespaces=(installation.entrance_namespace,)),
        Flow(tuple(sorted(ports)), ranges=installation.tenant_ranges),
    )


def _to_delivery(site: Site, installation: Installation) -> tuple[Flow, ...]:
    place = urlsplit(site.delivery.url) if "://" in site.delivery.url else None
    port = (place.port if place else None) or (22 if delivery_over_ssh(site) else 443)
    return Flow((port,), installation.delivery_ranges), Flow((), namespaces=installation.delivery_namespaces)


def _leading(*flows: Flow) -> tuple[Flow, ...]:
    return tuple(flow for flow in flows if flow.leads_somewhere)

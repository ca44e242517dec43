"""The plan of an endpoint: everything that creating it will do, decided before anything is done.

`admission` makes it from a request, the catalog and the site; `tenantry plan` prints it; `rendering` fills templates
from it; the create operation stores it and works from nothing else. The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioner.domain.ids import EndpointId
from provisioner.domain.operation import Json
from provisioner.domain.traffic import Traffic

TENANT_NAMESPACE = "inference"
"""The namespace of the runtime inside a tenant cluster."""
TENANT_GATEWAY = "tenant"
"""The name of the tenant's own Gateway in that namespace."""
LENT_NAMESPACE = "gateways"
"""The namespace inside a tenant cluster that Gateways of the control plane cluster are lent into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the endpoint goes: project, template and tenant cluster on vCluster Platform."""

    control_plane: str
    project: str
    tenant_cluster: str
    template: str
    template_version: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """Memory of one GPU in bytes: what weights and key-value cache take, and what the engine may use.

    `longest_context` is the most tokens of one request for which the cache still fits at the wanted concurrency; None
    where the model has no such cache.
    """

    weights_bytes: int
    cache_bytes: int
    usable_bytes: int
    longest_context: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClaim:
    """What stands for a GPU where replicas claim devices (DRA): one of a device class, which a driver publishes;
    `mig_profile` where it is a part of a GPU."""

    device_class: str
    driver: str
    mig_profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """What it takes: nodes of one node type (full name `<provider>.<type>`), GPUs per replica, bytes of GPU memory.

    GPUs are counted by the extended resource `gpu_resource` or, where that is None, as devices of `claim`.

    `nodes` stand ready for as long as the endpoint lives, `burst_nodes` come when pods wait for them. A replica spans
    `nodes_per_replica` nodes with one pod on each. `memory_bytes` is what one replica needs.
    """

    node_type: str
    nodes: int
    gpu_resource: str | None
    gpus_per_replica: int
    memory_bytes: int
    burst_nodes: int = 0
    nodes_per_replica: int = 1
    gpus_total: int = 0
    gpu_memory: GpuMemory | None = None
    claim: DeviceClaim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """Fine-tuned weights that the engine loads beside the model's, and the name that asks for them."""

    name: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """How a change reaches the replicas: `parallel` where a new revision fits beside the old one, else `replace` with a
    gap of about `gap_seconds` in which nothing answers."""

    mode: str
    gap_seconds: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePlan:
    """What runs: runtime, image by digest, the model and its serving parameters, what one pod takes, replica bounds.

    `source` is what the engine is told to load, at revision or digest `pin`; `served_model` is the name it answers to;
    `cpu` and `memory` are Kubernetes quantities; `revision` is a short digest of all that changes the pods.
    """

    runtime: str
    image: str
    model: str
    model_digest: str
    source: str
    pin: str
    served_model: str
    kind: str
    serving: Mapping[str, Json]
    weights_bytes: int
    cpu: str
    memory: str
    min_replicas: int
    max_replicas: int
    revision: str
    extra_arguments: tuple[str, ...] = ()
    adapters: tuple[Adapter, ...] = ()
    signals: tuple[str, ...] = ("queue-depth",)
    """What the scaler looks at."""
    storage: str = "pvc"
    """Where weights lie, see `catalog.tier.Storage`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """How it is reached: the customer's hostname and URL, and the domain of the replicas' own names.

    `gateway` is the Gateway that leads to the replicas, as the tenant cluster names it: namespace and name.
    """

    hostname: str
    url: str
    tenant_domain: str
    gateway_port: int
    gateway: tuple[str, str] = (TENANT_NAMESPACE, TENANT_GATEWAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPlan:
    """The whole plan of one endpoint."""

    endpoint: EndpointId
    name: str
    tenant: str
    team: str | None
    region: str
    tier: str
    tier_version: str
    tenancy: str
    placement: Placement
    capacity: CapacityPlan
    runtime: RuntimePlan
    address: Address
    quota: Mapping[str, str] = field(default_factory=dict)
    profile: str = "prod"
    pool: str | None = None
    """The id of the pool that serves it, in a tier whose endpoints share one."""
    rollout: Rollout | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    """What its tenant may send, by name, where the tier bounds it."""
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def is_alias(self) -> bool:
        """Whether another endpoint, its pool, has the replicas that serve it: it is a route, keys and limits."""
        return self.pool is not None and self.pool != self.endpoint

    @property
    def owns_tenant_cluster(self) -> bool:
        """Whether its tenant cluster lives and dies with it."""
        return self.tenancy == "endpoint" or self.pool == self.endpoint

    @property
    def shares_tenant_cluster(self) -> bool:
        """Whether it stands in its customer's tenant cluster, beside the customer's other endpoints."""
        return self.tenancy == "customer"

    @property
    def orders_nodes(self) -> bool:
        """Whether its plan says how many nodes there are; else they are lent, or come when pods wait."""
        return "nodes" in self.placement.parameters

    @property
    def serving_id(self) -> str:
        """The id that names the runtime's objects: the pool's where there is one, else the endpoint's."""
        return self.pool or self.endpoint

    def replica_host(self, ordinal: int) -> str:
        """The replica's own name on the tenant's Gateway: one label, so that one wildcard certificate covers it."""
        return f"r{ordinal}-{self.runtime.revision}-{self.serving_id}.{self.address.tenant_domain}"

    @property
    def workload(self) -> str:
        """The name of the StatefulSet of this revision; with its ordinal it stays within 52 characters."""
        return f"{self.serving_id}-{self.runtime.revision}"

    @property
    def delivery_path(self) -> str:
        """The folder in the delivery repository, on the branch named like the endpoint."""
        return f"endpoints/{self.serving_id}"

"""The plan of an endpoint: everything that creating it will do, decided before anything is done.

`admission` makes it from a request, the catalog and the site; `tenantry plan` prints it; `rendering` fills templates
from it; the create operation stores it and works from nothing else. The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioner.domain.ids import EndpointId
from provisioner.domain.operation import Json

TENANT_NAMESPACE = "inference"
"""The namespace of the runtime inside a tenant cluster."""


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
class CapacityPlan:
    """What it takes: nodes of one node type (full name `<provider>.<type>`), GPUs per replica, bytes of GPU memory."""

    node_type: str
    nodes: int
    gpu_resource: str
    gpus_per_replica: int
    memory_bytes: int


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """How it is reached: the customer's hostname and URL, and the domain of the replicas' own names."""

    hostname: str
    url: str
    tenant_domain: str
    gateway_port: int


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

    def replica_host(self, ordinal: int) -> str:
        """The replica's own name on the tenant's Gateway: one label, so that one wildcard certificate covers it."""
        return f"r{ordinal}-{self.runtime.revision}-{self.endpoint}.{self.address.tenant_domain}"

    @property
    def workload(self) -> str:
        """The name of the StatefulSet of this revision; with its ordinal it stays within 52 characters."""
        return f"{self.endpoint}-{self.runtime.revision}"

    @property
    def delivery_path(self) -> str:
        """The folder in the delivery repository, on the branch named like the endpoint."""
        return f"endpoints/{self.endpoint}"

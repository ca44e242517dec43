"""The plan of an endpoint on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.wire.message import Message


class PlacementView(Message):
    """Project, template and tenant cluster on vCluster Platform."""

    control_plane: str
    project: str
    tenant_cluster: str
    template: str
    template_version: str
    parameters: Mapping[str, str]


class CapacityView(Message):
    """Nodes and GPU memory."""

    node_type: str
    nodes: int
    gpu_resource: str
    gpus_per_replica: int
    memory_bytes: int


class RuntimeView(Message):
    """Image, model and serving parameters."""

    runtime: str
    image: str
    model: str
    model_digest: str
    source: str
    pin: str
    served_model: str
    kind: str
    serving: Mapping[str, Any]
    weights_bytes: int
    cpu: str
    memory: str
    min_replicas: int
    max_replicas: int
    revision: str


class AddressView(Message):
    """Hostname and URL for customers, domain and port of the replicas."""

    hostname: str
    url: str
    tenant_domain: str
    gateway_port: int


class PlanView(Message):
    """Everything that creating the endpoint would do."""

    endpoint: str
    name: str
    tenant: str
    team: str | None
    region: str
    tier: str
    tier_version: str
    tenancy: str
    placement: PlacementView
    capacity: CapacityView
    runtime: RuntimeView
    address: AddressView
    quota: Mapping[str, str]

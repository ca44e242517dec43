"""The plan of an endpoint on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.wire.endpoint import TrafficView
from provisioner.wire.finding import FindingView
from provisioner.wire.message import Message


class PlacementView(Message):
    """Project, template and tenant cluster on vCluster Platform."""

    control_plane: str
    project: str
    tenant_cluster: str
    template: str
    template_version: str
    parameters: Mapping[str, str]


class GpuMemoryView(Message):
    """Memory of one GPU in bytes, and the most tokens of one request that fit; null for a model without a cache."""

    weights_bytes: int
    cache_bytes: int
    usable_bytes: int
    longest_context: int | None


class DeviceClaimView(Message):
    """What stands for a GPU where replicas claim devices (DRA): a device class, and the profile of a part."""

    device_class: str
    driver: str
    mig_profile: str | None


class CapacityView(Message):
    """Nodes and GPU memory. `nodes` stand ready, `burstNodes` come when pods wait for them.

    GPUs are counted by an extended resource, or as the devices that `claim` names.
    """

    node_type: str
    nodes: int
    burst_nodes: int
    nodes_per_replica: int
    gpu_resource: str | None
    gpus_per_replica: int
    gpus_total: int
    memory_bytes: int
    gpu_memory: GpuMemoryView | None
    claim: DeviceClaimView | None


class AdapterView(Message):
    """Fine-tuned weights beside the model's."""

    name: str
    source: str


class RolloutView(Message):
    """How a change reaches the replicas: `parallel`, or `replace` with a gap in which nothing answers."""

    mode: str
    gap_seconds: int
    reason: str


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
    extra_arguments: tuple[str, ...]
    adapters: tuple[AdapterView, ...]
    signals: tuple[str, ...]
    storage: str


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
    profile: str
    pool: str | None
    rollout: RolloutView | None
    limits: Mapping[str, int]
    traffic: TrafficView = TrafficView()


class ForecastPlanView(PlanView):
    """A plan with what it is made of: number of objects by kind, and the licensed features of the Platform it needs."""

    objects: Mapping[str, int]
    features: tuple[str, ...]


class ForecastView(Message):
    """What a request would come to: every finding, and the plan where one can be made."""

    findings: tuple[FindingView, ...]
    plan: ForecastPlanView | None

"""What the runtimes' templates branch on or loop over, split by group of templates so that few shapes serve many plans.

A shape is made of a plan and the catalog; templates see it as `shape`. Pure; called by the pack, which compiles each
shape once.
"""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.catalog.runtime import Runtime
from provisioner.catalog.tier import Scheduling, Storage, Tier
from provisioner.domain.plan import EndpointPlan

ENGINE_METRICS = {
    "queue-depth": "requests_waiting",
    "running-requests": "requests_running",
    "time-to-first-token": "time_to_first_token",
    "tokens-per-second": "generated_tokens",
}
"""Signals that an engine gives, and the name under which its runtime lists the metric."""
GATEWAY_QUEUE = "gateway-queue"
"""The one signal that there is while nothing runs: our own gateways give it."""
ALWAYS_KNOWN = "gpu-utilization"
"""What stands in for a signal that an engine does not publish."""


@dataclass(frozen=True, slots=True)
class TenantShape:
    """What a tenant cluster holds once."""

    tier: str
    gpu_resource: str


@dataclass(frozen=True, slots=True)
class EndpointShape:
    """What an endpoint holds beside its pods."""

    tier: str
    runtime: str
    gpu_resource: str | None
    spans_nodes: bool
    storage: str
    signals: tuple[str, ...]
    sleeps: bool


@dataclass(frozen=True, slots=True)
class WorkloadShape:
    """The pods of an endpoint."""

    tier: str
    runtime: str
    gpu_resource: str | None
    spans_nodes: bool
    storage: str
    arguments: int
    fetches: int

    @property
    def fetches_in_pod(self) -> bool:
        """Whether each pod fetches its weights itself before the server starts."""
        return bool(self.fetches) and self.storage in (Storage.PVC, Storage.NVME)

    @property
    def warms_up(self) -> bool:
        """Whether a Job sees to the weights before any server starts."""
        return self.storage in (Storage.SHARED_FILESYSTEM, Storage.OBJECT_STORE, Storage.IMAGE)

    @property
    def reads_only(self) -> bool:
        """Whether the server has no business writing where the weights lie."""
        return self.storage == Storage.OBJECT_STORE


@dataclass(frozen=True, slots=True)
class ReplicaShape:
    """What stands once per replica."""

    tier: str
    runtime: str
    spans_nodes: bool


@dataclass(frozen=True, slots=True)
class AgentShape:
    """What the agents of an endpoint may do."""

    tier: str
    replicas: int


def endpoint_shape(plan: EndpointPlan, runtime: Runtime) -> EndpointShape:
    """The shape of an endpoint's objects."""
    return EndpointShape(
        tier=plan.tier,
        runtime=runtime.name,
        gpu_resource=gpu_resource(plan),
        spans_nodes=spans_nodes(plan),
        storage=plan.runtime.storage,
        signals=known_signals(plan.runtime.signals, runtime),
        sleeps=plan.runtime.min_replicas == 0,
    )


def spans_nodes(plan: EndpointPlan) -> bool:
    """Whether a replica is several pods, one on each of its nodes."""
    return plan.capacity.nodes_per_replica > 1


def known_signals(signals: tuple[str, ...], runtime: Runtime) -> tuple[str, ...]:
    """The signals that this engine can give. One that it does not publish is replaced by how busy the GPUs are."""
    found = (
        signal if signal not in ENGINE_METRICS or ENGINE_METRICS[signal] in runtime.metrics else ALWAYS_KNOWN
        for signal in signals
    )
    return tuple(dict.fromkeys(found))


def gpu_resource(plan: EndpointPlan) -> str | None:
    """What a replica's GPUs are asked for as, the extended resource or the device class; None where it has none."""
    capacity = plan.capacity
    asked_as = capacity.claim.device_class if capacity.claim else capacity.gpu_resource
    return asked_as if capacity.gpus_per_replica else None


def quota_resource(tier: Tier) -> str:
    """What a quota counts GPUs by."""
    if tier.scheduling is Scheduling.DRA:
        return f"tenantry-{tier.name}.deviceclass.resource.k8s.io/devices"
    return f"requests.{tier.accelerator.resource}"

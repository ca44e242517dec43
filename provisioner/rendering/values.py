"""What fills the slots: an endpoint's plan as flat values, one function per group of templates.

Anything that a template would have to compute is computed here. Pure; called by the pack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.compiler import SlotValue
from provisioner.rendering.slots import SlotType

PROBE_PERIOD_SECONDS = 10
STARTUP_SECONDS = 600
"""What a server may take to start however small its weights are: the image is pulled and compiled kernels are built."""
LOADING_BYTES_PER_SECOND = 100_000_000
"""The slowest fetching and loading of weights that a start is given time for."""

_GIB = 2**30
TEXT, NUMBER = SlotType.TEXT, SlotType.NUMBER

OWNER_SLOTS: Mapping[str, SlotType] = {"endpoint": TEXT, "tenant": TEXT}
RUNTIME_SLOTS: Mapping[str, SlotType] = {
    **OWNER_SLOTS,
    "workload": TEXT,
    "revision": TEXT,
    "image": TEXT,
    "model": TEXT,
    "tenant_domain": TEXT,
    "cpu": TEXT,
    "memory": TEXT,
    "storage": TEXT,
    "gpus": NUMBER,
    "startup_failures": NUMBER,
    "min_replicas": NUMBER,
    "max_replicas": NUMBER,
}
REPLICA_SLOTS: Mapping[str, SlotType] = {**OWNER_SLOTS, "replica": TEXT, "pod": TEXT, "host": TEXT}


def owner_values(plan: EndpointPlan) -> dict[str, SlotValue]:
    """Whose object it is."""
    return {"endpoint": plan.endpoint, "tenant": plan.tenant}


def runtime_values(plan: EndpointPlan, *, arguments: Sequence[str]) -> dict[str, SlotValue]:
    """Values of RUNTIME_SLOTS, and the list `arguments`."""
    return {
        **owner_values(plan),
        "workload": plan.workload,
        "revision": plan.runtime.revision,
        "image": plan.runtime.image,
        "model": plan.runtime.model,
        "tenant_domain": plan.address.tenant_domain,
        "cpu": plan.runtime.cpu,
        "memory": plan.runtime.memory,
        "storage": f"{storage_gib(plan.runtime.weights_bytes)}Gi",
        "gpus": plan.capacity.gpus_per_replica,
        "startup_failures": startup_failures(plan.runtime.weights_bytes),
        "min_replicas": max(plan.runtime.min_replicas, 1),  # may sleep only after it was proven
        "max_replicas": plan.runtime.max_replicas,
        "arguments": arguments,
    }


def replica_values(plan: EndpointPlan, ordinal: int) -> dict[str, SlotValue]:
    """Values of REPLICA_SLOTS for one ordinal."""
    host = plan.replica_host(ordinal)
    return {**owner_values(plan), "replica": host.partition(".")[0], "pod": f"{plan.workload}-{ordinal}", "host": host}


def startup_failures(weights_bytes: int) -> int:
    """How many start-up probes may fail before a server is restarted: its time grows with its weights."""
    seconds = STARTUP_SECONDS + -(-weights_bytes // LOADING_BYTES_PER_SECOND)
    return -(-seconds // PROBE_PERIOD_SECONDS)


def storage_gib(weights_bytes: int) -> int:
    """The size of a replica's volume: its weights and a quarter, and one GiB for what engines keep beside them."""
    return -(-weights_bytes * 5 // (4 * _GIB)) + 1

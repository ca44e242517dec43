"""What a revision's replicas are made by: a StatefulSet, or a LeaderWorkerSet where a replica spans nodes. Pure."""

from __future__ import annotations

from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.platform.interface import Kind, ObjectRef
from provisioner.platform.kinds import LEADER_WORKER_SET, STATEFUL_SET


def workload_kind(plan: EndpointPlan) -> Kind:
    """The kind that the templates render for the plan."""
    return LEADER_WORKER_SET if plan.capacity.nodes_per_replica > 1 else STATEFUL_SET


def workload_ref(plan: EndpointPlan) -> ObjectRef:
    """The workload of the plan's revision in its tenant cluster."""
    return ObjectRef(workload_kind(plan), plan.workload, TENANT_NAMESPACE)

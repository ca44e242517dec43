"""The replicas of a revision: lists their pods, makes their Leases with it and removes them with it. Argo CD leaves
Leases alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.endpoints.draining import REVISION_LABEL
from provisioner.endpoints.leases import REPLICA_LEASE_SECONDS, lease_names
from provisioner.endpoints.observe import ENDPOINT_LABEL
from provisioner.endpoints.world import EndpointAttempt
from provisioner.platform.interface import Manifest, ObjectRef
from provisioner.platform.kinds import LEASE, POD

ROLE_LABEL = "tenantry.io/role"
_WORKER = "worker"


async def list_pods(attempt: EndpointAttempt, plan: EndpointPlan) -> Sequence[Manifest]:
    """The pods of a revision, those that are ending included."""
    labels = {ENDPOINT_LABEL: str(plan.endpoint), REVISION_LABEL: plan.runtime.revision}
    return await attempt.world.tenant(plan).list(POD, namespace=TENANT_NAMESPACE, labels=labels)


async def list_answering(attempt: EndpointAttempt, plan: EndpointPlan) -> Sequence[Manifest]:
    """Those of them that answer: one per replica, the leader of each group where replicas span nodes."""
    pods = await list_pods(attempt, plan)
    return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(ROLE_LABEL) != _WORKER]


async def list_leases(attempt: EndpointAttempt, plan: EndpointPlan) -> Sequence[Manifest]:
    """The Leases of an endpoint, whatever their revision."""
    labels = {ENDPOINT_LABEL: str(plan.endpoint)}
    return await attempt.world.tenant(plan).list(LEASE, namespace=TENANT_NAMESPACE, labels=labels)


async def ensure_leases(attempt: EndpointAttempt, plan: EndpointPlan, present: Collection[str] | None = None) -> None:
    """Make the Leases of a revision that are not `present`; None looks which are."""
    tenant = attempt.world.tenant(plan)
    if present is None:
        found = await tenant.list(LEASE, namespace=TENANT_NAMESPACE, labels={ENDPOINT_LABEL: str(plan.endpoint)})
        present = {str(lease["metadata"]["name"]) for lease in found}
    for name in lease_names(plan):
        if name not in present:
            await attempt.guard()
            await tenant.apply(_lease(plan, name), kind=LEASE, fence=attempt.fence)


async def remove_leases(attempt: EndpointAttempt, plan: EndpointPlan, *, kept: Collection[str] = ()) -> None:
    """Remove the Leases of a revision but for those `kept`, so that nothing counts as alive any more."""
    tenant = attempt.world.tenant(plan)
    for name in lease_names(plan):
        if name not in kept:
            await attempt.guard()
            await tenant.delete(ObjectRef(LEASE, name, TENANT_NAMESPACE), fence=attempt.fence)


def _lease(plan: EndpointPlan, name: str) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/managed-by": "tenantry",
        ENDPOINT_LABEL: str(plan.endpoint),
        "tenantry.io/tenant": plan.tenant,
        "tenantry.io/tier": plan.tier,
    }
    return {
        "metadata": {"name": name, "namespace": TENANT_NAMESPACE, "labels": labels},
        "spec": {"leaseDurationSeconds": REPLICA_LEASE_SECONDS},
    }

"""The Leases of replicas: one per ordinal, made by the worker, renewed by the agent beside the model server.

A replica lives while its Lease is renewed; only the control plane decides that. Verbs make the Leases with a revision
and remove them with it; the reconciler reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.endpoints.observe import ENDPOINT_LABEL
from provisioner.endpoints.world import EndpointAttempt
from provisioner.platform.interface import Manifest, ObjectRef
from provisioner.platform.kinds import LEASE

REPLICA_LEASE_SECONDS = 15
_LEASE = timedelta(seconds=REPLICA_LEASE_SECONDS)
"""Ours, not the Lease's own: whoever renews it does not decide how long it holds, nor by a clock that runs ahead."""


def lease_names(plan: EndpointPlan) -> tuple[str, ...]:
    """The names of the Leases of a revision, by ordinal: those of its pods."""
    return tuple(f"{plan.workload}-{ordinal}" for ordinal in range(plan.runtime.max_replicas))


def live_ordinals(leases: Iterable[Manifest], plan: EndpointPlan, *, now: datetime) -> tuple[int, ...]:
    """The ordinals of the plan's revision whose Lease was renewed in time."""
    ordinals = {name: ordinal for ordinal, name in enumerate(lease_names(plan))}
    return tuple(
        sorted(
            ordinals[lease["metadata"]["name"]]
            for lease in leases
            if lease["metadata"]["name"] in ordinals and _is_live(lease.get("spec") or {}, now)
        )
    )


async def ensure_leases(attempt: EndpointAttempt, plan: EndpointPlan, present: Collection[str]) -> None:
    """Make the Leases of a revision that are not `present`."""
    tenant = attempt.world.tenant(plan)
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


def _is_live(spec: Mapping[str, object], now: datetime) -> bool:
    renewed = spec.get("renewTime")
    if not spec.get("holderIdentity") or not isinstance(renewed, str):
        return False
    try:
        at = datetime.fromisoformat(renewed)
    except ValueError:
        return False
    return at.tzinfo is not None and abs(now - at) < _LEASE

"""Which replicas of a revision live: those whose Lease was renewed in time. Pure.

One Lease per ordinal, made by the worker, renewed by the agent beside the model server; only the control plane expires
it. Read by the reconciler, and by verbs that wait for replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from provisioner.domain.plan import EndpointPlan
from provisioner.platform.interface import Manifest

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


def _is_live(spec: Mapping[str, object], now: datetime) -> bool:
    renewed = spec.get("renewTime")
    if not spec.get("holderIdentity") or not isinstance(renewed, str):
        return False
    try:
        at = datetime.fromisoformat(renewed)
    except ValueError:
        return False
    return at.tzinfo is not None and abs(now - at) < _LEASE

"""Keeps a replica registered: renews the Lease that bears its pod's name, in the place of the agent beside the server.

The worker that made the replica makes the Lease; the reconciler of the product reads it. Called by the kubelet for
every pod that is ready, and for no other: a replica that does not answer lets its Lease run out.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.conditions import timestamp
from provisioner.embedded.controllers.core.kinds import LEASE

RENEW_SECONDS: Final = 5.0
DURATION_SECONDS: Final = 15


async def renew_lease(api: Api, pod: Json, *, now: datetime) -> bool:
    """Renew the pod's Lease unless that was done a moment ago. False when there is none."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    lease = await api.get(LEASE, name, namespace=namespace)
    if lease is None:
        return False
    spec = lease.get("spec") or {}
    is_ours = spec.get("holderIdentity") == name
    if is_ours and (now - datetime.fromisoformat(spec["renewTime"])).total_seconds() < RENEW_SECONDS:
        return True
    wanted: Json = {"holderIdentity": name, "renewTime": timestamp(now), "leaseDurationSeconds": DURATION_SECONDS}
    if not is_ours:
        wanted |= {"acquireTime": timestamp(now), "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
    await api.patch(LEASE, name, {"spec": wanted}, namespace=namespace)
    return True

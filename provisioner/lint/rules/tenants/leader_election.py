"""The tenant cluster's store and leader election under high availability.

Sources: vCluster's chart values and the leader election of client-go.
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import whole
from provisioner.lint.world import World


@rule("leader-election-order", Severity.ERROR)
def leader_election_order(world: World) -> Iterator[Hit]:
    """The times of the control plane's leader election contradict each other.

    The lease must be longer than the time to renew it, and that longer than 1.2 times the pause between attempts
    (60, 40 and 15 seconds by default); otherwise every replica ends at once: `leaseDuration must be greater than
    renewDeadline`.
    """
    path = ("controlPlane", "statefulSet", "highAvailability")
    for tenant in world.tenants:
        lease = whole(tenant.value, *path, "leaseDuration") or 60
        renew = whole(tenant.value, *path, "renewDeadline") or 40
        retry = whole(tenant.value, *path, "retryPeriod") or 15
        if not lease > renew > 1.2 * retry:
            message = f"electing leader: wants lease {lease} s > renewal {renew} s > 1.2 times pause {retry} s"
            yield Hit(at=tenant, path=path, message=message, fix="leave them at 60, 40 and 15")

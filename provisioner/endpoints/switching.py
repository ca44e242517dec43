"""Switches an endpoint from one side of a change to the other: one write of its row, then the snapshot follows.

Gateways are told of a new snapshot at once, and keep the old one while they are being told: what serves no more by the
snapshot is left alone for a moment longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from provisioner.domain.endpoint import Change
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.domain.snapshot import Route
from provisioner.endpoints.progress import load_endpoint, save_endpoint, wait_for, waited_seconds
from provisioner.endpoints.world import EndpointAttempt
from provisioner.operations.step import Wait

SETTLING_SECONDS = 5.0
"""How long gateways are given to take a snapshot up, and requests that were being sent to arrive."""


async def save_side(attempt: EndpointAttempt, side: Change) -> None:
    """Make this side what serves: in one write, after which no change is pending."""
    endpoint = await load_endpoint(attempt)
    await save_endpoint(attempt, endpoint, replace(endpoint, request=side.request, plan=side.plan, change=None))


async def await_only(attempt: EndpointAttempt, plan: EndpointPlan, *, replicas: int = 1) -> Wait | None:
    """Wait until the snapshot names replicas of this plan and no others, at least so many, or with 0 none at all. None
    when that is so."""
    snapshot = await attempt.world.store.snapshots.current()
    if snapshot is None:
        return _pending(attempt, "there is no snapshot yet")
    routes = [route for route in snapshot.routes if route.endpoint == plan.endpoint]
    trouble = _differs(routes, plan, replicas)
    return _pending(attempt, trouble) if trouble else None


def await_gateways(attempt: EndpointAttempt) -> Wait | None:
    """Wait until gateways have taken up the snapshot that the step before this one saw. None when they had time to."""
    left = SETTLING_SECONDS - waited_seconds(attempt)
    if left <= 0:
        return None
    message = "gateways take up the new route directory"
    return replace(wait_for(attempt, attempt.step, reason="Settling", message=message), retry_after_seconds=left)


def _differs(routes: Sequence[Route], plan: EndpointPlan, replicas: int) -> str | None:
    hosts = {backend.host for route in routes for backend in route.backends}
    wanted = {plan.replica_host(ordinal) for ordinal in range(plan.runtime.max_replicas)} if replicas else set()
    if others := sorted(hosts - wanted):
        return f"the route directory still names: {', '.join(others)}"
    if len(hosts) < replicas:
        return f"live replicas in the snapshot: {len(hosts)} of {replicas}"
    return None


def _pending(attempt: EndpointAttempt, message: str) -> Wait:
    attempt.world.wake_reconciler(EndpointId(attempt.operation.subject))
    return wait_for(attempt, attempt.step, reason="SnapshotPending", message=message)

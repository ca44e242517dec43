"""The second half of a change: the switch, the proof from outside, and the departure of the side that does not serve.

Steps of update and scale; under names of their own they also cancel a change. Where the first half failed, or somebody
cancels, the old side serves in the end and the new one goes: the old one is brought back first if it was drained.
"""

from __future__ import annotations

from dataclasses import replace

from provisioner.domain.conditions import current_stage
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.domain.plan import EndpointPlan
from provisioner.endpoints.change import Course, course_of, failure, failure_of, is_undone, sides
from provisioner.endpoints.change_arrival import arrival_seconds, recorded
from provisioner.endpoints.change_trees import head_of, push_after, push_before, push_both
from provisioner.endpoints.draining import drain_revision, resume_replicas
from provisioner.endpoints.leases import lease_names
from provisioner.endpoints.observe import observe
from provisioner.endpoints.placing import apply_instance
from provisioner.endpoints.progress import load_endpoint, save_endpoint, wait_for, waited_seconds
from provisioner.endpoints.publish import prove as prove_from_outside
from provisioner.endpoints.publish import published
from provisioner.endpoints.refresh import ask_refresh, is_synced
from provisioner.endpoints.replicas import ensure_leases, remove_leases
from provisioner.endpoints.stages import derive_stages
from provisioner.endpoints.switching import await_gateways, await_only, save_side
from provisioner.endpoints.workloads import workload_ref
from provisioner.endpoints.world import EndpointAttempt
from provisioner.operations.step import Done, Wait

PROOF_SECONDS = 120.0
"""How long the route directory may take to follow a switch, and a customer's call to succeed after it."""


async def switch(attempt: EndpointAttempt) -> Done | Wait:
    """What is wanted serves: the row is switched in one write, and the snapshot names only its replicas."""
    course = recorded(attempt)
    if failure_of(attempt.operation):
        return Done()
    await save_side(attempt, course.after)
    wait = await await_only(attempt, course.after.plan, replicas=0 if course.is_asleep else 1)
    return _or_failure(attempt, wait) if wait else Done()


async def prove(attempt: EndpointAttempt) -> Done | Wait:
    """A customer's call succeeds with a key and is refused without one."""
    endpoint = await load_endpoint(attempt)
    if failure_of(attempt.operation) or recorded(attempt).keeps_pods:
        return Done()
    backends = await published(attempt, endpoint)
    found = ("SnapshotPending", "no live replica is in the route directory")
    trouble = await prove_from_outside(attempt, endpoint, backends) if backends else found
    if trouble is None:
        return Done({"url": endpoint.plan.address.url})
    return _or_failure(attempt, wait_for(attempt, attempt.step, reason=trouble[0], message=trouble[1]))


async def restore(attempt: EndpointAttempt) -> Done | Wait:
    """Where the change is undone: the old side serves again. Nothing to do where it never stopped."""
    course = course_of(attempt.operation)
    if course is None or not is_undone(attempt.operation):
        return Done()
    endpoint = await load_endpoint(attempt)
    if endpoint.plan.is_alias:
        await save_side(attempt, course.before)
        return Done()
    is_late = waited_seconds(attempt) > arrival_seconds(course.before.plan)
    is_switched = _is_switched(endpoint, course)
    if not course.keeps_pods and (is_switched or course.replaces):
        wait = await _revived(attempt, course)
        if wait and is_switched and is_late:
            raise RejectedError(f"bringing the old revision back: {wait.message}", reason=wait.reason)
        if wait and not is_late:
            return wait
    await ensure_leases(attempt, course.before.plan)
    await save_side(attempt, course.before)
    is_seen = course.replicas == 0 or is_late
    return (None if is_seen else await await_only(attempt, course.before.plan)) or Done()


async def drain(attempt: EndpointAttempt) -> Done | Wait:
    """The replicas of the side that goes have finished the requests that ran, or had their time."""
    course = course_of(attempt.operation)
    if course is None or course.keeps_pods:
        return Done()
    if wait := await_gateways(attempt):
        return wait
    drained = await drain_revision(attempt, sides(attempt.operation, course)[1].plan)
    if isinstance(drained, Done):
        return drained
    return wait_for(attempt, attempt.step, reason="Draining", message=drained)


async def tidy(attempt: EndpointAttempt) -> Done | Wait:
    """The branch holds the side that serves alone, Argo CD has followed, and the other side's workload is gone."""
    course = course_of(attempt.operation)
    if course is None:
        return Done()
    winner, loser = sides(attempt.operation, course)
    if is_undone(attempt.operation):
        commit = await push_before(attempt, course)
    else:
        commit = await push_after(attempt, course, delivered=str(attempt.operation.result("deliver")["commit"]))
    if not await is_synced(attempt, winner.plan, commit):
        return wait_for(attempt, attempt.step, reason="OutOfSync", message="waiting for Argo CD to sync")
    left = workload_ref(loser.plan)
    if not course.keeps_pods and await attempt.world.tenant(loser.plan).get(left):
        return wait_for(attempt, attempt.step, reason="Removing", message=f"still there: {left.name}")
    return Done({"commit": commit})


async def settle(attempt: EndpointAttempt) -> Done | Wait:
    """Pools have the size that the serving side needs, Leases of the other are gone, and no change is pending. Where
    the change failed, the operation ends here with its reason."""
    course = course_of(attempt.operation)
    if course is not None:
        await _put_away(attempt, course, *(side.plan for side in sides(attempt.operation, course)))
    await _close(attempt, await load_endpoint(attempt))
    if found := failure_of(attempt.operation):
        raise RejectedError(f"changing the endpoint: {found[1]}; what served before serves on", reason=found[0])
    return Done()


async def on_failed(attempt: EndpointAttempt, reason: str, message: str) -> None:
    """Leave what serves, and take away the other side, as far as that goes without waiting. Done already where the
    steps undid the change themselves."""
    try:
        endpoint = await load_endpoint(attempt)
    except NotFoundError:
        return
    if endpoint.phase is not Phase.READY or endpoint.observed_generation == endpoint.generation:
        return
    course = course_of(attempt.operation)
    if course is not None and not endpoint.plan.is_alias:
        await _take_away(attempt, course, endpoint)
    await _close(attempt, endpoint)


async def _take_away(attempt: EndpointAttempt, course: Course, endpoint: Endpoint) -> None:
    delivered = attempt.operation.result("deliver").get("commit")
    if _is_switched(endpoint, course) and delivered:
        winner, loser = course.after.plan, course.before.plan
        await push_after(attempt, course, delivered=str(delivered))
    else:
        winner, loser = course.before.plan, course.after.plan
        await push_before(attempt, course)
    await resume_replicas(attempt, winner)
    await ensure_leases(attempt, winner)
    await _put_away(attempt, course, winner, loser)


def _is_switched(endpoint: Endpoint, course: Course) -> bool:
    return endpoint.change is None and endpoint.plan == course.after.plan


async def _revived(attempt: EndpointAttempt, course: Course) -> Wait | None:
    """Bring the old side up, beside the new one or in its place. None when it is ready and its replicas registered."""
    world, plan = attempt.world, course.before.plan
    if course.replaces:
        drained = await drain_revision(attempt, course.after.plan)
        if not isinstance(drained, Done):
            return wait_for(attempt, attempt.step, reason="Draining", message=drained)
        commit = await push_before(attempt, course)
    else:
        commit = await push_both(attempt, course, parent=await head_of(world, plan))
    seen = await observe(world, plan)
    await ask_refresh(attempt, plan, seen.applications, commit)
    if seen.tenant is None:
        return wait_for(attempt, attempt.step, reason="TenantClusterUnreachable", message=seen.unreachable)
    await resume_replicas(attempt, plan)
    await ensure_leases(attempt, plan, seen.tenant.leases)
    unmet = current_stage(derive_stages(plan, seen, commit=commit, beside=course.after.plan.workload))
    if unmet:
        return wait_for(attempt, attempt.step, reason=unmet.reason, message=f"{unmet.name}: {unmet.message}")
    if not seen.tenant.live:
        return wait_for(attempt, attempt.step, reason="WaitingForLeases", message="no replica is registered yet")
    return None


async def _put_away(attempt: EndpointAttempt, course: Course, winner: EndpointPlan, loser: EndpointPlan) -> None:
    places = (course.enlarged.placement, course.before.plan.placement)
    if winner.owns_tenant_cluster and any(place != winner.placement for place in places):
        await apply_instance(attempt, winner)
    await remove_leases(attempt, loser, kept=lease_names(winner))


async def _close(attempt: EndpointAttempt, endpoint: Endpoint) -> None:
    closed = replace(endpoint, change=None, observed_generation=endpoint.generation, reason="", message="")
    await save_endpoint(attempt, endpoint, closed)


def _or_failure(attempt: EndpointAttempt, wait: Wait) -> Done | Wait:
    """Go on waiting, or say that it took too long."""
    return wait if waited_seconds(attempt) <= PROOF_SECONDS else Done(failure(wait.reason, wait.message))

"""The first half of a change: what is wanted comes to stand beside what serves, and is proven ready.

Steps of update and scale, in the order in which they run. Until the last of them nothing was switched; one that finds
that the change cannot come to its end says so in its result, and the steps of `change_departure` undo it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from provisioner.domain.conditions import Stage, StageName, current_stage
from provisioner.domain.endpoint import Change, Endpoint
from provisioner.domain.errors import InvariantError, RejectedError, RetryableError
from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.endpoints.change import Course, course_of, failure
from provisioner.endpoints.change_trees import head_of, push_both
from provisioner.endpoints.draining import drain_revision
from provisioner.endpoints.observe import Observation, observe, wanted_replicas
from provisioner.endpoints.placing import apply_instance
from provisioner.endpoints.pool import serving_plan
from provisioner.endpoints.progress import load_endpoint, record_stages, wait_for, waited_seconds
from provisioner.endpoints.refresh import ask_refresh
from provisioner.endpoints.replicas import ensure_leases, remove_leases
from provisioner.endpoints.stages import capacity_stage, derive_hopeless, derive_stages
from provisioner.endpoints.switching import await_gateways, await_only, save_side
from provisioner.endpoints.verify import find_refusals
from provisioner.endpoints.workloads import workload_ref
from provisioner.endpoints.world import EndpointAttempt
from provisioner.operations.step import Done, Wait
from provisioner.platform.kinds import NODE_CLAIM, POD
from provisioner.platform.nodes import belongs_to
from provisioner.platform.workload import parse_workload

ARRIVAL_SECONDS = 1500.0
"""How long a new revision may take until it is ready, however small its weights: nodes come, images are pulled, servers
start. Creating an endpoint is given about as long."""
LOADING_BYTES_PER_SECOND = 100_000_000
"""The slowest fetching and loading of weights that is given time for; as for the start-up probes of its pods."""


async def prepare(attempt: EndpointAttempt) -> Done | Wait:
    """The course is recorded, and the project takes the change. Reads only."""
    world, endpoint = attempt.world, await load_endpoint(attempt)
    if endpoint.change is None:
        raise InvariantError(f"changing endpoint `{endpoint.id}`: nothing is wanted of it")
    if endpoint.plan.is_alias:
        return await _prepare_alias(attempt, endpoint, endpoint.change)
    before = Change(request=endpoint.request, plan=endpoint.plan)
    replicas, claims, parent = await asyncio.gather(
        _running(attempt, endpoint.plan), _claims(attempt, endpoint.plan), head_of(world, endpoint.plan)
    )
    course = Course(before=before, after=endpoint.change, replicas=replicas, claims=claims, parent=parent)
    if findings := await find_refusals(world, course.claimed):
        raise RejectedError(
            f"changing endpoint `{endpoint.name}`: refused by: {endpoint.plan.placement.project}",
            reason=findings[0].reason,
            hint=findings[0].hint,
            findings=findings,
        )
    return Done(course.as_json())


async def _prepare_alias(attempt: EndpointAttempt, endpoint: Endpoint, wanted: Change) -> Done:
    """An alias has no pods: both sides are served as its pool serves, so that what the pool runs is no change of it."""
    world = attempt.world
    sides = [
        replace(side, plan=await serving_plan(world, side.plan))
        for side in (Change(request=endpoint.request, plan=endpoint.plan), wanted)
    ]
    return Done(Course(before=sides[0], after=sides[1], replicas=0, claims=0, parent="").as_json())


async def enlarge(attempt: EndpointAttempt) -> Done | Wait:
    """The pools have room for both sides."""
    course = recorded(attempt)
    if course.before.plan.owns_tenant_cluster and course.enlarged.placement != course.before.plan.placement:
        await apply_instance(attempt, course.enlarged)
    return Done()


async def make_room(attempt: EndpointAttempt) -> Done | Wait:
    """What has to go before the new comes is out of traffic, and gone: the old revision where there is no room beside
    it, the replicas beyond a lower bound."""
    course = recorded(attempt)
    old, new = course.before.plan, course.after.plan
    if course.replaces:
        await remove_leases(attempt, old)
        return await await_only(attempt, old, replicas=0) or await _drained(attempt, old)
    if course.keeps_pods and new.runtime.max_replicas < old.runtime.max_replicas:
        await save_side(attempt, course.after)
        return await await_only(attempt, new) or Done()
    return Done()


async def deliver(attempt: EndpointAttempt) -> Done | Wait:
    """Both sides stand on the endpoint's branch."""
    course = recorded(attempt)
    is_narrowed = course.after.plan.runtime.max_replicas < course.before.plan.runtime.max_replicas
    if course.keeps_pods and is_narrowed and (wait := await_gateways(attempt)):
        return wait  # the surplus replicas are out of the route directory, and go once this is delivered
    return Done({"commit": await push_both(attempt, course, parent=course.parent)})


async def await_revision(attempt: EndpointAttempt) -> Done | Wait:
    """Stages 4 to 8 hold for what is wanted, and its replicas are registered; or it is known that they will not."""
    course, commit = recorded(attempt), str(attempt.operation.result("deliver")["commit"])
    plan = course.starting
    seen = await observe(attempt.world, plan)
    if hopeless := derive_hopeless(seen):
        return Done(failure(hopeless.reason, hopeless.message))
    await ask_refresh(attempt, plan, seen.applications, commit)
    if seen.tenant and seen.tenant.has_namespace:
        await ensure_leases(attempt, plan, seen.tenant.leases)
    unmet = _unmet(course, seen, commit)
    if unmet is None:
        await record_stages(attempt, await load_endpoint(attempt), (capacity_stage(plan, seen),))
        return Done()
    told = f"{unmet.name}: {unmet.message}" if unmet.message else str(unmet.name)
    if waited_seconds(attempt) > arrival_seconds(plan):
        return Done(failure(unmet.reason or "NotReady", f"not ready in seconds: {arrival_seconds(plan):g}: {told}"))
    return wait_for(attempt, attempt.step, reason=unmet.reason, message=told)


def arrival_seconds(plan: EndpointPlan) -> float:
    """How long a revision may take to be ready, in seconds."""
    return ARRIVAL_SECONDS + plan.runtime.weights_bytes / LOADING_BYTES_PER_SECOND


def recorded(attempt: EndpointAttempt) -> Course:
    """The course that the first step recorded."""
    course = course_of(attempt.operation)
    if course is None:
        raise InvariantError(f"changing endpoint `{attempt.operation.subject}`: its course was not recorded")
    return course


def _unmet(course: Course, seen: Observation, commit: str) -> Stage | None:
    plan = course.starting
    beside = "" if course.keeps_pods else course.before.plan.workload
    stages = derive_stages(plan, seen, commit=commit, beside=beside)
    if course.is_asleep:
        stages = tuple(stage for stage in stages if stage.name is not StageName.LOADING)
    unmet = current_stage(stages)
    live = len(seen.tenant.live) if seen.tenant else 0
    if unmet is None and not course.is_asleep and live < wanted_replicas(plan):
        message = f"replicas registered: {live} of {wanted_replicas(plan)}"
        return Stage(name=StageName.LOADING, reason="WaitingForLeases", message=message)
    return unmet


async def _running(attempt: EndpointAttempt, plan: EndpointPlan) -> int:
    """How many replicas of the plan's revision are ready."""
    tenant = attempt.world.tenant(plan)
    try:
        workload, pods = await asyncio.gather(
            tenant.get(workload_ref(plan)),
            tenant.list(POD, namespace=TENANT_NAMESPACE),
        )
    except RejectedError as error:  # it may be on its way back
        raise RetryableError(error.message, reason=error.reason, hint=error.hint) from error
    return parse_workload(workload, pods).ready_replicas if workload else 0


async def _claims(attempt: EndpointAttempt, plan: EndpointPlan) -> int:
    world = attempt.world
    cluster = world.clusters.control_plane(plan.placement.control_plane)
    claims = await cluster.list(NODE_CLAIM, namespace=world.project_namespace(plan))
    return sum(1 for claim in claims if belongs_to(claim, plan.placement.tenant_cluster))


async def _drained(attempt: EndpointAttempt, plan: EndpointPlan) -> Done | Wait:
    drained = await drain_revision(attempt, plan)
    if isinstance(drained, Done):
        return drained
    return wait_for(attempt, attempt.step, reason="Draining", message=drained)

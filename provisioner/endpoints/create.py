"""Creates an endpoint: verify the project, deliver the manifests, place the tenant cluster, wait, publish.

The worker runs STEPS in order; each reads its own condition first and does one outside thing, so that any of them may
run again after a crash. Only what no waiting cures ends the operation at once.
"""

from __future__ import annotations

from dataclasses import replace

from provisioner.delivery.interface import Commit
from provisioner.domain.conditions import Stage, StageName, StageState, current_stage
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.domain.operation import OperationState
from provisioner.endpoints import delete
from provisioner.endpoints.change_trees import head_of
from provisioner.endpoints.customer_cluster import ensure_customer_cluster, place_beside, with_others
from provisioner.endpoints.observe import observe
from provisioner.endpoints.placing import apply_instance
from provisioner.endpoints.pool import check_pool, find_pool, serving_plan, unready_reason
from provisioner.endpoints.progress import load_endpoint, patient, record_stages, save_endpoint, wait_for
from provisioner.endpoints.publish import publish
from provisioner.endpoints.refresh import ask_refresh
from provisioner.endpoints.replicas import ensure_leases
from provisioner.endpoints.stages import derive_hopeless, derive_stages
from provisioner.endpoints.verify import find_refusals
from provisioner.endpoints.world import EndpointAttempt, World
from provisioner.operations.step import Done, Step, Wait
from provisioner.platform.kinds import HTTP_ROUTE


async def select_project(attempt: EndpointAttempt) -> Done | Wait:
    """Stage 1: the tenant's project exists, allows the template and node type, and has quota left. Reads only."""
    world, endpoint = attempt.world, await load_endpoint(attempt)
    plan = endpoint.plan
    tenant = await world.store.tenants.find(endpoint.tenant)
    if tenant is not None and not tenant.ready:
        message = f"tenant `{tenant.name}` is still being created"
        await record_stages(
            attempt, endpoint, (Stage(name=StageName.PROJECT, reason="TenantNotReady", message=message),)
        )
        return wait_for(attempt, "select_project", reason="TenantNotReady", message=message)
    if plan.is_alias:
        return await _select_pool(attempt, endpoint)
    asked = await with_others(attempt, plan) if plan.shares_tenant_cluster else plan
    findings = await find_refusals(world, asked)
    if findings:
        raise RejectedError(
            f"selecting a project for endpoint `{endpoint.name}`: refused by: {plan.placement.project}",
            reason=findings[0].reason,
            hint=findings[0].hint,
            findings=findings,
        )
    await record_stages(attempt, endpoint, (_done(StageName.PROJECT),))
    return Done({"project": plan.placement.project})


async def _select_pool(attempt: EndpointAttempt, endpoint: Endpoint) -> Done | Wait:
    """Stage 1 of an alias: its pool is there, serves its model, and is in service."""
    pool = await find_pool(attempt.world, endpoint.plan)
    findings = check_pool(pool, endpoint.plan)
    if pool is None or findings:
        raise RejectedError(
            f"selecting a pool for endpoint `{endpoint.name}`: {findings[0].message}",
            reason=findings[0].reason,
            hint=findings[0].hint,
            findings=findings,
        )
    if pending := unready_reason(pool):
        reason, message = pending
        await record_stages(attempt, endpoint, (Stage(name=StageName.PROJECT, reason=reason, message=message),))
        return wait_for(attempt, "select_project", reason=reason, message=message)
    await record_stages(attempt, endpoint, (_done(StageName.PROJECT),))
    return Done({"project": pool.plan.placement.project, "pool": str(pool.id)})


async def deliver(attempt: EndpointAttempt) -> Done | Wait:
    """Stage 2: the runtime's manifests stand on the endpoint's branch, or on its pool's."""
    world, endpoint = attempt.world, await load_endpoint(attempt)
    if endpoint.plan.is_alias:
        sha = await head_of(world, endpoint.plan)
        await record_stages(attempt, endpoint, (_done(StageName.DELIVERY),))
        return Done({"branch": endpoint.plan.serving_id, "commit": sha})
    commit = Commit(
        branch=endpoint.id,
        files=world.pack.runtime_tree(endpoint.plan),
        parent=None,
        message=f"Create endpoint {endpoint.tenant}/{endpoint.name}\n\nOperation: {attempt.operation.id}\n",
        at=attempt.operation.created_at,
    )
    await attempt.guard()
    sha = await world.delivery.push(commit)
    await record_stages(attempt, endpoint, (_done(StageName.DELIVERY),))
    return Done({"branch": endpoint.id, "commit": sha})


async def place(attempt: EndpointAttempt) -> Done | Wait:
    """Stage 3: the tenant cluster and the customer's route are applied; a pool's tenant cluster is there."""
    world, endpoint = attempt.world, await load_endpoint(attempt)
    plan = endpoint.plan
    if plan.shares_tenant_cluster and (wait := await place_beside(attempt, plan)):
        return wait
    if plan.owns_tenant_cluster:
        await apply_instance(attempt, plan)
    cluster = world.clusters.control_plane(plan.placement.control_plane)
    await attempt.guard()
    await cluster.apply(world.pack.customer_route(plan), kind=HTTP_ROUTE, fence=attempt.fence)
    await record_stages(attempt, endpoint, (_done(StageName.PLACEMENT),))
    return Done({"tenantCluster": plan.placement.tenant_cluster, "route": str(plan.endpoint)})


async def await_ready(attempt: EndpointAttempt) -> Done | Wait:
    """Stages 4 to 8, observed together: all must hold at the same time."""
    world, endpoint = attempt.world, await load_endpoint(attempt)
    if endpoint.plan.is_alias:
        return await _await_pool(attempt, endpoint)
    plan, commit = endpoint.plan, str(attempt.operation.result("deliver")["commit"])
    if plan.shares_tenant_cluster and (wait := await ensure_customer_cluster(attempt, plan)):
        return wait
    seen = await observe(world, plan)
    hopeless = derive_hopeless(seen)
    if hopeless:
        raise RejectedError(f"creating tenant cluster `{plan.endpoint}`: {hopeless.message}", reason=hopeless.reason)
    await ask_refresh(attempt, plan, seen.applications, commit)
    has_leases = seen.tenant is not None and seen.tenant.has_namespace
    if seen.tenant and has_leases:
        await ensure_leases(attempt, plan, seen.tenant.leases)
    stages = derive_stages(plan, seen, commit=commit)
    endpoint = await record_stages(attempt, endpoint, stages)
    unmet = current_stage(stages)
    if unmet:
        return wait_for(attempt, "await_ready", reason=unmet.reason, message=f"{unmet.name}: {unmet.message}")
    if not has_leases:
        return wait_for(attempt, "await_ready", reason="LeasesMissing", message="replicas have no leases yet")
    return Done()


async def _await_pool(attempt: EndpointAttempt, endpoint: Endpoint) -> Done | Wait:
    """Stages 4 to 8 of an alias hold when they hold for its pool; its own is the customer's route."""
    world = attempt.world
    plan = await serving_plan(world, endpoint.plan)
    pool = await find_pool(world, plan)
    beside = pool.change.plan.workload if pool and pool.change else ""
    seen = await observe(world, plan)
    stages = derive_stages(plan, seen, commit=await head_of(world, plan), beside=beside)
    await record_stages(attempt, endpoint, stages)
    unmet = current_stage(stages)
    if unmet:
        return wait_for(attempt, "await_ready", reason=unmet.reason, message=f"{unmet.name}: {unmet.message}")
    return Done()


async def on_failed(attempt: EndpointAttempt, reason: str, message: str) -> None:
    """Say on the endpoint's row that creating it failed, at which stage and why. What was made stays for `delete`."""
    if attempt.operation.state is OperationState.CANCELLING:
        await delete.on_failed(attempt, reason, message)
        return
    try:
        endpoint = await load_endpoint(attempt)
    except NotFoundError:
        return
    if endpoint.phase is not Phase.CREATING:
        return
    stage = current_stage(endpoint.stages)
    if stage:
        failed = Stage(name=stage.name, state=StageState.ERROR, reason=reason, message=message)
        endpoint = await record_stages(attempt, endpoint, (failed,))
    failed_row = replace(endpoint, phase=Phase.FAILED, reason=reason, message=message)
    await save_endpoint(attempt, endpoint, failed_row)


def _done(name: StageName) -> Stage:
    return Stage(name=name, state=StageState.DONE)


STEPS: tuple[Step[World], ...] = (
    Step(name="select_project", run=patient("select_project", StageName.PROJECT, select_project)),
    Step(name="deliver", run=patient("deliver", StageName.DELIVERY, deliver)),
    Step(name="place", run=patient("place", StageName.PLACEMENT, place)),
    Step(name="await_ready", run=patient("await_ready", StageName.TENANT_CLUSTER, await_ready)),
    Step(name="publish", run=patient("publish", StageName.PUBLISHED, publish)),
)

CANCEL_STEPS = tuple(replace(step, name=f"cancel_{step.name}") for step in delete.STEPS)
"""What was made goes as if it were deleted, the endpoint's row at last."""

"""Out of service and back: the course that draining and warming share, each in its direction. Steps of both verbs.

The route stays in the directory all the while, without backends where nothing may serve, so that callers are told to
come again (503 with `Retry-After`). How many replicas run is held by an annotation on KEDA's scaler, or by the
workload's own number where a HorizontalPodAutoscaler scales it; Argo CD leaves both alone, and nothing that is
delivered changes.
"""

from __future__ import annotations

from dataclasses import replace

from provisioner.domain.conditions import StageName, current_stage
from provisioner.domain.endpoint import Phase
from provisioner.domain.errors import NotFoundError, RejectedError, RetryableError
from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.endpoints.change_arrival import arrival_seconds
from provisioner.endpoints.change_departure import PROOF_SECONDS
from provisioner.endpoints.change_trees import head_of
from provisioner.endpoints.draining import DRAIN_SECONDS, hold_replicas, resume_replicas
from provisioner.endpoints.observe import observe, wanted_replicas
from provisioner.endpoints.pool import serving_plan
from provisioner.endpoints.progress import load_endpoint, save_endpoint, wait_for, waited_seconds
from provisioner.endpoints.publish import prove as prove_from_outside
from provisioner.endpoints.publish import published
from provisioner.endpoints.refresh import ask_refresh
from provisioner.endpoints.replicas import ensure_leases, list_pods
from provisioner.endpoints.stages import derive_stages
from provisioner.endpoints.switching import await_gateways, await_only
from provisioner.endpoints.world import EndpointAttempt
from provisioner.operations.step import Done, Wait
from provisioner.platform.interface import ObjectRef
from provisioner.platform.kinds import POD

AWAKE_SECONDS = 60.0
"""How long an endpoint that may sleep is kept awake once it serves: its scaler looks every 15 seconds, at what is
scraped as often, and would put it to sleep again before it has seen the first request."""

_CUT_SECONDS = 1
"""What a pod is given that had its time."""


async def assess(attempt: EndpointAttempt) -> Done | Wait:
    """What the endpoint is now is known, for whoever has to put it back. Reads only."""
    endpoint = await load_endpoint(attempt)
    if endpoint.plan.is_alias:
        return Done({"phase": endpoint.phase.value, "replicas": 0})
    pods = await list_pods(attempt, endpoint.plan)
    commit = await head_of(attempt.world, endpoint.plan)
    return Done({"phase": endpoint.phase.value, "replicas": len(pods), "commit": commit})


async def withdraw(attempt: EndpointAttempt) -> Done | Wait:
    """No gateway is told of a replica any more."""
    endpoint = await load_endpoint(attempt)
    told = replace(
        endpoint, phase=Phase.DRAINED, reason="Draining", message="its replicas finish the requests that run"
    )
    await save_endpoint(attempt, endpoint, told)
    return await await_only(attempt, endpoint.plan, replicas=0) or Done()


async def stop(attempt: EndpointAttempt) -> Done | Wait:
    """No replica runs: each has finished what it served, or had its time."""
    endpoint = await load_endpoint(attempt)
    plan = endpoint.plan
    if plan.is_alias:
        if wait := await_gateways(attempt):
            return wait
        await save_endpoint(attempt, endpoint, replace(endpoint, reason="", message=""))
        return Done()
    if await list_pods(attempt, plan):
        if wait := await_gateways(attempt):
            return wait
        await hold_replicas(attempt, plan, 0)
        await _cut_late(attempt, plan)
        left = sorted(str(pod["metadata"]["name"]) for pod in await list_pods(attempt, plan))
        message = f"replicas finish their requests: {', '.join(left)}"
        return wait_for(attempt, attempt.step, reason="Draining", message=message)
    await hold_replicas(attempt, plan, 0)
    await save_endpoint(attempt, endpoint, replace(endpoint, reason="", message=""))
    return Done()


async def hold(attempt: EndpointAttempt) -> Done | Wait:
    """The scaler holds as many replicas as have to serve, where none does."""
    endpoint = await load_endpoint(attempt)
    if _rests(attempt):
        await hold_replicas(attempt, endpoint.plan, wanted_replicas(endpoint.plan))
    return Done()


async def await_replicas(attempt: EndpointAttempt) -> Done | Wait:
    """Stages 4 to 8 hold, and the replicas are registered; Leases that somebody removed are made again."""
    endpoint = await load_endpoint(attempt)
    plan, commit = endpoint.plan, str(attempt.operation.result("assess")["commit"])
    seen = await observe(attempt.world, plan)
    await ask_refresh(attempt, plan, seen.applications, commit)
    if seen.tenant and seen.tenant.has_namespace:
        await ensure_leases(attempt, plan, seen.tenant.leases)
    unmet = current_stage(derive_stages(plan, seen, commit=commit))
    live = len(seen.tenant.live) if seen.tenant else 0
    if unmet:
        reason, message = unmet.reason, f"{unmet.name}: {unmet.message}"
    elif live < wanted_replicas(plan):
        reason, message = "WaitingForLeases", f"replicas registered: {live} of {wanted_replicas(plan)}"
    else:
        return Done()
    if waited_seconds(attempt) > arrival_seconds(plan):
        raise RejectedError(f"waiting for replicas: {message}", reason=reason)
    return wait_for(attempt, attempt.step, reason=reason, message=message)


async def readmit(attempt: EndpointAttempt) -> Done | Wait:
    """The endpoint is Ready, and gateways are told of its replicas."""
    endpoint = await load_endpoint(attempt)
    plan = await serving_plan(attempt.world, endpoint.plan)
    await save_endpoint(attempt, endpoint, replace(endpoint, phase=Phase.READY, reason="", message=""))
    wait = await await_only(attempt, plan, replicas=wanted_replicas(plan))
    if wait and plan.is_alias and waited_seconds(attempt) > PROOF_SECONDS:
        raise RejectedError(
            f"waiting for pool `{plan.pool}`: {wait.message}", reason=wait.reason, hint=f"warm the pool: {plan.pool}"
        )
    return wait or Done()


async def prove(attempt: EndpointAttempt) -> Done | Wait:
    """A customer's call succeeds with a key and is refused without one."""
    endpoint = await load_endpoint(attempt)
    if not _rests(attempt):
        return Done({"url": endpoint.plan.address.url})
    backends = await published(attempt, endpoint)
    missing = ("SnapshotPending", f"{StageName.PUBLISHED}: no live replica is in the route directory")
    trouble = await prove_from_outside(attempt, endpoint, backends) if backends else missing
    if trouble is None:
        return Done({"url": endpoint.plan.address.url})
    if waited_seconds(attempt) > PROOF_SECONDS:
        raise RejectedError(f"proving the endpoint from outside: {trouble[1]}", reason=trouble[0])
    return wait_for(attempt, attempt.step, reason=trouble[0], message=trouble[1])


async def release(attempt: EndpointAttempt) -> Done | Wait:
    """The scaler decides again; of an endpoint that may sleep only after it had time to see that there is traffic."""
    plan = (await load_endpoint(attempt)).plan
    left = AWAKE_SECONDS - waited_seconds(attempt)
    if _rests(attempt) and plan.runtime.min_replicas == 0 and left > 0:
        message = "it serves, and is kept awake until its scaler has seen whether there is traffic"
        return Wait(reason="KeptAwake", message=message, retry_after_seconds=left)
    await resume_replicas(attempt, plan)
    return Done()


async def cancel_withdraw(attempt: EndpointAttempt) -> Done | Wait:
    """What was drained before takes no traffic again."""
    return await withdraw(attempt) if _was(attempt, Phase.DRAINED) else Done()


async def cancel_stop(attempt: EndpointAttempt) -> Done | Wait:
    """What was drained before has no replicas again."""
    return await stop(attempt) if _was(attempt, Phase.DRAINED) else Done()


async def cancel_release(attempt: EndpointAttempt) -> Done | Wait:
    """What served before, or slept, is left to its scaler again."""
    if _was(attempt, Phase.READY):
        await resume_replicas(attempt, (await load_endpoint(attempt)).plan)
    return Done()


async def cancel_await(attempt: EndpointAttempt) -> Done | Wait:
    """What served before serves again."""
    return await await_replicas(attempt) if _was(attempt, Phase.READY) and not _rests(attempt) else Done()


async def cancel_readmit(attempt: EndpointAttempt) -> Done | Wait:
    """What was Ready before is Ready again."""
    if not _was(attempt, Phase.READY):
        return Done()
    endpoint = await load_endpoint(attempt)
    endpoint = await save_endpoint(attempt, endpoint, replace(endpoint, phase=Phase.READY, reason="", message=""))
    wanted = 0 if _rests(attempt) else wanted_replicas(endpoint.plan)
    return (await await_only(attempt, endpoint.plan, replicas=wanted) if wanted else None) or Done()


async def on_failed(attempt: EndpointAttempt, reason: str, message: str) -> None:
    """Put the endpoint back to what it was, as far as that goes without waiting, and say on its row what failed."""
    told = attempt.operation.result("assess")
    try:
        endpoint = await load_endpoint(attempt)
    except NotFoundError:
        return
    if not told or endpoint.phase not in (Phase.READY, Phase.DRAINED):
        return
    await save_endpoint(
        attempt, endpoint, replace(endpoint, phase=Phase(told["phase"]), reason=reason, message=message)
    )
    if endpoint.plan.is_alias:
        return
    try:
        if _was(attempt, Phase.DRAINED):
            await hold_replicas(attempt, endpoint.plan, 0)
        else:
            await resume_replicas(attempt, endpoint.plan)
    except (RetryableError, RejectedError):
        return  # a tenant cluster that does not answer; warming or draining again begins here


def _was(attempt: EndpointAttempt, phase: Phase) -> bool:
    return attempt.operation.result("assess").get("phase") == phase


def _rests(attempt: EndpointAttempt) -> bool:
    """Whether nothing ran, or nothing was to run, when the operation began."""
    told = attempt.operation.result("assess")
    return told.get("phase") == Phase.DRAINED or not told.get("replicas")


async def _cut_late(attempt: EndpointAttempt, plan: EndpointPlan) -> None:
    """Whoever has not finished in time is ended."""
    patience = float(attempt.operation.request.get("deadlineSeconds", DRAIN_SECONDS))
    if waited_seconds(attempt) < patience:
        return
    for pod in await list_pods(attempt, plan):
        ref = ObjectRef(POD, str(pod["metadata"]["name"]), TENANT_NAMESPACE)
        await attempt.guard()
        tenant = attempt.world.tenant(plan)
        await tenant.delete(ref, fence=attempt.fence, uid=pod["metadata"]["uid"], grace_seconds=_CUT_SECONDS)

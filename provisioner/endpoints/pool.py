"""Endpoints that a pool serves: what they take over from it, and when it takes them.

A pool is an endpoint of the provider's own tenant, made, scaled and updated by the same verbs as any other. An alias on
it is a route, keys and limits: it has no replicas, so its verbs look at the pool's, and leave out whatever would touch
them. Called by the steps of every verb, and by the API before it lets a pool go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.enumeration import first_few
from provisioner.domain.errors import ConflictError, NotFoundError, RejectedError
from provisioner.domain.finding import Finding
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.domain.tenant import POOL_TENANT
from provisioner.endpoints.progress import StepRun, load_endpoint
from provisioner.endpoints.world import EndpointAttempt, World
from provisioner.operations.step import Done, Wait

_SHOWN = 5
_GOING = (Phase.FAILED, Phase.DELETING)


async def find_pool(world: World, plan: EndpointPlan) -> Endpoint | None:
    """The pool of an alias, if it is there."""
    try:
        return await world.store.endpoints.get(EndpointId(plan.serving_id))
    except NotFoundError:
        return None


async def serving_plan(world: World, plan: EndpointPlan) -> EndpointPlan:
    """The plan by which an endpoint is served now: its own, or that of its pool under its own name and address.

    RejectedError (`PoolNotFound`) where its pool is gone.
    """
    if not plan.is_alias:
        return plan
    pool = await find_pool(world, plan)
    if pool is None:
        raise _missing(plan)
    return on_pool(plan, pool.plan)


def on_pool(plan: EndpointPlan, pool: EndpointPlan) -> EndpointPlan:
    """An alias's plan with where and what its pool runs. Pure."""
    reached = replace(
        plan.address,
        tenant_domain=pool.address.tenant_domain,
        gateway_port=pool.address.gateway_port,
        gateway=pool.address.gateway,
    )
    return replace(plan, placement=pool.placement, capacity=pool.capacity, runtime=pool.runtime, address=reached)


def check_pool(pool: Endpoint | None, plan: EndpointPlan) -> tuple[Finding, ...]:
    """Whether there is a pool for an alias, and it serves the alias's model. Pure."""
    if pool is None or pool.phase in _GOING:
        state = "there is none" if pool is None else f"its phase is {pool.phase}"
        message = f"finding pool `{plan.pool}` for model `{plan.runtime.model}`: {state}"
        hint = f"publish it: create an endpoint of tenant `{POOL_TENANT}` with this tier, region and model"
        return (Finding(reason="PoolNotFound", message=message, field="model", hint=hint),)
    served = pool.plan.runtime.model
    if served != plan.runtime.model:
        message = f"reading model: pool `{plan.pool}` serves {served}, found {plan.runtime.model}"
        return (Finding(reason="ModelNotInPool", message=message, field="model", hint=f"name model `{served}`"),)
    return ()


def unready_reason(pool: Endpoint) -> tuple[str, str] | None:
    """Why a pool that is there serves nobody yet, as reason and message; None where it does. Pure."""
    if pool.phase is Phase.CREATING:
        return "PoolCreating", f"pool `{pool.id}` is still being created"
    if pool.phase is Phase.DRAINED:
        return "PoolDrained", f"pool `{pool.id}` is drained: its operator warms it"
    return None


def aliases_of(pool: EndpointId, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
    """The endpoints that a pool serves beside itself. Pure."""
    return [found for found in endpoints if found.plan.is_alias and found.plan.pool == pool]


def require_unused(pool: Endpoint, endpoints: Iterable[Endpoint]) -> None:
    """Let a pool pass that serves nobody. ConflictError (`PoolInUse`) that names whom it does. Pure."""
    if aliases := aliases_of(pool.id, endpoints):
        raise ConflictError(
            f"deleting pool `{pool.id}`: it serves endpoints: {told(aliases)}",
            reason="PoolInUse",
            hint="delete them first",
        )


def told(endpoints: Iterable[Endpoint]) -> str:
    """Their names, the first few of them. Pure."""
    names = sorted(f"{found.tenant}/{found.name}" for found in endpoints)
    return first_few(names, _SHOWN)


def of_own(run: StepRun) -> StepRun:
    """`run` for endpoints that have replicas; for an alias there is nothing to do."""

    async def run_or_pass(attempt: EndpointAttempt) -> Done | Wait:
        endpoint = await load_endpoint(attempt)
        return Done() if endpoint.plan.is_alias else await run(attempt)

    return run_or_pass


def _missing(plan: EndpointPlan) -> RejectedError:
    found = check_pool(None, plan)
    return RejectedError(found[0].message, reason=found[0].reason, hint=found[0].hint, findings=found)

"""Deletes an endpoint in whatever state it is: out of the snapshot, drained, capacity back, traces removed.

Cancelling a create runs the same steps under other names. The row goes last, so that a killed delete is found and
finished. Where nothing is left every step is a no-op, so a
second delete succeeds. Done means that the Platform holds nothing of it any more, not that deletion was asked for.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.enumeration import first_few
from provisioner.domain.errors import NotFoundError, RetryableError
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.endpoints.customer_cluster import (
    leave,
    remove_application,
    remove_registrations,
    shared_branch,
)
from provisioner.endpoints.draining import drain_replicas
from provisioner.endpoints.observe import runtime_application
from provisioner.endpoints.pool import aliases_of, told
from provisioner.endpoints.progress import StepRun, load_endpoint, save_endpoint, wait_for
from provisioner.endpoints.world import EndpointAttempt, World
from provisioner.operations.step import Done, Step, Wait
from provisioner.platform.application import INSTANCE_LABEL
from provisioner.platform.interface import Cluster, ObjectRef
from provisioner.platform.kinds import (
    APPLICATION,
    HTTP_ROUTE,
    NODE_CLAIM,
    NODE_ENVIRONMENT,
    VIRTUAL_CLUSTER_INSTANCE,
)
from provisioner.platform.nodes import belongs_to

_SHOWN = 5


async def withdraw(attempt: EndpointAttempt) -> Done | Wait:
    """The endpoint takes no traffic any more: it is Deleting and the current snapshot does not name it."""
    endpoint = await _find(attempt)
    if endpoint is None:
        return Done()
    endpoint = await save_endpoint(attempt, endpoint, replace(endpoint, phase=Phase.DELETING))
    if endpoint.plan.pool == endpoint.id and (
        aliases := aliases_of(endpoint.id, await attempt.world.store.endpoints.list())
    ):
        return await _waiting(attempt, endpoint, "PoolInUse", f"the pool serves endpoints: {told(aliases)}")
    snapshot = await attempt.world.store.snapshots.current()
    if snapshot and any(route.endpoint == endpoint.id for route in snapshot.routes):
        message = "the route directory still names the endpoint"
        return await _waiting(attempt, endpoint, "SnapshotPending", message)
    return Done()


async def drain(attempt: EndpointAttempt) -> Done | Wait:
    """The replicas have finished the requests that ran, or had their time."""
    endpoint = await _find(attempt)
    if endpoint is None:
        return Done()
    drained = await drain_replicas(attempt, endpoint.plan)
    return drained if isinstance(drained, Done) else await _waiting(attempt, endpoint, "Draining", drained)


async def release(attempt: EndpointAttempt) -> Done | Wait:
    """Tenant cluster, route, applications and capacity are gone from the control plane cluster; a tenant cluster that
    serves others stays."""
    endpoint = await _find(attempt)
    if endpoint is None:
        return Done()
    world, plan = attempt.world, endpoint.plan
    cluster = world.clusters.control_plane(plan.placement.control_plane)
    namespace = world.project_namespace(plan)
    route = ObjectRef(HTTP_ROUTE, plan.endpoint, world.site.gateway.namespace)
    await attempt.guard()
    is_gone = await cluster.delete(route, fence=attempt.fence)
    if not plan.owns_tenant_cluster:
        if left_to := await _leave(attempt, endpoint, [] if is_gone else [route.name]):
            return left_to
        endpoint = await load_endpoint(attempt)
    await attempt.guard()
    await cluster.delete(
        ObjectRef(VIRTUAL_CLUSTER_INSTANCE, plan.placement.tenant_cluster, namespace), fence=attempt.fence
    )
    left = await _leftovers(cluster, plan, namespace=namespace, gateway_namespace=world.site.gateway.namespace)
    if left:
        return await _waiting(attempt, endpoint, "Reclaiming", f"still there: {first_few(left, _SHOWN)}")
    if plan.shares_tenant_cluster and await leave(attempt, endpoint):
        await attempt.guard()
        await world.delivery.delete(shared_branch(plan.tenant, plan.tier))
    return Done({"leftovers": 0})


async def _leave(attempt: EndpointAttempt, endpoint: Endpoint, left: list[str]) -> Done | Wait | None:
    """Take the endpoint out of a tenant cluster that is not its own. None where it was the last in it: what is left
    there goes with the tenant cluster, also where that never came up and gives nothing back."""
    if endpoint.plan.shares_tenant_cluster:
        application = await remove_application(attempt, endpoint.plan)
        if await leave(attempt, endpoint):
            return None
        left = [*left, *(application or await remove_registrations(attempt, endpoint.plan))]
    if left:
        present = await load_endpoint(attempt)  # which notes by now that it has left
        return await _waiting(attempt, present, "Reclaiming", f"still there: {', '.join(left[:5])}")
    return Done({"leftovers": 0})


async def clean(attempt: EndpointAttempt) -> Done | Wait:
    """Branch, keys bound to the endpoint alone, and at last its row are gone."""
    endpoint = await _find(attempt)
    if endpoint is None:
        return Done()
    world = attempt.world
    if not endpoint.plan.is_alias:
        await attempt.guard()
        await world.delivery.delete(endpoint.id)
    await world.store.keys.revoke_endpoint(endpoint.id, world.clock.now())
    await world.store.endpoints.remove(endpoint.id, operation=attempt.operation.id, fence=attempt.fence)
    return Done()


async def on_failed(attempt: EndpointAttempt, reason: str, message: str) -> None:
    """Say on the row why deleting failed; it stays Deleting, and delete may be asked for again."""
    endpoint = await _find(attempt)
    if endpoint:
        await save_endpoint(attempt, endpoint, replace(endpoint, reason=reason, message=message))


async def _find(attempt: EndpointAttempt) -> Endpoint | None:
    try:
        return await attempt.world.store.endpoints.get(EndpointId(attempt.operation.subject))
    except NotFoundError:
        return None


async def _leftovers(cluster: Cluster, plan: EndpointPlan, *, namespace: str, gateway_namespace: str) -> list[str]:
    name = plan.placement.tenant_cluster
    instance, route, applications, claims, environments = await asyncio.gather(
        cluster.get(ObjectRef(VIRTUAL_CLUSTER_INSTANCE, name, namespace)),
        cluster.get(ObjectRef(HTTP_ROUTE, plan.endpoint, gateway_namespace)),
        cluster.list(APPLICATION, namespace=namespace, labels={INSTANCE_LABEL: name}),
        cluster.list(NODE_CLAIM, namespace=namespace),
        cluster.list(NODE_ENVIRONMENT, namespace=namespace),
    )
    capacity = [item for item in (*claims, *environments) if belongs_to(item, name)]
    is_beside = plan.shares_tenant_cluster
    own = await cluster.get(ObjectRef(APPLICATION, runtime_application(plan), namespace)) if is_beside else None
    found = [item for item in (instance, route, own, *applications, *capacity) if item]
    return list(dict.fromkeys(f"{item['kind']} {item['metadata']['name']}" for item in found))


async def _waiting(attempt: EndpointAttempt, endpoint: Endpoint, reason: str, message: str) -> Wait:
    await save_endpoint(attempt, endpoint, replace(endpoint, reason=reason, message=message))
    return wait_for(attempt, attempt.step, reason=reason, message=message)


def _patient(run: StepRun) -> StepRun:
    async def patiently(attempt: EndpointAttempt) -> Done | Wait:
        try:
            return await run(attempt)
        except RetryableError as error:
            return await _waiting(attempt, await load_endpoint(attempt), error.reason, error.message)

    return patiently


STEPS: tuple[Step[World], ...] = (
    Step(name="withdraw", run=_patient(withdraw)),
    Step(name="drain", run=_patient(drain)),
    Step(name="release", run=_patient(release)),
    Step(name="clean", run=_patient(clean)),
)

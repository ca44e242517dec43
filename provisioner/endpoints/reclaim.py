"""Removes whatever is left of an endpoint, with its row or without, and ends only when a look finds nothing more.

For what a delete could not bring to its end, and for orphans. The places to look in came with the request: those of
the endpoint's plan, and those where something was found.
"""

from __future__ import annotations

from dataclasses import replace

from provisioner.domain.clock import Clock
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.enumeration import first_few
from provisioner.domain.errors import ConflictError, NotFoundError
from provisioner.domain.ids import EndpointId, Ids
from provisioner.domain.operation import Operation, Verb
from provisioner.domain.origin import Origin
from provisioner.endpoints.customer_cluster import leave, shared_branch
from provisioner.endpoints.orphans import owner_of
from provisioner.endpoints.progress import save_endpoint, wait_for, waiting_out
from provisioner.endpoints.submit import pending
from provisioner.endpoints.world import EndpointAttempt, World
from provisioner.operations.step import Done, Step, Wait
from provisioner.platform.interface import Cluster, Kind, Manifest, ObjectRef
from provisioner.platform.kinds import (
    APPLICATION,
    HTTP_ROUTE,
    NODE_CLAIM,
    NODE_ENVIRONMENT,
    VIRTUAL_CLUSTER_INSTANCE,
)

_AFTER_THE_INSTANCE = (APPLICATION, NODE_CLAIM, NODE_ENVIRONMENT)
_GIVEN_UP = (Phase.FAILED, Phase.DELETING)
_SHOWN = 5


def new_reclaim(
    endpoint: str,
    row: Endpoint | None,
    *,
    tenant: str,
    places: tuple[tuple[str, str], ...],
    origin: Origin,
    clock: Clock,
    ids: Ids,
) -> tuple[Operation, Endpoint | None]:
    """The pending operation, and the endpoint's row as Deleting where there is one. `places` are control plane clusters
    and namespaces in which something of it may be.

    ConflictError (`EndpointInUse`) for an endpoint that nobody has given up.
    """
    if row is not None and row.phase not in _GIVEN_UP:
        raise ConflictError(
            f"reclaiming endpoint `{row.name}`: it is not given up, its phase: {row.phase}",
            reason="EndpointInUse",
            hint="delete it; what a delete leaves behind can be reclaimed",
        )
    asked = {"tenant": tenant, "name": row.name if row else "", "places": [list(place) for place in places]}
    operation = pending(Verb.ENDPOINT_RECLAIM, tenant, endpoint, asked, origin=origin, clock=clock, ids=ids)
    if row is None:
        return operation, None
    return operation, replace(row, phase=Phase.DELETING, operation=operation.id, updated_at=operation.created_at)


async def withdraw(attempt: EndpointAttempt) -> Done | Wait:
    """No gateway is told of the endpoint any more."""
    snapshot = await attempt.world.store.snapshots.current()
    if snapshot and any(route.endpoint == attempt.operation.subject for route in snapshot.routes):
        attempt.world.wake_reconciler()
        message = "the route directory still names the endpoint"
        return wait_for(attempt, attempt.step, reason="SnapshotPending", message=message)
    return Done()


async def remove(attempt: EndpointAttempt) -> Done | Wait:
    """Nothing of it stands in any control plane cluster, nor does a tenant cluster in which it was the last."""
    left: list[str] = []
    owners = await _owners(attempt)
    for plane, namespace in attempt.operation.request["places"]:
        for owner in owners:
            left += await _remove_from(attempt, attempt.world.clusters.control_plane(plane), namespace, owner)
    for plane in attempt.world.site.control_planes:
        ref = ObjectRef(HTTP_ROUTE, attempt.operation.subject, attempt.world.site.gateway.namespace)
        left += await _removed(attempt, attempt.world.clusters.control_plane(plane), ref)
    if left:
        message = f"still there: {first_few(left, _SHOWN)}"
        return wait_for(attempt, attempt.step, reason="Reclaiming", message=message)
    return Done({"leftovers": 0, "owners": owners})


async def _owners(attempt: EndpointAttempt) -> list[str]:
    """Under which names something of it stands: its own, and its customer's tenant cluster's where nobody else is in
    that. ConflictError (`EndpointInUse`) for one that an endpoint is in."""
    subject, tenant = attempt.operation.subject, attempt.operation.tenant
    rows = await attempt.world.store.endpoints.list(tenant=tenant)
    row = next((one for one in rows if one.id == subject), None)
    if row is not None:
        takes = row.plan.shares_tenant_cluster and await leave(attempt, row)
        return [subject, *([tenant] if takes else [])]
    users = [
        one.name for one in rows if one.plan.shares_tenant_cluster and subject == shared_branch(tenant, one.plan.tier)
    ]
    if users:
        raise ConflictError(
            f"reclaiming `{subject}`: endpoints are in the tenant cluster: {', '.join(sorted(users)[:_SHOWN])}",
            reason="EndpointInUse",
            hint="it goes with the last of them",
        )
    return [tenant] if subject.startswith(shared_branch(tenant, "")) else [subject]


async def clean(attempt: EndpointAttempt) -> Done | Wait:
    """Branch, keys bound to it alone, and at last its row are gone."""
    world, endpoint = attempt.world, EndpointId(attempt.operation.subject)
    await attempt.guard()
    await world.delivery.delete(endpoint)
    if (row := await _row(attempt)) and attempt.operation.tenant in attempt.operation.result("remove")["owners"]:
        await world.delivery.delete(shared_branch(row.tenant, row.plan.tier))
    await world.store.keys.revoke_endpoint(endpoint, world.clock.now())
    await world.store.endpoints.remove(endpoint, operation=attempt.operation.id, fence=attempt.fence)
    await world.store.orphans.forget(endpoint)
    return Done()


async def on_failed(attempt: EndpointAttempt, reason: str, message: str) -> None:
    """Say on the row, where there is one, what failed; reclaiming may be asked for again."""
    endpoint = await _row(attempt)
    if endpoint is None:
        return
    await save_endpoint(attempt, endpoint, replace(endpoint, reason=reason, message=message))


async def _row(attempt: EndpointAttempt) -> Endpoint | None:
    try:
        return await attempt.world.store.endpoints.get(EndpointId(attempt.operation.subject))
    except NotFoundError:
        return None


async def _remove_from(attempt: EndpointAttempt, cluster: Cluster, namespace: str, name: str) -> list[str]:
    """Remove the tenant cluster, and once it is gone what it should have taken along; what is still there."""
    left = await _removed(attempt, cluster, ObjectRef(VIRTUAL_CLUSTER_INSTANCE, name, namespace))
    is_gone = not left
    for kind in _AFTER_THE_INSTANCE:
        for found in await _owned(cluster, kind, namespace, name):
            ref = ObjectRef(kind, str(found["metadata"]["name"]), namespace)
            left += await _removed(attempt, cluster, ref) if is_gone else [_named(ref)]
    return left


async def _removed(attempt: EndpointAttempt, cluster: Cluster, ref: ObjectRef) -> list[str]:
    """Ask for it; its name where it is still there."""
    await attempt.guard()
    return [] if await cluster.delete(ref, fence=attempt.fence) else [_named(ref)]


async def _owned(cluster: Cluster, kind: Kind, namespace: str, name: str) -> list[Manifest]:
    return [found for found in await cluster.list(kind, namespace=namespace) if owner_of(found) == name]


def _named(ref: ObjectRef) -> str:
    return f"{ref.kind.kind} {ref.name}"


STEPS: tuple[Step[World], ...] = (
    Step(name="withdraw", run=waiting_out(withdraw)),
    Step(name="remove", run=waiting_out(remove)),
    Step(name="clean", run=waiting_out(clean)),
)

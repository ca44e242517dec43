"""The tenant cluster that a customer's endpoints of one tier share: made with the first, given back with the last.

Whoever makes an endpoint sees to it that the cluster is there and leaves its fence on it; whoever deletes one takes the
cluster along when nobody else is in it any more. A row that comes after that look belongs to an operation that is
taken up later, so its fence is higher: the deletion is refused, or it came first and the cluster is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from provisioner.delivery.interface import Commit
from provisioner.domain.conditions import Stage, StageName
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import RejectedError
from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.endpoints.observe import ENDPOINT_LABEL, runtime_application
from provisioner.endpoints.placing import apply_marked
from provisioner.endpoints.progress import record_stages, wait_for
from provisioner.endpoints.world import EndpointAttempt
from provisioner.operations.step import Wait
from provisioner.platform.fencing import stored_fence
from provisioner.platform.instance import parse_instance
from provisioner.platform.interface import ObjectRef
from provisioner.platform.kinds import APPLICATION, LEASE, NODE_CLAIM, VIRTUAL_CLUSTER_INSTANCE
from provisioner.platform.nodes import belongs_to

_JOINED = "tenantry.io/joined"
"""On the tenant cluster: the operation that joined it last, under the fence that stands beside it."""
_LEFT = "Left"
"""On the stage of the tenant cluster: the endpoint is out of it, and leaves it to others."""


def shared_branch(tenant: str, tier: str) -> str:
    """The branch of what the endpoints share, as the tier's template names it."""
    return f"tenant-{tenant}-{tier}"


async def ensure_customer_cluster(attempt: EndpointAttempt, plan: EndpointPlan) -> Wait | None:
    """See to it that the cluster is there, with this operation's fence or a higher one on it. One that is there stays
    as it is: another version of its template would restart what serves. What there is to wait for where it goes."""
    world, ref = attempt.world, _instance_ref(attempt, plan)
    cluster = world.clusters.control_plane(plan.placement.control_plane)
    instance = await cluster.get(ref)
    if instance is None:
        await _deliver_shared(attempt, plan)
        made = world.pack.customer_instance(plan.tenant, plan.tier, control_plane=plan.placement.control_plane)
        joined = {**made["metadata"], "annotations": {_JOINED: attempt.operation.id}}
        await apply_marked(attempt, plan, {**made, "metadata": joined}, kind=VIRTUAL_CLUSTER_INSTANCE)
    elif instance["metadata"].get("deletionTimestamp"):
        message = f"the customer's tenant cluster is going: {plan.placement.tenant_cluster}"
        return wait_for(attempt, attempt.step, reason="TenantClusterLeaving", message=message)
    elif attempt.step == "place":
        await _deliver_shared(attempt, plan)
        annotations = instance["metadata"].get("annotations") or {}
        if stored_fence(instance) < attempt.fence and annotations.get(_JOINED) != attempt.operation.id:
            await attempt.guard()
            await cluster.annotate(ref, {_JOINED: attempt.operation.id}, fence=attempt.fence)
    return None


async def with_others(attempt: EndpointAttempt, plan: EndpointPlan) -> EndpointPlan:
    """The plan of a new endpoint with the nodes that its tenant cluster claims with it, for the project's quota: those
    that are there, or the one that stands ready for components, and its own."""
    cluster = attempt.world.clusters.control_plane(plan.placement.control_plane)
    claims = await cluster.list(NODE_CLAIM, namespace=attempt.world.project_namespace(plan))
    there = sum(1 for claim in claims if belongs_to(claim, plan.placement.tenant_cluster))
    return replace(plan, capacity=replace(plan.capacity, nodes=plan.capacity.nodes + max(1, there)))


async def place_beside(attempt: EndpointAttempt, plan: EndpointPlan) -> Wait | None:
    """The endpoint's Application stands beside those of its customer's other endpoints."""
    if wait := await ensure_customer_cluster(attempt, plan):
        return wait
    await apply_marked(attempt, plan, attempt.world.pack.application(plan), kind=APPLICATION)
    return None


async def remove_application(attempt: EndpointAttempt, plan: EndpointPlan) -> list[str]:
    """Take the endpoint's Application away, and with it what it made; its name while it is still there."""
    name, namespace = runtime_application(plan), attempt.world.project_namespace(plan)
    cluster = attempt.world.clusters.control_plane(plan.placement.control_plane)
    await attempt.guard()
    is_gone = await cluster.delete(ObjectRef(APPLICATION, name, namespace), fence=attempt.fence)
    return [] if is_gone else [f"{APPLICATION.kind} {name}"]


async def remove_registrations(attempt: EndpointAttempt, plan: EndpointPlan) -> list[str]:
    """Take the endpoint's Leases out of a tenant cluster that serves others; the names of those still there."""
    cluster = attempt.world.clusters.control_plane(plan.placement.control_plane)
    instance = await cluster.get(_instance_ref(attempt, plan))
    if instance is None or parse_instance(instance).phase != "Ready":
        return []  # what never came up holds nothing, and what is gone neither
    tenant, left = attempt.world.tenant(plan), []
    try:
        for lease in await tenant.list(LEASE, namespace=TENANT_NAMESPACE, labels={ENDPOINT_LABEL: str(plan.endpoint)}):
            ref = ObjectRef(LEASE, str(lease["metadata"]["name"]), TENANT_NAMESPACE)
            await attempt.guard()
            if not await tenant.delete(ref, fence=attempt.fence):
                left.append(f"{LEASE.kind} {ref.name}")
    except RejectedError:  # it is on its way out, with all that it holds
        return []
    return left


async def leave(attempt: EndpointAttempt, endpoint: Endpoint) -> bool:
    """Note on its row that the endpoint is out of the tenant cluster, and say whether it was the last in it. It is
    noted before the others are looked at, so that of several that go at once the last to note it finds nobody.
    """
    left = Stage(name=StageName.TENANT_CLUSTER, reason=_LEFT, message="it is out of the customer's tenant cluster")
    await record_stages(attempt, endpoint, (left,))
    return is_last(endpoint, await attempt.world.store.endpoints.list(tenant=endpoint.tenant))


def is_last(endpoint: Endpoint, endpoints: Iterable[Endpoint]) -> bool:
    """Whether nobody else is in the endpoint's tenant cluster who has not left it. Pure."""
    here = _place(endpoint.plan)
    return all(has_left(one) for one in endpoints if one.id != endpoint.id and _place(one.plan) == here)


def has_left(endpoint: Endpoint) -> bool:
    """Whether a deletion has taken the endpoint out of its tenant cluster. Pure."""
    return any(stage.name is StageName.TENANT_CLUSTER and stage.reason == _LEFT for stage in endpoint.stages)


def _place(plan: EndpointPlan) -> tuple[str, str, str]:
    placement = plan.placement
    return placement.control_plane, placement.project, placement.tenant_cluster


async def _deliver_shared(attempt: EndpointAttempt, plan: EndpointPlan) -> None:
    """What the endpoints share stands on its branch. Whoever was quicker pushed the same."""
    world, branch = attempt.world, shared_branch(plan.tenant, plan.tier)
    if await world.delivery.head(branch) is not None:
        return
    commit = Commit(
        branch=branch,
        files=world.pack.tenant_tree(plan.tenant, plan.tier),
        parent=None,
        message=f"Create the tenant cluster of {plan.tenant}, tier {plan.tier}\n\nOperation: {attempt.operation.id}\n",
        at=attempt.operation.created_at,
    )
    await attempt.guard()
    await world.delivery.push(commit)


def _instance_ref(attempt: EndpointAttempt, plan: EndpointPlan) -> ObjectRef:
    namespace = attempt.world.project_namespace(plan)
    return ObjectRef(VIRTUAL_CLUSTER_INSTANCE, plan.placement.tenant_cluster, namespace)

"""Which groups of templates make an endpoint's tree, each with its shape and with what fills its slots. Pure.

A group is a folder of `applications/runtimes`; the pack compiles each of its shapes once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from provisioner.catalog.runtime import Runtime
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Routing, Storage, Tenancy, Tier
from provisioner.domain.errors import RejectedError
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering import values
from provisioner.rendering.arguments import fetch_arguments, server_arguments
from provisioner.rendering.compiler import Slots, SlotValue
from provisioner.rendering.shape import (
    GATEWAY_QUEUE,
    AgentShape,
    ReplicaShape,
    TenantShape,
    WorkloadShape,
    endpoint_shape,
    gpu_resource,
    quota_resource,
    spans_nodes,
)

SITE_INCOMPLETE = "SiteIncomplete"
"""Why a plan is not rendered whose tier needs what the site does not name."""
SIGNALS_FIELD = "metricsUrl"
"""The field of a site that names where the gateways' queue is read."""


@dataclass(frozen=True, slots=True)
class Group:
    """One folder of templates (`part`) for one shape, and the values of its slots, once for each time it is filled."""

    part: str
    shape: Hashable
    slots: Slots
    fillings: Sequence[Mapping[str, SlotValue]]


def runtime_groups(
    plan: EndpointPlan, *, tier: Tier, runtime: Runtime, site: Site, beside: EndpointPlan | None = None
) -> Iterator[Group]:
    """The groups of an endpoint, or of the pool that serves it. What its tenant cluster holds once is among them unless
    a customer's endpoints share one, with room for the revision `beside` it.

    Raises RejectedError for what this site does not have, or a placeholder that nobody knows.
    """
    _check_site(plan, tier, site)
    if tier.tenancy is not Tenancy.CUSTOMER:
        yield _tenant_group(tier, values.tenant_values(plan, beside=beside))
    yield Group("endpoint", endpoint_shape(plan, runtime), _ENDPOINT, (values.endpoint_values(plan, runtime),))
    yield workload_group(plan, runtime)
    if site.agent_image:
        leases = Slots(values.AGENT_SLOTS, {"leases": plan.runtime.max_replicas})
        yield Group("agent", AgentShape(plan.tier, plan.runtime.max_replicas), leases, (values.agent_values(plan),))
    shape = ReplicaShape(tier=plan.tier, runtime=runtime.name, spans_nodes=spans_nodes(plan))
    yield Group("replica", shape, _REPLICA, values.replica_values(plan))


def lacking_fields(plan: EndpointPlan, tier: Tier, site: Site) -> Iterator[str]:
    """Fields of the site without which the plan would be rendered with a hole: a tier may ask for what a site has to
    name."""
    needs = (
        (plan.runtime.storage == Storage.OBJECT_STORE and not site.storage.object_store, "storage.objectStore"),
        (plan.runtime.storage == Storage.SHARED_FILESYSTEM and not site.storage.shared_class, "storage.sharedClass"),
        (plan.runtime.storage == Storage.NVME and not site.storage.nvme_class, "storage.nvmeClass"),
        (tier.routing is Routing.INGRESS and not site.gateway.ingress, "gateway.ingress"),
        (GATEWAY_QUEUE in plan.runtime.signals and not site.metrics_url, SIGNALS_FIELD),
    )
    yield from (field for lacks, field in needs if lacks)


def _check_site(plan: EndpointPlan, tier: Tier, site: Site) -> None:
    """Refuse what admission would have refused, had the site been then what it is now."""
    for field in lacking_fields(plan, tier, site):
        raise RejectedError(
            f"rendering `{plan.serving_id}`: the site does not name what tier `{tier.name}` needs: `{field}`",
            reason=SITE_INCOMPLETE,
            hint=f"add `{field}` to site.yaml; docs/how-to/choose-storage.md and autoscale.md tell what it is",
        )


def customer_group(tenant: str, tier: Tier, site: Site) -> Group:
    """What the endpoints of a customer share, in a tier with a tenant cluster per customer."""
    return _tenant_group(tier, values.customer_values(tenant, tier, site))


def _tenant_group(tier: Tier, filling: Mapping[str, SlotValue]) -> Group:
    return Group("tenant", TenantShape(tier=tier.name, gpu_resource=quota_resource(tier)), _TENANT, (filling,))


def workload_group(plan: EndpointPlan, runtime: Runtime) -> Group:
    """The group that makes the pods."""
    arguments = server_arguments(plan.runtime, runtime, spans_nodes=spans_nodes(plan))
    fetches = fetch_arguments(plan.runtime, runtime)
    shape = WorkloadShape(
        tier=plan.tier,
        runtime=runtime.name,
        gpu_resource=gpu_resource(plan),
        spans_nodes=spans_nodes(plan),
        storage=plan.runtime.storage,
        arguments=len(arguments),
        fetches=len(fetches),
    )
    slots = Slots(values.WORKLOAD_SLOTS, {"arguments": len(arguments), "fetches": len(fetches)})
    filling = values.workload_values(plan, runtime, arguments=arguments, fetches=fetches)
    return Group("workload", shape, slots, (filling,))


_TENANT = Slots(values.TENANT_SLOTS, {})
_ENDPOINT = Slots(values.ENDPOINT_SLOTS, {})
_REPLICA = Slots(values.REPLICA_SLOTS, {})

"""Which replicas of an endpoint live: those whose Lease in the tenant cluster was renewed in time. Reads only.

Only the control plane expires registrations. Addresses come from the plan and the tenant's Gateway, never from whoever
renews a Lease. An endpoint that cannot be observed is told apart, so that its last backends stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from provisioner.domain.clock import Clock
from provisioner.domain.conditions import StageName, StageState
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.errors import TenantryError
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.domain.route import Serving, adapter_names
from provisioner.domain.snapshot import Backend
from provisioner.endpoints.leases import live_ordinals
from provisioner.endpoints.observe import ENDPOINT_LABEL, gateway_ref, replica_backend
from provisioner.platform.interface import Clusters
from provisioner.platform.kinds import LEASE
from provisioner.platform.route import parse_gateway

_AT_ONCE = 16
_DEADLINE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one look found: what serves each endpoint, and why the others could not be observed."""

    serving: Mapping[EndpointId, Serving]
    unobserved: Mapping[EndpointId, str]


def is_observed(endpoint: Endpoint) -> bool:
    """Whether an endpoint may have replicas: it is Ready, Drained (being warmed perhaps, so that its route is true from
    the moment it is Ready), or being created with its tenant cluster up. An alias is served by its pool's."""
    if endpoint.plan.is_alias:
        return False
    if endpoint.phase in (Phase.READY, Phase.DRAINED):
        return True
    states = {stage.name: stage.state for stage in endpoint.stages}
    return endpoint.phase is Phase.CREATING and states.get(StageName.TENANT_CLUSTER) is StageState.DONE


async def observe_serving(clusters: Clusters, endpoints: Iterable[Endpoint], *, clock: Clock) -> Sighting:
    """What serves each endpoint that could be observed, by the plan that its row has now."""
    slots = asyncio.Semaphore(_AT_ONCE)
    serving: dict[EndpointId, Serving] = {}
    unobserved: dict[EndpointId, str] = {}

    async def look(endpoint: Endpoint) -> None:
        try:
            async with slots, asyncio.timeout(_DEADLINE_SECONDS):
                backends = await _observe(clusters, endpoint.plan, clock)
            runtime = endpoint.plan.runtime
            serving[endpoint.id] = Serving(
                runtime.revision, runtime.served_model, backends, adapters=adapter_names(runtime)
            )
        except TenantryError as error:
            unobserved[endpoint.id] = error.message
        except TimeoutError:
            unobserved[endpoint.id] = f"no answer in seconds: {_DEADLINE_SECONDS:.0f}"

    await asyncio.gather(*(look(endpoint) for endpoint in endpoints if is_observed(endpoint)))
    return Sighting(serving, unobserved)


async def _observe(clusters: Clusters, plan: EndpointPlan, clock: Clock) -> tuple[Backend, ...]:
    placement = plan.placement
    cluster = clusters.tenant(placement.control_plane, placement.project, placement.tenant_cluster)
    leases, gateway = await asyncio.gather(
        cluster.list(LEASE, namespace=TENANT_NAMESPACE, labels={ENDPOINT_LABEL: str(plan.endpoint)}),
        cluster.get(gateway_ref(plan)),
    )
    address = parse_gateway(gateway).address if gateway else None
    if address is None:
        return ()
    return tuple(replica_backend(plan, ordinal, address) for ordinal in live_ordinals(leases, plan, now=clock.now()))

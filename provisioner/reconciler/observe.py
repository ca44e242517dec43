"""Which replicas of an endpoint live: those whose Lease in the tenant cluster was renewed in time. Reads only.

Only the control plane expires registrations. Addresses come from the plan and the tenant's Gateway, never from whoever
renews a Lease. An endpoint that cannot be observed is told apart, so that its last backends stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from provisioner.domain.clock import Clock
from provisioner.domain.conditions import StageName, StageState
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.errors import TenantryError
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.domain.snapshot import Backend
from provisioner.endpoints.observe import ENDPOINT_LABEL, TENANT_GATEWAY, replica_backend
from provisioner.platform.interface import Clusters, Manifest, ObjectRef
from provisioner.platform.kinds import GATEWAY, LEASE
from provisioner.platform.route import parse_gateway

_AT_ONCE = 16
_DEADLINE_SECONDS = 10.0
_LEASE = timedelta(seconds=15)
"""Ours, not the Lease's own: whoever renews it does not decide how long it holds, nor by a clock that runs ahead."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one look found: live backends by endpoint, and why the others could not be observed."""

    backends: Mapping[EndpointId, tuple[Backend, ...]]
    unobserved: Mapping[EndpointId, str]


def is_observed(endpoint: Endpoint) -> bool:
    """Whether an endpoint may have replicas: it is Ready, or being created with its tenant cluster up."""
    if endpoint.phase is Phase.READY:
        return True
    states = {stage.name: stage.state for stage in endpoint.stages}
    return endpoint.phase is Phase.CREATING and states.get(StageName.TENANT_CLUSTER) is StageState.DONE


async def observe_backends(clusters: Clusters, endpoints: Iterable[Endpoint], *, clock: Clock) -> Sighting:
    """The live backends of each endpoint that could be observed."""
    slots = asyncio.Semaphore(_AT_ONCE)
    backends: dict[EndpointId, tuple[Backend, ...]] = {}
    unobserved: dict[EndpointId, str] = {}

    async def look(endpoint: Endpoint) -> None:
        try:
            async with slots, asyncio.timeout(_DEADLINE_SECONDS):
                backends[endpoint.id] = await _observe(clusters, endpoint.plan, clock)
        except TenantryError as error:
            unobserved[endpoint.id] = error.message
        except TimeoutError:
            unobserved[endpoint.id] = f"no answer in seconds: {_DEADLINE_SECONDS:.0f}"

    await asyncio.gather(*(look(endpoint) for endpoint in endpoints if is_observed(endpoint)))
    return Sighting(backends, unobserved)


def live_ordinals(leases: Iterable[Manifest], plan: EndpointPlan, *, now: datetime) -> tuple[int, ...]:
    """The ordinals of the plan's revision whose Lease was renewed in time."""
    names = {f"{plan.workload}-{ordinal}": ordinal for ordinal in range(plan.runtime.max_replicas)}
    return tuple(
        sorted(
            names[lease["metadata"]["name"]]
            for lease in leases
            if lease["metadata"]["name"] in names and _is_live(lease.get("spec") or {}, now)
        )
    )


async def _observe(clusters: Clusters, plan: EndpointPlan, clock: Clock) -> tuple[Backend, ...]:
    placement = plan.placement
    cluster = clusters.tenant(placement.control_plane, placement.project, placement.tenant_cluster)
    leases, gateway = await asyncio.gather(
        cluster.list(LEASE, namespace=TENANT_NAMESPACE, labels={ENDPOINT_LABEL: str(plan.endpoint)}),
        cluster.get(ObjectRef(GATEWAY, TENANT_GATEWAY, TENANT_NAMESPACE)),
    )
    address = parse_gateway(gateway).address if gateway else None
    if address is None:
        return ()
    return tuple(replica_backend(plan, ordinal, address) for ordinal in live_ordinals(leases, plan, now=clock.now()))


def _is_live(spec: Mapping[str, object], now: datetime) -> bool:
    renewed = spec.get("renewTime")
    if not spec.get("holderIdentity") or not isinstance(renewed, str):
        return False
    try:
        at = datetime.fromisoformat(renewed)
    except ValueError:
        return False
    return at.tzinfo is not None and abs(now - at) < _LEASE

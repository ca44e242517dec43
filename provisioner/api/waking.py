"""Wakes an endpoint for a gateway that has a request for it: by one operation, however many ask.

Gateways ask again while a request waits. So whatever goes on at the endpoint is answered, and a warm that has just
ended, well or not, is not followed by another at once. What an operator drained stays drained.
"""

from __future__ import annotations

from datetime import timedelta

from provisioner.api.body import digest_of
from provisioner.api.services import Services
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.errors import ConflictError
from provisioner.domain.ids import EndpointId
from provisioner.domain.operation import Operation, Verb
from provisioner.domain.origin import Origin
from provisioner.endpoints.submit import new_operation

ACTOR = "gateway"
PATIENCE = timedelta(seconds=15)
"""How long after a warm another one is not begun: its replica is on its way into the snapshot."""


async def wake(endpoint_id: EndpointId, services: Services, *, request_id: str) -> Operation:
    """The operation that the gateway may wait for. NotFoundError; ConflictError for an endpoint that serves nothing,
    or that was drained."""
    endpoint = await services.store.endpoints.get(endpoint_id)
    if endpoint.plan.is_alias:  # its pool has the replicas
        endpoint = await services.store.endpoints.get(EndpointId(endpoint.plan.serving_id))
    going_on = await _going_on(endpoint, services)
    if going_on is not None:
        return going_on
    if endpoint.phase is Phase.DRAINED:
        raise ConflictError(
            f"waking endpoint `{endpoint.name}`: it was drained on request",
            reason="EndpointDrained",
            hint="an operator warms it",
        )
    origin = Origin(
        idempotency_key=f"wake:{services.ids.operation()}",
        request_digest=digest_of("POST", "/internal/wake", endpoint_id),
        actor=ACTOR,
        request_id=request_id,
    )
    operation, woken = new_operation(
        Verb.ENDPOINT_WARM, endpoint, {}, origin=origin, clock=services.clock, ids=services.ids
    )
    try:
        submitted = await services.store.operations.submit(operation, endpoint=woken)
    except ConflictError:
        # Another gateway was quicker, or somebody changes the endpoint: that is what there is to wait for.
        quicker = await _going_on(await services.store.endpoints.get(endpoint.id), services)
        if quicker is None:
            raise
        return quicker
    services.wake_worker()
    return submitted.operation


async def _going_on(endpoint: Endpoint, services: Services) -> Operation | None:
    """What goes on at the endpoint, or the warm that has just ended."""
    latest = await services.store.operations.get(endpoint.operation)
    if not latest.state.is_final:
        return latest
    is_recent = services.clock.now() < latest.updated_at + PATIENCE
    return latest if latest.verb is Verb.ENDPOINT_WARM and is_recent else None

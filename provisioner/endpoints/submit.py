"""Builds the rows that the API stores when an endpoint is asked for or given up. Pure: time and ids come in."""

from __future__ import annotations

from dataclasses import replace

from pydantic import TypeAdapter

from provisioner.domain.clock import Clock
from provisioner.domain.endpoint import Endpoint, EndpointRequest, Phase
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import Ids
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.domain.origin import Origin
from provisioner.domain.plan import EndpointPlan
from provisioner.endpoints.project import check_tenancy

_REQUEST = TypeAdapter(EndpointRequest)


def new_create(
    request: EndpointRequest, plan: EndpointPlan, *, origin: Origin, clock: Clock, ids: Ids
) -> tuple[Operation, Endpoint]:
    """The pending operation and the endpoint's row, whose id is the plan's.

    RejectedError for a tier in which endpoints are not made yet, before anything is stored.
    """
    if findings := check_tenancy(plan):
        raise RejectedError(
            f"creating endpoint `{plan.name}`: refused by tier: {plan.tier}",
            reason=findings[0].reason,
            findings=findings,
        )
    operation = _operation(Verb.ENDPOINT_CREATE, plan, request, origin=origin, clock=clock, ids=ids)
    endpoint = Endpoint(
        id=plan.endpoint,
        name=plan.name,
        tenant=plan.tenant,
        request=request,
        plan=plan,
        phase=Phase.CREATING,
        created_at=operation.created_at,
        updated_at=operation.created_at,
        operation=operation.id,
    )
    return operation, endpoint


def new_delete(endpoint: Endpoint, *, origin: Origin, clock: Clock, ids: Ids) -> tuple[Operation, Endpoint]:
    """The pending operation and the endpoint's row as Deleting, so that it takes no traffic from now on."""
    operation = _operation(Verb.ENDPOINT_DELETE, endpoint.plan, endpoint.request, origin=origin, clock=clock, ids=ids)
    deleting = replace(
        endpoint,
        phase=Phase.DELETING,
        generation=endpoint.generation + 1,
        operation=operation.id,
        updated_at=operation.created_at,
        reason="",
        message="",
    )
    return operation, deleting


def _operation(
    verb: Verb, plan: EndpointPlan, request: EndpointRequest, *, origin: Origin, clock: Clock, ids: Ids
) -> Operation:
    now = clock.now()
    return Operation(
        id=ids.operation(),
        verb=verb,
        tenant=plan.tenant,
        subject=plan.endpoint,
        request=_REQUEST.dump_python(request, mode="json"),
        idempotency_key=origin.idempotency_key,
        request_digest=origin.request_digest,
        actor=origin.actor,
        request_id=origin.request_id,
        state=OperationState.PENDING,
        created_at=now,
        updated_at=now,
        next_attempt_at=now,
    )

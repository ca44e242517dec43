"""Builds the rows that the API stores when an endpoint is asked for, changed, given up. Pure: time and ids come in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import TypeAdapter

from provisioner.admission.alias import require_own_replicas
from provisioner.domain.clock import Clock
from provisioner.domain.endpoint import Change, Endpoint, EndpointRequest, Phase
from provisioner.domain.errors import ConflictError
from provisioner.domain.ids import Ids
from provisioner.domain.operation import Json, Operation, OperationState, Verb
from provisioner.domain.origin import Origin
from provisioner.domain.plan import EndpointPlan

_REQUEST = TypeAdapter(EndpointRequest)


def new_create(
    request: EndpointRequest, plan: EndpointPlan, *, origin: Origin, clock: Clock, ids: Ids
) -> tuple[Operation, Endpoint]:
    """The pending operation and the endpoint's row, whose id is the plan's."""
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


def new_change(
    verb: Verb, endpoint: Endpoint, change: Change, *, origin: Origin, clock: Clock, ids: Ids
) -> tuple[Operation, Endpoint]:
    """The pending operation of an update or a scale, and the endpoint's row with what it is to become.

    ConflictError that says why not, for an endpoint that is not Ready.
    """
    if refused := _UNCHANGEABLE.get(endpoint.phase):
        reason, why, hint = refused
        raise ConflictError(
            f"changing endpoint `{endpoint.name}`: {why}", reason=reason, hint=hint.format(operation=endpoint.operation)
        )
    operation = _operation(verb, change.plan, change.request, origin=origin, clock=clock, ids=ids)
    changed = replace(
        endpoint,
        change=change,
        generation=endpoint.generation + 1,
        operation=operation.id,
        updated_at=operation.created_at,
        reason="",
        message="",
    )
    return operation, changed


def new_operation(
    verb: Verb, endpoint: Endpoint, asked: Mapping[str, Json], *, origin: Origin, clock: Clock, ids: Ids
) -> tuple[Operation, Endpoint]:
    """The pending operation of a verb that changes nothing of what the endpoint is: warm, restart, rotate-key, drain.
    `asked` is what the caller may choose.

    ConflictError that says why not, for an endpoint in a phase in which there is nothing to do it to; RejectedError
    (`PoolHasReplicas`) for a restart where a pool serves it.
    """
    if verb is Verb.ENDPOINT_RESTART:
        require_own_replicas(endpoint, "restarting")
    refused = None if _works_on_drained(verb, endpoint) else _UNCHANGEABLE.get(endpoint.phase)
    if refused:
        reason, why, hint = refused
        raise ConflictError(
            f"submitting {verb} of `{endpoint.name}`: {why}",
            reason=reason,
            hint=hint.format(operation=endpoint.operation),
        )
    told = {"tenant": endpoint.tenant, "name": endpoint.name, **asked}
    operation = pending(verb, endpoint.tenant, endpoint.id, told, origin=origin, clock=clock, ids=ids)
    return operation, replace(endpoint, operation=operation.id, updated_at=operation.created_at)


def _works_on_drained(verb: Verb, endpoint: Endpoint) -> bool:
    return endpoint.phase is Phase.DRAINED and verb is not Verb.ENDPOINT_RESTART


_UNCHANGEABLE: Mapping[Phase, tuple[str, str, str]] = {
    Phase.CREATING: (
        "EndpointCreating",
        "it is still being created",
        "wait for it with `tenantry operation wait {operation}`, or cancel that and create it as wanted",
    ),
    Phase.DRAINED: ("EndpointDrained", "it is drained and has no replicas", "warm it first"),
    Phase.FAILED: (
        "EndpointFailed",
        "its creation failed, nothing of it serves",
        "delete it and create it as wanted; `tenantry operation get {operation}` tells why it failed",
    ),
    Phase.DELETING: ("EndpointDeleting", "it is being deleted", "create another"),
}
"""Why an endpoint in this phase is not changed: reason, words and what to do."""


def _operation(
    verb: Verb, plan: EndpointPlan, request: EndpointRequest, *, origin: Origin, clock: Clock, ids: Ids
) -> Operation:
    asked = _REQUEST.dump_python(request, mode="json")
    return pending(verb, plan.tenant, plan.endpoint, asked, origin=origin, clock=clock, ids=ids)


def pending(
    verb: Verb, tenant: str, subject: str, asked: Mapping[str, Json], *, origin: Origin, clock: Clock, ids: Ids
) -> Operation:
    """A pending operation of an endpoint, whose id is the `subject`."""
    now = clock.now()
    return Operation(
        id=ids.operation(),
        verb=verb,
        tenant=tenant,
        subject=subject,
        request=asked,
        idempotency_key=origin.idempotency_key,
        request_digest=origin.request_digest,
        actor=origin.actor,
        request_id=origin.request_id,
        state=OperationState.PENDING,
        created_at=now,
        updated_at=now,
        next_attempt_at=now,
    )

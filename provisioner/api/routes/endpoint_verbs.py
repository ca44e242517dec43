"""Verbs of an endpoint that leave what it is as it is: warm it, restart it, drain it, give it another key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response

from provisioner.admission.key import check_gift
from provisioner.admission.verbs import DrainForm, EmptyForm, RotateKeyForm
from provisioner.api.body import read_asked, read_form
from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.find import find_endpoint
from provisioner.api.preconditions import IfMatch, require_match
from provisioner.api.routes.schemas import body_of
from provisioner.api.routes.submit import IdempotencyKey, origin_of, point_to
from provisioner.api.services import Services
from provisioner.api.views import key_view, operation_view
from provisioner.catalog.fields import shown
from provisioner.domain.access import Principal, Scope
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding, unknown_name_hint
from provisioner.domain.ids import KeyId
from provisioner.domain.key import ApiKey
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.endpoints.draining import DRAIN_SECONDS
from provisioner.endpoints.rotate_key import OVERLAP_SECONDS, new_rotation
from provisioner.endpoints.submit import new_operation
from provisioner.wire.key import KeyRotated
from provisioner.wire.operation import OperationView

router = APIRouter(tags=["endpoints"])

Operator = Annotated[Principal, require(Scope.ENDPOINTS_WRITE)]
KeyMaker = Annotated[Principal, require(Scope.KEYS_WRITE)]

_GAP = "one replica runs: nothing answers from when it goes until its successor has loaded the model"
_REPEATED = (
    "this request made the key before: its secret was shown then, and is kept nowhere; rotate again if it is lost"
)


@router.post("/endpoints/{reference:path}:warm", status_code=202, openapi_extra=body_of(EmptyForm))
async def warm_endpoint(
    reference: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Operator,
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> OperationView:
    """Wake an endpoint that sleeps, or bring back one that was drained; one that is awake succeeds at once. Asked for
    again while it goes on, the same operation is answered. One that may sleep is kept awake for a minute first."""
    raw, endpoint = await read_asked(request), await find_endpoint(reference, services.store, caller)
    require_match(endpoint, if_match)
    read_form(EmptyForm, raw)
    made = _made(Verb.ENDPOINT_WARM, endpoint, {}, request, services, idempotency_key)
    return await _submitted_once(made, endpoint, response, services)


@router.post("/endpoints/{reference:path}:restart", status_code=202, openapi_extra=body_of(EmptyForm))
async def restart_endpoint(
    reference: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Operator,
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> OperationView:
    """Replace every pod, one after another, on the same volumes and under the same URL. With one replica there is a
    gap, of which `hint` tells. Asked for again while it goes on, the same operation is answered."""
    raw, endpoint = await read_asked(request), await find_endpoint(reference, services.store, caller)
    require_match(endpoint, if_match)
    read_form(EmptyForm, raw)
    operation, changed = _made(Verb.ENDPOINT_RESTART, endpoint, {}, request, services, idempotency_key)
    hint = _GAP if await _replicas(endpoint, services) == 1 else None
    return await _submitted_once((replace(operation, hint=hint), changed), endpoint, response, services)


@router.post("/endpoints/{reference:path}:drain", status_code=202, openapi_extra=body_of(DrainForm))
async def drain_endpoint(
    reference: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Operator,
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> OperationView:
    """Take an endpoint out of service: no new requests (503 with `Retry-After`), those that run end or have their time,
    then no replica runs until it is warmed. Asked for again while it goes on, the same operation is answered."""
    raw, endpoint = await read_asked(request), await find_endpoint(reference, services.store, caller)
    require_match(endpoint, if_match)
    form = read_form(DrainForm, raw)
    chosen = DRAIN_SECONDS if form.deadline_seconds is None else form.deadline_seconds
    made = _made(Verb.ENDPOINT_DRAIN, endpoint, {"deadlineSeconds": chosen}, request, services, idempotency_key)
    return await _submitted_once(made, endpoint, response, services)


@router.post("/endpoints/{reference:path}:rotate-key", status_code=202, openapi_extra=body_of(RotateKeyForm))
async def rotate_endpoint_key(
    reference: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: KeyMaker,
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> KeyRotated:
    """Give an endpoint another key, at once; the old ones stop when the overlap is over. The secret is in this answer
    and nowhere else: the same Idempotency-Key with the same body answers without it."""
    raw, endpoint = await read_asked(request), await find_endpoint(reference, services.store, caller)
    require_match(endpoint, if_match)
    form = read_form(RotateKeyForm, raw)
    overlap = OVERLAP_SECONDS if form.overlap_seconds is None else form.overlap_seconds
    secret = services.ids.secret()
    operation, changed, rotation = new_rotation(
        endpoint,
        await _keys_of(endpoint, form.key, services),
        secret=secret,
        overlap_seconds=overlap,
        origin=origin_of(request, idempotency_key, raw),
        clock=services.clock,
        ids=services.ids,
    )
    if findings := tuple(check_gift(rotation.key.permitted, rotation.key.role, caller)):
        raise RejectedError("making key: it may do more than yours", reason="Forbidden", findings=findings)
    submitted = await services.store.operations.submit(operation, endpoint=changed, rotation=rotation)
    services.wake_worker()
    services.wake_reconciler()
    point_to(response, submitted.operation.id)
    response.headers["Cache-Control"] = "no-store"
    return await _rotated(submitted.operation, secret if submitted.is_new else None, services)


def _made(
    verb: Verb,
    endpoint: Endpoint,
    asked: Mapping[str, Any],
    request: Request,
    services: Services,
    idempotency_key: str,
) -> tuple[Operation, Endpoint]:
    origin = origin_of(request, idempotency_key, dict(asked))
    return new_operation(verb, endpoint, asked, origin=origin, clock=services.clock, ids=services.ids)


async def _submitted_once(
    made: tuple[Operation, Endpoint], endpoint: Endpoint, response: Response, services: Services
) -> OperationView:
    """The operation as stored, or the one of the same verb that goes on."""
    operation, changed = made
    current = await services.store.operations.get(endpoint.operation)
    is_going_on = not current.state.is_final and current.state is not OperationState.CANCELLING
    if is_going_on and current.verb is operation.verb:
        stored = current
    else:
        stored = (await services.store.operations.submit(operation, endpoint=changed)).operation
        services.wake_worker()
    point_to(response, stored.id)
    return operation_view(stored, changed, services.clock.now())


async def _replicas(endpoint: Endpoint, services: Services) -> int:
    """How many replicas gateways are told of."""
    snapshot = await services.store.snapshots.current()
    routes = snapshot.routes if snapshot else ()
    return next((len(route.backends) for route in routes if route.endpoint == endpoint.id), 0)


async def _keys_of(endpoint: Endpoint, wanted: str | None, services: Services) -> tuple[ApiKey, ...]:
    """The usable keys that are bound to the endpoint alone, or the wanted one of them. RejectedError."""
    now = services.clock.now()
    keys = [key for key in await services.store.keys.list(tenant=endpoint.tenant) if key.is_usable(now)]
    bound = [key for key in keys if key.endpoints == (endpoint.id,)]
    found = tuple(key for key in bound if wanted in (None, key.id))
    if wanted is not None and not found:
        message = (
            f"reading key: no key that may be used is bound to this endpoint alone and has the id: {shown(wanted)}"
        )
        hint = unknown_name_hint(wanted, [key.id for key in bound])
        finding = Finding(reason="UnknownKey", message=message, field="key", hint=hint)
        raise RejectedError("rotating the key: 1 finding(s)", reason="InvalidRequest", findings=(finding,))
    return found


async def _rotated(operation: Operation, secret: str | None, services: Services) -> KeyRotated:
    keys, asked = services.store.keys, operation.request
    return KeyRotated(
        operation=operation_view(operation, None, services.clock.now()),
        secret=secret,
        key=key_view(await keys.get(KeyId(asked["key"]))),
        replaced=tuple([key_view(await keys.get(KeyId(one["key"]))) for one in asked["replaced"]]),
        hint=None if secret else _REPEATED,
    )

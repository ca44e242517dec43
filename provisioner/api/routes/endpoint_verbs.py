"""Verbs of an endpoint that leave what it is as it is: warm it, restart it, drain it, give it another key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response

from provisioner.admission.key import check_gift
from provisioner.admission.verbs import DrainForm, EmptyForm, RotateKeyForm
from provisioner.api.body import read_asked, read_form
from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.find import find_endpoint
from provisioner.api.preconditions import IfMatch, require_match
from provisioner.api.routes.schemas import body_of
from provisioner.api.routes.submit import IdempotencyKey, find_going_on, origin_of, point_to
from provisioner.api.services import Services
from provisioner.api.views import key_view, operation_view
from provisioner.catalog.fields import shown
from provisioner.domain.access import Principal, Scope
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding, unknown_name_hint
from provisioner.domain.ids import KeyId
from provisioner.domain.key import ApiKey
from provisioner.domain.operation import Operation, Verb
from provisioner.domain.origin import Origin
from provisioner.endpoints.draining import DRAIN_SECONDS
from provisioner.endpoints.rotate_key import OVERLAP_SECONDS, new_rotation
from provisioner.endpoints.submit import new_operation
from provisioner.wire.key import KeyRotationView
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
    read_form(EmptyForm, raw)
    asked = _Asked(Verb.ENDPOINT_WARM, endpoint, {}, origin_of(request, idempotency_key, {}), if_match)
    return await _submitted_once(asked, response, services)


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
    read_form(EmptyForm, raw)
    origin, hint = origin_of(request, idempotency_key, {}), _GAP if await _replicas(endpoint, services) == 1 else None
    asked = _Asked(Verb.ENDPOINT_RESTART, endpoint, {}, origin, if_match, hint)
    return await _submitted_once(asked, response, services)


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
    then no replica runs until it is warmed. Asked for again while it goes on, the same operation is answered; with
    another deadline it is refused."""
    raw, endpoint = await read_asked(request), await find_endpoint(reference, services.store, caller)
    form = read_form(DrainForm, raw)
    chosen = {"deadlineSeconds": DRAIN_SECONDS if form.deadline_seconds is None else form.deadline_seconds}
    origin = origin_of(request, idempotency_key, chosen)
    return await _submitted_once(_Asked(Verb.ENDPOINT_DRAIN, endpoint, chosen, origin, if_match), response, services)


@router.post("/endpoints/{reference:path}:rotate-key", status_code=202, openapi_extra=body_of(RotateKeyForm))
async def rotate_endpoint_key(
    reference: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: KeyMaker,
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> KeyRotationView:
    """Give an endpoint another key, at once; the old ones stop when the overlap is over. The secret is in this answer
    and nowhere else: the same Idempotency-Key with the same body answers without it."""
    raw, endpoint = await read_asked(request), await find_endpoint(reference, services.store, caller)
    form, origin = read_form(RotateKeyForm, raw), origin_of(request, idempotency_key, raw)
    response.headers["Cache-Control"] = "no-store"
    if repeated := await services.store.operations.find_repeated(endpoint.tenant, origin):
        point_to(response, repeated.id)
        return await _rotated(repeated, None, services)
    require_match(endpoint, if_match)
    overlap = OVERLAP_SECONDS if form.overlap_seconds is None else form.overlap_seconds
    secret = services.ids.secret()
    operation, changed, rotation = new_rotation(
        endpoint,
        await _keys_of(endpoint, form.key, services),
        secret=secret,
        overlap_seconds=overlap,
        origin=origin,
        clock=services.clock,
        ids=services.ids,
    )
    if findings := tuple(check_gift(rotation.key.permitted, rotation.key.role, caller)):
        raise RejectedError("making key: it may do more than yours", reason="Forbidden", findings=findings)
    submitted = await services.store.operations.submit(operation, endpoint=changed, rotation=rotation)
    services.wake_worker()
    services.wake_reconciler()
    point_to(response, submitted.operation.id)
    return await _rotated(submitted.operation, secret if submitted.is_new else None, services)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A verb that somebody asks for, with its choices, where it comes from and on which condition."""

    verb: Verb
    endpoint: Endpoint
    choices: Mapping[str, Any]
    origin: Origin
    if_match: str | None
    hint: str | None = None


async def _submitted_once(asked: _Asked, response: Response, services: Services) -> OperationView:
    """The operation: that of the same request before, one that does the same and goes on, or a new one."""
    operations, endpoint = services.store.operations, asked.endpoint
    stored = await operations.find_repeated(endpoint.tenant, asked.origin)
    if stored is None:
        require_match(endpoint, asked.if_match)
        operation, changed = new_operation(
            asked.verb, endpoint, asked.choices, origin=asked.origin, clock=services.clock, ids=services.ids
        )
        stored = await find_going_on(operation, endpoint, operations)
    if stored is None:
        stored = (await operations.submit(replace(operation, hint=asked.hint), endpoint=changed)).operation
        services.wake_worker()
    point_to(response, stored.id)
    return operation_view(stored, endpoint, services.clock.now())


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


async def _rotated(operation: Operation, secret: str | None, services: Services) -> KeyRotationView:
    keys, asked = services.store.keys, operation.request
    view = operation_view(operation, None, services.clock.now())
    return KeyRotationView(
        **{**dict(view), "hint": view.hint if secret else _REPEATED},
        secret=secret,
        key=key_view(await keys.get(KeyId(asked["key"]))),
        replaced=tuple([key_view(await keys.get(KeyId(one["key"]))) for one in asked["replaced"]]),
    )

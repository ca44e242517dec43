"""Endpoints: ask for one, look at it, give it up. Every change is an operation that is answered at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response

from provisioner.admission.form import RequestForm
from provisioner.api.admit import admit_request, require_ready_tenant, text_of
from provisioner.api.body import read_json
from provisioner.api.credentials import ServicesDependency, require_or_customer, require_or_serving_customer
from provisioner.api.customer import customer_view
from provisioner.api.find import ended_delete, find_endpoint, listed_tenant, sees, subject_of
from provisioner.api.preconditions import IfMatch, entity_tag, require_match
from provisioner.api.readable import readable
from provisioner.api.routes.parameters import PagingQuery, TenantQuery, cursor_of
from provisioner.api.routes.schemas import UNCHANGED, body_of
from provisioner.api.routes.submit import IdempotencyKey, origin_of, point_to
from provisioner.api.served import as_served
from provisioner.api.services import Services
from provisioner.api.views import endpoint_view, listed_view, operation_view
from provisioner.domain.access import Principal, Scope
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.domain.finding import Finding
from provisioner.domain.operation import Operation
from provisioner.domain.origin import Origin
from provisioner.endpoints.pool import require_unused
from provisioner.endpoints.submit import new_create, new_delete
from provisioner.wire.endpoint import CustomerEndpointView, EndpointPage, EndpointView
from provisioner.wire.operation import OperationView

router = APIRouter(tags=["endpoints"])

Reader = Annotated[Principal, require_or_customer(Scope.ENDPOINTS_READ)]
Maker = Annotated[Principal, require_or_serving_customer(Scope.ENDPOINTS_WRITE)]


@router.post("/endpoints", status_code=202, openapi_extra=body_of(RequestForm))
async def create_endpoint(
    request: Request, response: Response, services: ServicesDependency, caller: Maker, idempotency_key: IdempotencyKey
) -> OperationView | CustomerEndpointView:
    """Ask for an endpoint, whose id is the operation's `subject`. The same Idempotency-Key with the same body answers
    the same operation; a customer is answered with the endpoint alone."""
    raw = await read_json(request)
    operation = await _submitted_create(raw, origin_of(request, idempotency_key, raw), services, caller)
    stored = await subject_of(operation, services.store)
    if caller.is_customer:
        return _accepted_by_customer(stored, operation.subject, response)
    point_to(response, operation.id)
    return operation_view(operation, stored, services.clock.now())


@router.get("/endpoints")
async def list_endpoints(
    services: ServicesDependency, caller: Reader, paging: PagingQuery, tenant: TenantQuery = None
) -> EndpointPage:
    """Every endpoint that the key reaches, by tenant and name, without their stages."""
    of_tenant = await listed_tenant(tenant, services.store, caller)
    found = await services.store.endpoints.page(tenant=of_tenant, after=paging.after, limit=paging.limit)
    seen = await as_served((row for row in readable(found.rows) if sees(caller, row)), services.store)
    items = tuple(customer_view(endpoint) if caller.is_customer else listed_view(endpoint) for endpoint in seen)
    return EndpointPage(items=items, next_cursor=cursor_of(found.next))


@router.get("/endpoints/{reference:path}", responses=UNCHANGED)
async def get_endpoint(
    reference: str, response: Response, services: ServicesDependency, caller: Reader
) -> EndpointView | CustomerEndpointView:
    """One endpoint by its id or by `tenant/name`, with an `ETag` for changes on condition."""
    endpoint = await find_endpoint(reference, services.store, caller)
    response.headers["ETag"] = entity_tag(endpoint)
    served = await as_served((endpoint,), services.store)
    return _view(served[0], caller, services)


@router.delete("/endpoints/{reference:path}", status_code=202)
async def delete_endpoint(
    reference: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Maker,
    idempotency_key: IdempotencyKey,
    if_match: IfMatch = None,
) -> OperationView | CustomerEndpointView:
    """Give an endpoint up, in whatever state it is. One that is being deleted, or was, answers that operation; a
    customer is answered with the endpoint, or with 404 once it is gone."""
    now = services.clock.now()
    try:
        endpoint = await find_endpoint(reference, services.store, caller)
    except NotFoundError:
        ended = None if caller.is_customer else await ended_delete(reference, services.store, caller)
        if ended is None:
            raise
        point_to(response, ended.id)
        return operation_view(ended, None, now)
    operation = await _delete(endpoint, origin_of(request, idempotency_key, endpoint.id), if_match, services)
    if caller.is_customer:
        gone = replace(endpoint, phase=Phase.DELETING)
        return _accepted_by_customer(gone, endpoint.id, response)
    point_to(response, operation.id)
    return operation_view(operation, endpoint, now)


def _view(endpoint: Endpoint, caller: Principal, services: Services) -> EndpointView | CustomerEndpointView:
    return customer_view(endpoint) if caller.is_customer else endpoint_view(endpoint, services.clock.now())


async def _submitted_create(raw: Any, origin: Origin, services: Services, caller: Principal) -> Operation:
    """The operation that makes the endpoint: a new one, or that of the same request before."""
    tenant = text_of(raw, "tenant")
    if tenant and caller.reaches(tenant) and (known := await services.store.operations.find_repeated(tenant, origin)):
        return known
    wanted, plan = await admit_request(raw, services, caller, endpoint_id=services.ids.endpoint())
    _require_own_team(wanted.team, caller)
    await require_ready_tenant(wanted.tenant, services)
    operation, endpoint = new_create(wanted, plan, origin=origin, clock=services.clock, ids=services.ids)
    submitted = await services.store.operations.submit(operation, endpoint=endpoint)
    services.wake_worker()
    return submitted.operation


def _accepted_by_customer(endpoint: Endpoint | None, subject: str, response: Response) -> CustomerEndpointView:
    """The endpoint, and where it can be looked at. NotFoundError when a repeated request names one that is gone."""
    if endpoint is None:
        raise NotFoundError(f"finding endpoint: it was deleted meanwhile: {subject}")
    response.headers["Location"] = f"/v1/endpoints/{endpoint.id}"
    return customer_view(endpoint)


def _require_own_team(team: str | None, caller: Principal) -> None:
    """Let a caller pass whose team the new endpoint is for: it would not see any other. RejectedError."""
    if caller.team not in (None, team):
        message = "reading team: the key is another team's"
        findings = (Finding(reason="InvalidValue", message=message, field="team", hint=f"name team `{caller.team}`"),)
        raise RejectedError("admitting endpoint: 1 finding(s)", reason="InvalidRequest", findings=findings)


async def _delete(endpoint: Endpoint, origin: Origin, if_match: str | None, services: Services) -> Operation:
    """The operation that gives it up: that of the same request before, the one that goes on, or a new one."""
    if known := await services.store.operations.find_repeated(endpoint.tenant, origin):
        return known
    if endpoint.phase is Phase.DELETING:
        current = await services.store.operations.get(endpoint.operation)
        if not current.state.is_final:
            return current
    require_match(endpoint, if_match)
    if endpoint.plan.pool == endpoint.id:
        require_unused(endpoint, await services.store.endpoints.list())
    operation, deleting = new_delete(endpoint, origin=origin, clock=services.clock, ids=services.ids)
    submitted = await services.store.operations.submit(operation, endpoint=deleting)
    services.wake_worker()
    services.wake_reconciler()
    return submitted.operation

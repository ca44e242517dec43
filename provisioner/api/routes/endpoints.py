"""Endpoints: ask for one, look at it, give it up. Every change is an operation that is answered at once."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from provisioner.admission.form import RequestForm
from provisioner.api.admit import admit_request, require_ready_tenant
from provisioner.api.body import read_json
from provisioner.api.credentials import ServicesDependency
from provisioner.api.find import ended_delete, find_endpoint, subject_of
from provisioner.api.readable import readable
from provisioner.api.routes.parameters import TenantQuery
from provisioner.api.routes.schemas import body_of
from provisioner.api.routes.submit import IdempotencyKey, origin_of, point_to
from provisioner.api.services import Services
from provisioner.api.views import endpoint_view, operation_view
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.errors import NotFoundError
from provisioner.domain.operation import Operation
from provisioner.endpoints.submit import new_create, new_delete
from provisioner.wire.endpoint import EndpointAccepted, EndpointView
from provisioner.wire.operation import OperationView

router = APIRouter(tags=["endpoints"])


@router.post("/endpoints", status_code=202, openapi_extra=body_of(RequestForm))
async def create_endpoint(
    request: Request, response: Response, services: ServicesDependency, idempotency_key: IdempotencyKey
) -> EndpointAccepted:
    """Ask for an endpoint. The same Idempotency-Key with the same body answers the same operation."""
    raw = await read_json(request)
    wanted, plan = await admit_request(raw, services, endpoint_id=services.ids.endpoint())
    await require_ready_tenant(wanted.tenant, services)
    operation, endpoint = new_create(
        wanted,
        plan,
        origin=origin_of(request, idempotency_key, raw),
        clock=services.clock,
        ids=services.ids,
    )
    submitted = await services.store.operations.submit(operation, endpoint=endpoint)
    services.wake_worker()
    point_to(response, submitted.operation.id)
    stored = endpoint if submitted.is_new else await subject_of(submitted.operation, services.store)
    now = services.clock.now()
    return EndpointAccepted(
        operation=operation_view(submitted.operation, stored, now),
        endpoint=endpoint_view(stored, now) if stored else None,
    )


@router.get("/endpoints")
async def list_endpoints(services: ServicesDependency, tenant: TenantQuery = None) -> list[EndpointView]:
    """Every endpoint, by tenant and name."""
    now = services.clock.now()
    return [endpoint_view(endpoint, now) for endpoint in readable(await services.store.endpoints.browse(tenant=tenant))]


@router.get("/endpoints/{reference:path}")
async def get_endpoint(reference: str, services: ServicesDependency) -> EndpointView:
    """One endpoint by its id or by `tenant/name`."""
    return endpoint_view(await find_endpoint(reference, services.store), services.clock.now())


@router.delete("/endpoints/{reference:path}", status_code=202)
async def delete_endpoint(
    reference: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    idempotency_key: IdempotencyKey,
) -> OperationView:
    """Give an endpoint up, in whatever state it is. One that is being deleted, or was, answers that operation."""
    now = services.clock.now()
    try:
        endpoint = await find_endpoint(reference, services.store)
    except NotFoundError:
        ended = await ended_delete(reference, services.store)
        if ended is None:
            raise
        point_to(response, ended.id)
        return operation_view(ended, None, now)
    operation = await _delete(endpoint, request, services, idempotency_key)
    point_to(response, operation.id)
    return operation_view(operation, endpoint, now)


async def _delete(endpoint: Endpoint, request: Request, services: Services, idempotency_key: str) -> Operation:
    if endpoint.phase is Phase.DELETING:
        current = await services.store.operations.get(endpoint.operation)
        if not current.state.is_final:
            return current
    operation, deleting = new_delete(
        endpoint,
        origin=origin_of(request, idempotency_key, endpoint.id),
        clock=services.clock,
        ids=services.ids,
    )
    submitted = await services.store.operations.submit(operation, endpoint=deleting)
    services.wake_worker()
    services.wake_reconciler()
    return submitted.operation

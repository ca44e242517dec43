"""What is left of endpoints that nobody has any more: listed as workers found it, and removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Request, Response

from provisioner.admission.verbs import EmptyForm
from provisioner.api.body import read_asked, read_form
from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.find import find_endpoint, narrowed
from provisioner.api.readable import readable
from provisioner.api.routes.parameters import PagingQuery, TenantQuery, cursor_of
from provisioner.api.routes.schemas import body_of
from provisioner.api.routes.submit import IdempotencyKey, origin_of, point_to
from provisioner.api.services import Services
from provisioner.api.views import operation_view
from provisioner.domain.access import Principal, Scope
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import NotFoundError
from provisioner.domain.operation import Operation, Verb
from provisioner.domain.orphan import Orphan
from provisioner.endpoints.reclaim import new_reclaim
from provisioner.wire.operation import OperationView
from provisioner.wire.orphan import OrphanView
from provisioner.wire.page import Page

router = APIRouter(tags=["endpoints"])

_ENDS = (Verb.ENDPOINT_RECLAIM, Verb.ENDPOINT_DELETE)


@router.get("/orphans")
async def list_orphans(
    services: ServicesDependency,
    caller: Annotated[Principal, require(Scope.ENDPOINTS_READ)],
    paging: PagingQuery,
    tenant: TenantQuery = None,
) -> Page[OrphanView]:
    """Everything that stands outside for an endpoint without a row, as a worker found it within the last minutes."""
    found = await services.store.orphans.page(tenant=narrowed(tenant, caller), after=paging.after, limit=paging.limit)
    now = services.clock.now()
    items = [
        OrphanView(
            place=orphan.place,
            kind=orphan.kind,
            name=orphan.name,
            endpoint=orphan.endpoint,
            tenant=orphan.tenant,
            since=orphan.since,
            age_seconds=(now - orphan.since).total_seconds() if orphan.since else None,
        )
        for orphan in readable(found.rows)
    ]
    return Page(items=tuple(items), next_cursor=cursor_of(found.next))


@router.post("/endpoints/{reference:path}:reclaim", status_code=202, openapi_extra=body_of(EmptyForm))
async def reclaim_endpoint(
    reference: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Annotated[Principal, require(Scope.ENDPOINTS_WRITE)],
    idempotency_key: IdempotencyKey,
) -> OperationView:
    """Remove whatever is left of an endpoint that was given up, by its id, with its row or without; it succeeds when a
    look finds nothing more. One that goes on, or by which it went, is answered."""
    read_form(EmptyForm, await read_asked(request))
    row = await _row_of(reference, services, caller)
    subject = str(row.id) if row else reference
    orphans = [one for one in await services.store.orphans.of_endpoint(subject) if caller.reaches(one.tenant)]
    stored = await _ending(subject, row, orphans, services, caller)
    if stored is None:
        operation, deleting = new_reclaim(
            subject,
            row,
            tenant=row.tenant if row else next((orphan.tenant for orphan in orphans if orphan.tenant), ""),
            places=_places(row, orphans, services),
            origin=origin_of(request, idempotency_key, subject),
            clock=services.clock,
            ids=services.ids,
        )
        stored = (await services.store.operations.submit(operation, endpoint=deleting)).operation
        services.wake_worker()
        services.wake_reconciler()
    point_to(response, stored.id)
    return operation_view(stored, row, services.clock.now())


async def _row_of(reference: str, services: Services, caller: Principal) -> Endpoint | None:
    try:
        return await find_endpoint(reference, services.store, caller)
    except NotFoundError:
        return None


async def _ending(
    subject: str, row: Endpoint | None, orphans: Sequence[Orphan], services: Services, caller: Principal
) -> Operation | None:
    """The operation that is reclaiming it, or by which it went. NotFoundError for what nobody knows of."""
    newest = await services.store.operations.list(tenant=caller.tenant)
    ends = [operation for operation in newest if operation.subject == subject and operation.verb in _ENDS]
    going_on = [one for one in ends if one.verb is Verb.ENDPOINT_RECLAIM and not one.state.is_final]
    if going_on:
        return going_on[0]
    if row is None and not orphans:
        if ends:
            return ends[0]
        raise NotFoundError(
            f"reclaiming: nothing is known to be left of: {subject[:63]}",
            hint="name an endpoint by its id; `tenantry orphan list` shows what is left of those that are gone",
        )
    return None


def _places(row: Endpoint | None, orphans: Sequence[Orphan], services: Services) -> tuple[tuple[str, str], ...]:
    """Control plane clusters and namespaces of projects in which something may be."""
    planes = services.site.control_planes
    found = {(plane, namespace) for orphan in orphans for plane, _, namespace in [orphan.place.partition("/")]}
    found = {(plane, namespace) for plane, namespace in found if plane in planes}
    if row is not None:
        placement = row.plan.placement
        found.add((placement.control_plane, f"{services.site.project_namespace_prefix}{placement.project}"))
    return tuple(sorted(place for place in found if place[1] != services.site.gateway.namespace))

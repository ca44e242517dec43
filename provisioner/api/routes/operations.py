"""Operations: what is being changed, waiting for it, and cancelling it."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.find import find_operation, narrowed, subject_of
from provisioner.api.readable import readable
from provisioner.api.routes.parameters import Moment, PagingQuery, TenantQuery, cursor_of
from provisioner.api.routes.submit import IdempotencyKey, origin_of, point_to
from provisioner.api.services import Services
from provisioner.api.views import operation_view
from provisioner.domain.access import Principal, Scope
from provisioner.operations.cancel import require_cancellable
from provisioner.wire.operation import OperationView
from provisioner.wire.page import Page

router = APIRouter(tags=["operations"])

Reader = Annotated[Principal, require(Scope.OPERATIONS_READ)]

MAX_WAIT_SECONDS = 30.0
POLL_SECONDS = 0.1


@router.get("/operations")
async def list_operations(
    services: ServicesDependency, caller: Reader, paging: PagingQuery, tenant: TenantQuery = None
) -> Page[OperationView]:
    """The newest first, without the stages of their endpoints."""
    now = services.clock.now()
    found = await services.store.operations.page(
        tenant=narrowed(tenant, caller), after=paging.after, limit=paging.limit
    )
    items = tuple(operation_view(operation, None, now) for operation in readable(found.rows))
    return Page(items=items, next_cursor=cursor_of(found.next))


@router.get("/operations/{operation}")
async def get_operation(
    operation: str,
    services: ServicesDependency,
    caller: Reader,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS, description="seconds to wait for a change")] = 0.0,
    seen: Annotated[Moment | None, Query(description="the `updatedAt` that the caller knows")] = None,
) -> OperationView:
    """One operation; with `wait`, as soon as it is newer than `seen` or has ended."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    while True:
        view = await _view(operation, services, caller)
        is_news = view.done or seen is None or view.updated_at > seen
        if is_news or loop.time() >= deadline or services.is_stopping():
            return view
        await asyncio.sleep(min(POLL_SECONDS, max(0.0, deadline - loop.time())))


@router.post("/operations/{operation}:cancel", status_code=202)
async def cancel_operation(
    operation: str,
    request: Request,
    response: Response,
    services: ServicesDependency,
    caller: Annotated[Principal, require(Scope.OPERATIONS_WRITE)],
    idempotency_key: IdempotencyKey,
) -> OperationView:
    """Undo an operation from wherever it came to: it is `cancelling` until what it had begun is gone, then `cancelled`.

    Again changes nothing. 409 `OperationEnded` when it has succeeded or failed, 409 `NotCancellable` for those that
    only remove.
    """
    found = await find_operation(operation, services.store, caller)
    if not found.state.is_final:
        require_cancellable(found)
    origin = origin_of(request, idempotency_key, None)
    cancelled = await services.store.operations.cancel(
        found.id, services.clock.now(), actor=origin.actor, request_id=origin.request_id
    )
    services.wake_worker()
    point_to(response, cancelled.id)
    return await _view(cancelled.id, services, caller)


async def _view(operation_id: str, services: Services, caller: Principal) -> OperationView:
    operation = await find_operation(operation_id, services.store, caller)
    endpoint = await subject_of(operation, services.store)
    return operation_view(operation, endpoint, services.clock.now())

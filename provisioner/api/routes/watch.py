"""Watching endpoints: server-sent events of every change, which go on after a break where they ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import StreamingResponse

from provisioner.api.credentials import ServicesDependency, authenticate, require_or_customer
from provisioner.api.customer import customer_view
from provisioner.api.find import listed_tenant, sees
from provisioner.api.routes.parameters import TenantQuery
from provisioner.api.services import Services
from provisioner.api.views import endpoint_view
from provisioner.api.watch import EndpointFeed, Told
from provisioner.domain.access import Principal, Scope
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import RejectedError, TenantryError

router = APIRouter(tags=["endpoints"])

EVENTS_CONTENT_TYPE = "text/event-stream"

LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=32, description="`id` of the last event that was seen")
]

_EVENT = {
    "type": "object",
    "description": "one of the events: `data` is the endpoint, or `id` and `tenant` of one that was removed, or empty",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]{1,18}$"},
        "event": {"enum": ["changed", "removed", "synced", "reset"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}


@router.get(
    "/endpoints:watch",
    response_class=StreamingResponse,
    responses={200: {"content": {EVENTS_CONTENT_TYPE: {"schema": _EVENT}}}},
)
async def watch_endpoints(
    request: Request,
    services: ServicesDependency,
    caller: Annotated[Principal, require_or_customer(Scope.ENDPOINTS_READ)],
    tenant: TenantQuery = None,
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    """Every endpoint that the key reaches, then every change of one: `changed` with the endpoint, `removed` with its
    id, `synced` once all were told. With `Last-Event-ID` only what came after; `reset` says that this is no longer
    known, and that everything is told anew. Ends when the key stops working."""
    feed: EndpointFeed = request.app.state.endpoints
    of_tenant = await listed_tenant(tenant, services.store, caller)
    events = feed.watch(_version(last_event_id), tenant=of_tenant)
    first = await anext(events, None)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    lines = _lines(request, services, caller, first, events)
    return StreamingResponse(lines, media_type=EVENTS_CONTENT_TYPE, headers=headers)


async def _lines(
    request: Request, services: Services, caller: Principal, first: Told | None, events: AsyncIterator[Told]
) -> AsyncIterator[bytes]:
    """The events on the wire. An answer that has begun cannot turn into an error: it ends, and the caller goes on
    with the last id, to be told then what is wrong."""
    if first is not None:
        yield _event(first, caller, services)
    try:
        async for told in events:
            await authenticate(request)
            yield _event(told, caller, services)
    except TenantryError:
        return


def _event(told: Told, caller: Principal, services: Services) -> bytes:
    """One event; nothing for one about what the caller does not reach."""
    if told.what == "alive":
        return b": alive\n\n"
    data = "{}"
    if told.endpoint is not None:
        if not sees(caller, told.endpoint):
            return b""
        data = _shown(told.endpoint, caller, services)
    elif told.removed is not None:
        if not _may_have_seen(caller, told.removed):
            return b""
        data = json.dumps({"id": told.removed, "tenant": told.tenant})
    position = f"id: {told.version}\n" if told.version else ""
    return f"{position}event: {told.what}\ndata: {data}\n\n".encode()


def _shown(endpoint: Endpoint, caller: Principal, services: Services) -> str:
    if caller.is_customer:
        return customer_view(endpoint).model_dump_json(by_alias=True)
    return endpoint_view(endpoint, services.clock.now()).model_dump_json(by_alias=True)


def _may_have_seen(caller: Principal, endpoint: str) -> bool:
    """Whether an endpoint that is gone was one of the caller's, as far as that is still known."""
    return caller.team is None and (caller.endpoints is None or endpoint in caller.endpoints)


def _version(last_event_id: str | None) -> int | None:
    if last_event_id is None:
        return None
    if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) <= 18):
        raise RejectedError(
            "reading Last-Event-ID: it is none of ours",
            reason="InvalidCursor",
            hint="send the `id` of the last event, as it is, or none",
        )
    return int(last_event_id)

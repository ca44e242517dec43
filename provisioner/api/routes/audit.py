"""The audit log: looked through page by page, or exported whole as JSON lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import StreamingResponse

from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.find import narrowed
from provisioner.api.routes.parameters import Moment, PagingQuery, TenantQuery, cursor_of, number_of
from provisioner.domain.access import Principal, Scope
from provisioner.domain.audit import AuditEvent, AuditFilter
from provisioner.store.interface.records import AuditStore
from provisioner.wire.audit import AuditEventView
from provisioner.wire.page import Page

router = APIRouter(tags=["audit"])

LINES_CONTENT_TYPE = "application/jsonl"
EXPORTED_AT_ONCE = 500

Reader = Annotated[Principal, require(Scope.AUDIT_READ)]
_Word = Annotated[str | None, Query(max_length=200)]


async def wanted_events(
    caller: Reader,
    tenant: TenantQuery = None,
    since: Annotated[Moment | None, Query(description="at this moment or later")] = None,
    until: Annotated[Moment | None, Query(description="before this moment")] = None,
    actor: _Word = None,
    action: _Word = None,
    subject: _Word = None,
) -> AuditFilter:
    """The filter of a request, as far as the caller reaches."""
    reached = narrowed(tenant, caller)
    return AuditFilter(since=since, until=until, tenant=reached, actor=actor, action=action, subject=subject)


Wanted = Annotated[AuditFilter, Depends(wanted_events)]


@router.get("/audit")
async def list_events(services: ServicesDependency, wanted: Wanted, paging: PagingQuery) -> Page[AuditEventView]:
    """Events, newest first."""
    found = await services.store.audit.newest(wanted, before=number_of(paging.after), limit=paging.limit + 1)
    page = found[: paging.limit]
    following = (str(page[-1].id),) if len(found) > paging.limit else None
    return Page(items=tuple(AuditEventView.model_validate(event) for event in page), next_cursor=cursor_of(following))


@router.get(
    "/audit/export",
    response_class=StreamingResponse,
    responses={200: {"content": {LINES_CONTENT_TYPE: {"schema": {"type": "string"}}}}},
)
async def export_events(services: ServicesDependency, wanted: Wanted) -> StreamingResponse:
    """Every event until now, oldest first, one JSON object a line. Of any length: only some are held at a time."""
    until = min(filter(None, (wanted.until, services.clock.now())))
    lines = _lines(services.store.audit, replace(wanted, until=until))
    return StreamingResponse(lines, media_type=LINES_CONTENT_TYPE, headers={"Cache-Control": "no-store"})


async def _lines(store: AuditStore, wanted: AuditFilter) -> AsyncIterator[bytes]:
    last = 0
    while events := await store.oldest(wanted, after=last, limit=EXPORTED_AT_ONCE):
        yield b"".join(map(_line, events))
        last = events[-1].id


def _line(event: AuditEvent) -> bytes:
    return AuditEventView.model_validate(event).model_dump_json(by_alias=True).encode() + b"\n"

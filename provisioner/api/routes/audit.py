"""The audit log: looked through page by page, or exported whole as JSON lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import AwareDatetime
from starlette.responses import StreamingResponse

from provisioner.api.credentials import ServicesDependency, require
from provisioner.api.find import narrowed
from provisioner.api.routes.parameters import TenantQuery
from provisioner.domain.access import Principal, Scope
from provisioner.domain.audit import AuditEvent, AuditFilter
from provisioner.domain.errors import RejectedError
from provisioner.store.interface import AuditStore
from provisioner.wire.audit import AuditEventView, AuditPage

router = APIRouter(tags=["audit"])

LINES_CONTENT_TYPE = "application/jsonl"
MAX_PAGE = 1000
EXPORTED_AT_ONCE = 500

Reader = Annotated[Principal, require(Scope.AUDIT_READ)]
_Word = Annotated[str | None, Query(max_length=200)]


async def wanted_events(
    caller: Reader,
    tenant: TenantQuery = None,
    since: Annotated[AwareDatetime | None, Query(description="at this moment or later")] = None,
    until: Annotated[AwareDatetime | None, Query(description="before this moment")] = None,
    actor: _Word = None,
    action: _Word = None,
    subject: _Word = None,
) -> AuditFilter:
    """The filter of a request, as far as the caller reaches."""
    reached = narrowed(tenant, caller)
    return AuditFilter(since=since, until=until, tenant=reached, actor=actor, action=action, subject=subject)


Wanted = Annotated[AuditFilter, Depends(wanted_events)]


@router.get("/audit")
async def list_events(
    services: ServicesDependency,
    wanted: Wanted,
    cursor: Annotated[str | None, Query(max_length=32, description="`nextCursor` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> AuditPage:
    """Events, newest first."""
    found = await services.store.audit.newest(wanted, before=_position(cursor), limit=limit + 1)
    is_last = len(found) <= limit
    page = found[:limit]
    return AuditPage(
        items=tuple(AuditEventView.model_validate(event) for event in page),
        next_cursor=None if is_last else str(page[-1].id),
    )


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


def _position(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 18):
        raise RejectedError(
            "reading cursor: it is none of ours",
            reason="InvalidCursor",
            hint="take `nextCursor` of the page before, as it is",
        )
    return int(cursor)

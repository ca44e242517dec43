"""Gateways' doors: the route snapshot. `create_app` asks for the gateways' credential before every route here."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from provisioner.api.snapshots import SnapshotFeed, entity_tag
from provisioner.domain.errors import RetryableError

router = APIRouter()

MAX_WAIT_SECONDS = 60.0


@router.get("/snapshots")
async def get_snapshot(
    request: Request,
    if_none_match: Annotated[str | None, Header()] = None,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS)] = 0.0,
) -> Response:
    """The newest snapshot; 304 when it still is the one with the entity tag after `wait` seconds."""
    feed: SnapshotFeed = request.app.state.snapshots
    newest = await feed.wait_for_other_than(if_none_match, seconds=wait)
    if newest is None:
        raise RetryableError("reading the snapshot: none was published yet", reason="NoSnapshot")
    headers = {"ETag": entity_tag(newest), "Cache-Control": "no-store"}
    if entity_tag(newest) == if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(newest.body, media_type="application/json", headers=headers)

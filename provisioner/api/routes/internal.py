"""Gateways' doors: the route snapshot, and what requests used. `create_app` asks for the gateways' credential before
every route here."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from provisioner.admission.usage import UsageBatchForm
from provisioner.api.body import read_form, read_json
from provisioner.api.credentials import ServicesDependency
from provisioner.api.snapshots import SnapshotFeed, entity_tag
from provisioner.domain.errors import RetryableError
from provisioner.metering.batch import count_batch

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


@router.post("/usage")
async def count_usage(request: Request, services: ServicesDependency) -> dict[str, bool]:
    """Count a batch of records of requests. `counted` is false for one that was counted before: sending it again, when
    no answer came, is always right. A batch with a record that is not as it should be is refused whole."""
    form = read_form(UsageBatchForm, await read_json(request))
    records = [record.record() for record in form.records]
    counted = await count_batch(form.batch, records, services.store.usage, now=services.clock.now())
    return {"counted": counted}

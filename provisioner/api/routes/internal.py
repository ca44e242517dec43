"""Gateways' doors: the route snapshot, endpoints to wake, what requests used, budgets of what goes outside.

`create_app` asks for the gateways' credential before every route here.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response

from provisioner.admission.budget import BudgetForm, ReturnForm
from provisioner.admission.usage import UsageBatchForm
from provisioner.admission.wake import WakeForm
from provisioner.api.body import read_form, read_json
from provisioner.api.credentials import ServicesDependency
from provisioner.api.gateways import GATEWAY_HEADER, GatewayRoll
from provisioner.api.snapshots import SnapshotFeed, entity_tag
from provisioner.api.waking import wake
from provisioner.domain.errors import NotFoundError, RetryableError
from provisioner.domain.ids import EndpointId
from provisioner.domain.route import GATEWAY_LIVES
from provisioner.metering.batch import count_batch

router = APIRouter()

MAX_WAIT_SECONDS = 60.0


@router.get("/snapshots")
async def get_snapshot(
    request: Request,
    if_none_match: Annotated[str | None, Header()] = None,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS)] = 0.0,
    gateway: Annotated[str | None, Header(alias=GATEWAY_HEADER)] = None,
) -> Response:
    """The newest snapshot; 304 when it still is the one with the entity tag after `wait` seconds."""
    roll: GatewayRoll = request.app.state.gateways
    await roll.note(gateway)
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
    now = services.clock.now()
    counted = await count_batch(form.batch, records, services.store.usage, now=now)
    if counted.keys:
        await services.store.keys.tell_use(counted.keys, now)
    return {"counted": counted.is_new}


@router.post("/wake", status_code=202)
async def wake_endpoint(request: Request, services: ServicesDependency) -> dict[str, str]:
    """Wake an endpoint that sleeps: the operation that does, the same one however often it is asked for."""
    form = read_form(WakeForm, await read_json(request))
    operation = await wake(EndpointId(form.endpoint), services, request_id=request.state.request_id)
    return {"operation": operation.id, "verb": operation.verb.value, "state": operation.state.value}


@router.post("/budget")
async def reserve_budget(request: Request, services: ServicesDependency) -> dict[str, str | int]:
    """Reserve requests of a policy's budget, perhaps none, until its period ends. The same reservation is answered the
    same: sending it again, when no answer came, is always right."""
    form = read_form(BudgetForm, await read_json(request))
    policy = services.site.fallback_policies.get(form.policy)
    if policy is None:
        raise NotFoundError(f"reserving a budget: the site has no policy named: {form.policy}", reason="UnknownPolicy")
    now = services.clock.now()
    gateways = await services.store.gateways.count(now - GATEWAY_LIVES)
    given = await services.store.budgets.reserve(form.reservation, policy, form.requests, now, gateways=gateways)
    return {"reservation": given.id, "requests": given.requests, "until": given.until.isoformat()}


@router.post("/budget/return", status_code=204)
async def return_budget(request: Request, services: ServicesDependency) -> None:
    """Give back what was not sent, once: the gateway ends, or its policy is no longer wanted."""
    form = read_form(ReturnForm, await read_json(request))
    await services.store.budgets.give_back(form.reservation, form.unused)


@router.delete("/gateways/{gateway}", status_code=204)
async def leave(gateway: Annotated[str, Path(max_length=64)], request: Request) -> None:
    """The gateway has ended: the others take its share at once."""
    roll: GatewayRoll = request.app.state.gateways
    await roll.leave(gateway)

"""The gateways' door for endpoints that sleep: one operation wakes one, however many gateways ask."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.endpoint import Phase
from provisioner.domain.ids import EndpointId
from provisioner.domain.operation import OperationState, Verb
from tests.store.examples import SteppedClock
from tests.unit.api.conftest import GATEWAY_KEY, REQUEST, Wakes, claim, end, idempotent


async def ask(stranger: httpx2.AsyncClient, endpoint: object) -> httpx2.Response:
    """Ask as a gateway does."""
    headers = {"Authorization": f"Bearer {GATEWAY_KEY}"}
    return await stranger.post("/internal/wake", json={"endpoint": endpoint, "waiting": 1}, headers=headers)


async def made_in(phase: Phase, operator: httpx2.AsyncClient, services: Services, clock: SteppedClock) -> str:
    """The id of endpoint `chat`, whose creation ended with it in this phase."""
    made = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("e"))
    operation = await claim(services, clock)
    assert operation.lease is not None
    stored = await services.store.endpoints.get(EndpointId(made.json()["subject"]))
    changed = replace(stored, phase=phase)
    await services.store.endpoints.save(changed, operation=operation.id, fence=operation.lease.fence)
    await end(operation, services, clock)
    return stored.id


@pytest.fixture
async def sleeping(operator: httpx2.AsyncClient, acme: str, services: Services, clock: SteppedClock) -> str:
    """The id of endpoint `chat`, which is Ready, with or without replicas."""
    return await made_in(Phase.READY, operator, services, clock)


async def test_one_operation_wakes_an_endpoint_however_many_ask(
    stranger: httpx2.AsyncClient, sleeping: str, services: Services, clock: SteppedClock, wakes: Wakes
) -> None:
    before = wakes.worker
    answers = await asyncio.gather(*(ask(stranger, sleeping) for _ in range(6)))
    assert {answer.status_code for answer in answers} == {202}
    (told,) = {tuple(answer.json().items()) for answer in answers}
    assert dict(told)["verb"] == "endpoint.warm"
    assert wakes.worker == before + 1
    operation = await claim(services, clock)
    assert (operation.verb, operation.actor, operation.id) == (Verb.ENDPOINT_WARM, "gateway", dict(told)["operation"])
    assert (await ask(stranger, sleeping)).json() == dict(told) | {"state": "running"}


@pytest.mark.parametrize("state", [OperationState.SUCCEEDED, OperationState.FAILED])
async def test_a_warm_that_just_ended_is_not_followed_by_another_at_once(
    stranger: httpx2.AsyncClient, sleeping: str, services: Services, clock: SteppedClock, state: OperationState
) -> None:
    first = (await ask(stranger, sleeping)).json()
    await end(await claim(services, clock), services, clock, state=state)
    clock.advance(14)
    assert (await ask(stranger, sleeping)).json() == first | {"state": state}
    clock.advance(1)
    assert (await ask(stranger, sleeping)).json()["operation"] != first["operation"]


@pytest.mark.parametrize(("phase", "reason"), [(Phase.DRAINED, "EndpointDrained"), (Phase.FAILED, "EndpointFailed")])
async def test_what_was_drained_or_never_came_to_be_is_not_woken(
    operator: httpx2.AsyncClient,
    stranger: httpx2.AsyncClient,
    acme: str,
    services: Services,
    clock: SteppedClock,
    phase: Phase,
    reason: str,
) -> None:
    answer = await ask(stranger, await made_in(phase, operator, services, clock))
    assert (answer.status_code, answer.json()["reason"]) == (409, reason)


async def test_what_goes_on_already_is_answered(
    stranger: httpx2.AsyncClient, operator: httpx2.AsyncClient, sleeping: str
) -> None:
    gone = (await operator.delete(f"/v1/endpoints/{sleeping}", headers=idempotent("d"))).json()
    assert (await ask(stranger, sleeping)).json()["operation"] == gone["id"]


async def test_bad_questions_are_refused(stranger: httpx2.AsyncClient) -> None:
    for endpoint, status in (("ep-none", 404), ("chat", 422), (7, 422), (None, 422)):
        assert (await ask(stranger, endpoint)).status_code == status
    assert (await stranger.post("/internal/wake", json={"endpoint": "ep-a"})).status_code == 401

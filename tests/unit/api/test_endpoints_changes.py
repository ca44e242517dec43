"""Endpoints over REST: scaled and updated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.ids import EndpointId
from provisioner.domain.traffic import Traffic
from tests.store.examples import SteppedClock
from tests.unit.api.conftest import REQUEST, Wakes, claim, end, idempotent


@pytest.fixture
async def chat(operator: httpx2.AsyncClient, acme: str, services: Services, clock: SteppedClock) -> str:
    """The id of endpoint acme/chat, which is Ready."""
    answer = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("create"))
    endpoint: str = answer.json()["subject"]
    await become(endpoint, Phase.READY, services, clock)
    return endpoint


async def become(endpoint: str, phase: Phase, services: Services, clock: SteppedClock) -> None:
    """End the open operation with the endpoint in this phase."""
    operation = await claim(services, clock)
    assert operation.lease
    row = replace(await row_of(endpoint, services), phase=phase)
    await services.store.endpoints.save(row, operation=operation.id, fence=operation.lease.fence)
    await end(operation, services, clock)


async def row_of(endpoint: str, services: Services) -> Endpoint:
    return await services.store.endpoints.get(EndpointId(endpoint))


async def change(
    operator: httpx2.AsyncClient, verb: str, body: Any, *, key: str = "change", reference: str = "acme/chat"
) -> httpx2.Response:
    return await operator.post(f"/v1/endpoints/{reference}:{verb}", json=body, headers=idempotent(key))


@pytest.mark.parametrize("by", ["id", "name"])
async def test_scaling_stores_what_is_wanted_beside_what_serves(
    operator: httpx2.AsyncClient, chat: str, services: Services, wakes: Wakes, by: str
) -> None:
    """Ledger: AUT-04, AUT-05"""
    before, woken = await row_of(chat, services), wakes.worker
    answer = await change(operator, "scale", {"minReplicas": 2}, reference=chat if by == "id" else "acme/chat")
    assert answer.status_code == 202, answer.text
    operation = answer.json()
    assert answer.headers["Location"] == f"/v1/operations/{operation['id']}"
    assert (operation["verb"], operation["state"], operation["subject"]) == ("endpoint.scale", "pending", chat)
    row = await row_of(chat, services)
    assert row.change and row.change.plan.runtime == replace(before.plan.runtime, min_replicas=2)
    assert (row.plan, row.request, row.phase) == (before.plan, before.request, Phase.READY)
    assert row.generation == before.generation + 1
    shown = (await operator.get("/v1/endpoints/acme/chat")).json()
    assert shown["scaling"] == {"minReplicas": 1, "maxReplicas": 2}
    assert shown["change"]["scaling"] == {"minReplicas": 2, "maxReplicas": 2}
    assert shown["change"]["revision"] == shown["identifiers"]["revision"]
    assert wakes.worker == woken + 1


async def test_updating_plans_the_request_with_what_is_changed(
    operator: httpx2.AsyncClient, chat: str, services: Services
) -> None:
    """Ledger: LIF-05"""
    answer = await change(operator, "update", {"serving": {"contextSize": 1024}})
    assert (answer.status_code, answer.json()["verb"]) == (202, "endpoint.update"), answer.text
    row = await row_of(chat, services)
    assert row.change and row.change.request == replace(row.request, serving={"contextSize": 1024})
    assert row.change.plan.runtime.revision != row.plan.runtime.revision


async def test_traffic_alone_holds_at_once_and_brings_no_other_pods(
    operator: httpx2.AsyncClient, chat: str, services: Services, wakes: Wakes
) -> None:
    """GW-10"""
    before, woken = await row_of(chat, services), wakes.reconciler
    answer = await change(operator, "update", {"traffic": {"open": True, "maxTokens": 512}})
    assert answer.status_code == 202, answer.text
    row = await row_of(chat, services)
    assert row.plan == replace(before.plan, traffic=Traffic(is_open=True, max_tokens=512))
    shown = (await operator.get("/v1/endpoints/acme/chat")).json()
    assert shown["traffic"] == {"open": True, "balance": None, "maxTokens": 512}
    assert shown["change"]["revision"] == shown["identifiers"]["revision"]
    assert wakes.reconciler > woken


async def test_the_same_key_answers_the_same_operation(operator: httpx2.AsyncClient, chat: str) -> None:
    first = await change(operator, "scale", {"minReplicas": 2})
    again = await change(operator, "scale", {"minReplicas": 2})
    other = await change(operator, "scale", {"maxReplicas": 1})
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    assert (other.status_code, other.json()["reason"]) == (422, "IdempotencyKeyReused")


async def test_a_second_change_is_refused_with_the_first_ones_id(operator: httpx2.AsyncClient, chat: str) -> None:
    first = await change(operator, "scale", {"minReplicas": 2})
    second = await change(operator, "update", {}, key="second")
    assert (second.status_code, second.json()["reason"]) == (409, "OperationInProgress")
    assert first.json()["id"] in second.json()["detail"]


@pytest.mark.parametrize(
    ("verb", "body", "reason", "field"),
    [
        ("scale", {"minReplicas": 3}, "MinAboveMax", "minReplicas"),
        ("scale", {"maxReplicas": 999}, "TooManyReplicas", "maxReplicas"),
        ("scale", {}, "MissingField", "minReplicas"),
        ("update", {"region": "elsewhere"}, "UnknownField", "region"),
        ("update", {"model": "nobody"}, "UnknownModel", "model"),
        ("update", {"serving": {"contextSize": "big"}}, "InvalidParameter", "serving.contextSize"),
    ],
)
async def test_change_that_cannot_be_is_refused_by_field(
    operator: httpx2.AsyncClient, chat: str, services: Services, verb: str, body: Any, reason: str, field: str
) -> None:
    """Ledger: AUT-04"""
    before = await row_of(chat, services)
    answer = await change(operator, verb, body)
    assert answer.status_code == 422, answer.text
    assert (reason, field) in [(finding["reason"], finding["field"]) for finding in answer.json()["findings"]]
    assert await row_of(chat, services) == before


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.DRAINED])
@pytest.mark.parametrize("verb", ["scale", "update"])
async def test_endpoint_in_another_phase_says_why_not(
    operator: httpx2.AsyncClient, acme: str, services: Services, clock: SteppedClock, verb: str, phase: Phase
) -> None:
    """Ledger: LIF-05"""
    created = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("create"))
    early = await change(operator, verb, {"minReplicas": 1} if verb == "scale" else {})
    assert (early.status_code, early.json()["reason"]) == (409, "EndpointCreating")
    assert created.json()["id"] in early.json()["hint"]
    await become(created.json()["subject"], phase, services, clock)
    late = await change(operator, verb, {"minReplicas": 1} if verb == "scale" else {})
    assert (late.status_code, late.json()["reason"]) == (409, f"Endpoint{phase}")
    assert late.json()["hint"]


async def test_endpoint_that_was_changed_since_it_was_read_is_read_again(
    operator: httpx2.AsyncClient, chat: str, services: Services, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = await row_of(chat, services)
    await change(operator, "scale", {"minReplicas": 2})
    await become(chat, Phase.READY, services, clock)

    async def stale(tenant: str, name: str) -> Endpoint:
        return read

    monkeypatch.setattr(services.store.endpoints, "find", stale)
    answer = await change(operator, "update", {}, key="late")
    assert (answer.status_code, answer.json()["reason"]) == (409, "EndpointChanged")


async def test_nobody_changes_what_is_not_there(operator: httpx2.AsyncClient, acme: str) -> None:
    for verb in ("scale", "update"):
        answer = await change(operator, verb, {}, reference="ep-nobody")
        assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")


async def test_a_repeated_request_is_answered_whatever_became_of_its_subject(
    operator: httpx2.AsyncClient, chat: str, services: Services, clock: SteppedClock
) -> None:
    """Ledger: OPS-01. By now its name is taken, its ETag is old, and the endpoint is being deleted."""
    tag = (await operator.get("/v1/endpoints/acme/chat")).headers["ETag"]
    headers = idempotent("scale") | {"If-Match": tag}
    first = await operator.post("/v1/endpoints/acme/chat:scale", json={"minReplicas": 2}, headers=headers)
    await become(chat, Phase.READY, services, clock)
    await operator.delete("/v1/endpoints/acme/chat", headers=idempotent("delete"))
    again = await operator.post("/v1/endpoints/acme/chat:scale", json={"minReplicas": 2}, headers=headers)
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    other = await operator.post("/v1/endpoints/acme/chat:scale", json={"minReplicas": 1}, headers=headers)
    assert (other.status_code, other.json()["reason"]) == (422, "IdempotencyKeyReused")
    created = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("create"))
    assert (created.status_code, created.json()["subject"]) == (202, chat)


@pytest.mark.parametrize(
    ("verb", "body", "other"),
    [("scale", {"minReplicas": 2}, {"minReplicas": 1}), ("update", {"serving": {"contextSize": 1024}}, {})],
)
async def test_same_change_that_goes_on_is_answered_again_and_another_is_refused(
    operator: httpx2.AsyncClient, chat: str, verb: str, body: dict[str, Any], other: dict[str, Any]
) -> None:
    path = f"/v1/endpoints/{chat}:{verb}"
    first = await operator.post(path, json=body, headers=idempotent("first"))
    again = await operator.post(path, json=body, headers=idempotent("again"))
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"]), again.text
    refused = await operator.post(path, json=other, headers=idempotent("other"))
    assert (refused.status_code, refused.json()["reason"]) == (409, "OperationInProgress"), refused.text
    assert first.json()["id"] in refused.json()["detail"]


async def test_reading_again_what_is_unchanged_answers_304_and_nothing_more(
    operator: httpx2.AsyncClient, stranger: httpx2.AsyncClient, chat: str
) -> None:
    path = f"/v1/endpoints/{chat}"
    read = await operator.get(path)
    tag = read.headers["ETag"]
    for known in (tag, f'"0", W/{tag}', "*"):
        same = await operator.get(path, headers={"If-None-Match": known})
        assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
        assert "X-Request-ID" in same.headers and "Content-Length" not in same.headers
    assert (await stranger.get(path, headers={"If-None-Match": tag})).status_code == 401
    await operator.post(f"{path}:scale", json={"minReplicas": 2}, headers=idempotent("scale"))
    changed = await operator.get(path, headers={"If-None-Match": tag})
    assert changed.status_code == 200 and changed.headers["ETag"] != tag

"""The client against the real application, and against answers that are not the API's."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.client import endpoint_calls, key_calls, operation_calls, tenant_calls
from provisioner.client.client import AsyncClient, Client
from provisioner.domain.errors import (
    ConflictError,
    InvariantError,
    NotFoundError,
    RejectedError,
    RetryableError,
)
from tests.store.examples import SteppedClock
from tests.unit.api.conftest import OPERATOR_KEY, REQUEST, claim, end


@pytest.fixture
async def client(transport: httpx2.ASGITransport) -> AsyncIterator[AsyncClient]:
    async with AsyncClient("http://api.example.com/", OPERATOR_KEY, transport=transport) as made:
        yield made


def answering(*answers: httpx2.Response | Exception) -> AsyncClient:
    """A client that gets these answers, one after the other."""
    waiting = list(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        last = waiting.pop(0)
        if isinstance(last, Exception):
            raise last
        return last

    return AsyncClient("http://api.example.com", "key", transport=httpx2.MockTransport(answer))


async def test_the_life_of_an_endpoint_through_the_client(client: AsyncClient, acme: str) -> None:
    operation = await client.send(
        tenant_calls.create_tenant("other", display_name="Other", tiers=["dedicated"], idempotency_key="t")
    )
    assert (operation.verb, operation.done) == ("tenant.create", False)
    assert [(tenant.name, tenant.ready) for tenant in await client.collect(tenant_calls.list_tenants())] == [
        ("acme", True),
        ("other", False),
    ]
    assert (await client.send(endpoint_calls.plan_endpoint(REQUEST))).tier_version == "1.0.0"
    creation = await client.send(endpoint_calls.create_endpoint(REQUEST, idempotency_key="e"))
    assert await client.send(endpoint_calls.get_endpoint("acme/chat")) == await client.send(
        endpoint_calls.get_endpoint(creation.subject)
    )
    assert [endpoint.name for endpoint in await client.collect(endpoint_calls.list_endpoints("acme"))] == ["chat"]
    created = await client.send(
        key_calls.create_key({"tenant": "acme", "name": "ci", "endpoints": ["chat"]}, idempotency_key="k")
    )
    assert created.secret is not None and created.secret not in repr(created)
    assert [key.id for key in await client.collect(key_calls.list_keys("acme"))] == [created.key.id]
    assert (await client.send(key_calls.revoke_key(created.key.id, idempotency_key="r"))).revoked_at is not None
    deleted = await client.send(endpoint_calls.delete_endpoint("acme/chat", idempotency_key="d"))
    assert (await client.send(operation_calls.get_operation(deleted.id))).verb == "endpoint.delete"
    assert len((await client.send(operation_calls.list_operations("acme"))).items) == 3


async def test_a_name_never_leads_to_another_path(client: AsyncClient, acme: str) -> None:
    key = (await client.send(key_calls.create_key({"tenant": "acme", "name": "ci"}, idempotency_key="k"))).key
    for name in (f"acme/../../keys/{key.id}", f"../keys/{key.id}", "..", ".", "", "acme/", f"acme/%2e%2e/{key.id}"):
        with pytest.raises(NotFoundError):
            await client.send(endpoint_calls.delete_endpoint(name, idempotency_key="d"))
        with pytest.raises(NotFoundError):
            await client.send(operation_calls.get_operation(name))
    with pytest.raises(NotFoundError):
        await client.send(key_calls.revoke_key(f"../keys/{key.id}", idempotency_key="r"))
    assert [listed.revoked_at for listed in await client.collect(key_calls.list_keys("acme"))] == [None]


async def test_problems_come_back_as_the_errors_they_were(client: AsyncClient, acme: str) -> None:
    with pytest.raises(NotFoundError) as missing:
        await client.send(endpoint_calls.get_endpoint("acme/none"))
    assert missing.value.hint
    with pytest.raises(RejectedError) as rejected:
        await client.send(endpoint_calls.create_endpoint(REQUEST | {"model": "tini", "region": 1}, idempotency_key="a"))
    assert {finding.field for finding in rejected.value.findings} == {"model", "region"}
    await client.send(endpoint_calls.create_endpoint(REQUEST, idempotency_key="b"))
    with pytest.raises(RejectedError) as taken:
        await client.send(endpoint_calls.create_endpoint(REQUEST, idempotency_key="c"))
    assert taken.value.reason == "NameTaken"


async def test_an_operation_is_watched_until_it_has_ended(
    client: AsyncClient,
    asked_tenant: str,
    services: Services,
    clock: SteppedClock,
) -> None:
    operation = ((await client.send(operation_calls.list_operations())).items)[0]
    seen: list[str] = []
    async for view in client.each(operation_calls.watch_operation(operation.id, timeout_seconds=60)):
        seen.append(view.state)
        if view.state == "pending":
            clock.advance(1)
            claimed = await claim(services, clock)
        elif view.state == "running":
            clock.advance(1)
            await end(claimed, services, clock)
    assert seen == ["pending", "running", "succeeded"]


async def test_watching_ends_with_its_time(client: AsyncClient, asked_tenant: str) -> None:
    operation = ((await client.send(operation_calls.list_operations())).items)[0]
    with pytest.raises(RetryableError) as caught:
        async for _ in client.each(operation_calls.watch_operation(operation.id, timeout_seconds=0.05)):
            pass
    assert caught.value.reason == "TimedOut"
    assert operation.id in (caught.value.hint or "")


async def test_watching_survives_an_api_that_is_away_for_a_while(client: AsyncClient, asked_tenant: str) -> None:
    view = replace_state(
        ((await client.send(operation_calls.list_operations())).items)[0].model_dump_json(by_alias=True)
    )
    away = httpx2.Response(503, headers={"Retry-After": "0"})
    async with answering(httpx2.ConnectError("refused"), away, httpx2.Response(200, content=view)) as watching:
        seen = [view.state async for view in watching.each(operation_calls.watch_operation("op-1", timeout_seconds=30))]
    assert seen == ["succeeded"]


async def test_a_view_that_says_nothing_new_is_not_told_again(client: AsyncClient, asked_tenant: str) -> None:
    pending = ((await client.send(operation_calls.list_operations())).items)[0].model_dump_json(by_alias=True)
    same, ended = httpx2.Response(200, content=pending), httpx2.Response(200, content=replace_state(pending))
    async with answering(same, same, same, ended) as watching:
        seen = [view.state async for view in watching.each(operation_calls.watch_operation("op-1", timeout_seconds=30))]
    assert seen == ["pending", "succeeded"]


def replace_state(view: str) -> str:
    return view.replace('"state":"pending","done":false', '"state":"succeeded","done":true')


async def test_nothing_that_answers_is_retryable() -> None:
    async with answering(httpx2.ConnectError("refused")) as client:
        with pytest.raises(RetryableError) as caught:
            await client.collect(tenant_calls.list_tenants())
    assert caught.value.reason == "Unreachable"
    assert "TENANTRY_URL" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx2.Response(502, text="<html>bad gateway"), RetryableError),
        (httpx2.Response(404, text="<html>nothing"), RejectedError),
        (httpx2.Response(200, text="<html>welcome"), InvariantError),
        (httpx2.Response(200, json={"a": 1}), InvariantError),
        (
            httpx2.Response(
                409,
                json={"type": "urn:tenantry:error:conflict", "title": "", "status": 409, "detail": "d", "reason": "R"},
            ),
            ConflictError,
        ),
        (
            httpx2.Response(
                500,
                json={"type": "urn:tenantry:error:invariant", "title": "", "status": 500, "detail": "d", "reason": "R"},
            ),
            InvariantError,
        ),
    ],
)
async def test_odd_answers_become_errors(answer: httpx2.Response, error: type[Exception]) -> None:
    async with answering(answer) as client:
        with pytest.raises(error) as caught:
            await client.collect(tenant_calls.list_tenants())
    assert type(caught.value) is error


def test_a_program_without_an_event_loop_asks_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls and flows, pauses included, are carried out alike by both clients."""
    paused: list[float] = []
    monkeypatch.setattr(time, "sleep", paused.append)
    ended: dict[str, object] = {
        "id": "op-1",
        "verb": "endpoint.create",
        "tenant": "acme",
        "subject": "ep-1",
        "state": "succeeded",
    }
    ended |= {"done": True, "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z"}
    tenants = [{"name": name, "displayName": name, "tiers": [], "ready": True, "operation": "op"} for name in "abc"]
    pages = [
        {"items": [tenant | {"createdAt": "2026-01-01T00:00:00Z"} for tenant in part], "nextCursor": cursor}
        for part, cursor in ((tenants[:2], "more"), (tenants[2:], None))
    ]
    answers = iter(
        [
            *(httpx2.Response(200, json=page) for page in pages),
            httpx2.Response(503, headers={"Retry-After": "3"}),
            httpx2.Response(200, json=ended),
            httpx2.Response(404, json={"type": "urn:tenantry:error:not-found", "title": "Not Found", "status": 404}),
        ]
    )
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return next(answers)

    with Client("http://api.example.com", OPERATOR_KEY, transport=httpx2.MockTransport(answer)) as client:
        assert [tenant.name for tenant in client.collect(tenant_calls.list_tenants())] == ["a", "b", "c"]
        views = client.each(operation_calls.watch_operation("op-1", timeout_seconds=30))
        assert [view.state for view in views] == ["succeeded"]
        with pytest.raises(RejectedError):
            client.send(endpoint_calls.get_endpoint("acme/none"))
    assert paused == [3.0]
    assert "cursor=more" in asked[1]

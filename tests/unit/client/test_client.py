"""The client against the real application, and against answers that are not the API's."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.client.client import Client
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
async def client(transport: httpx2.ASGITransport) -> AsyncIterator[Client]:
    async with Client("http://api.example.com/", OPERATOR_KEY, transport=transport) as made:
        yield made


def answering(*answers: httpx2.Response | Exception) -> Client:
    """A client that gets these answers, one after the other."""
    waiting = list(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        last = waiting.pop(0)
        if isinstance(last, Exception):
            raise last
        return last

    return Client("http://api.example.com", "key", transport=httpx2.MockTransport(answer))


async def test_the_life_of_an_endpoint_through_the_client(client: Client, acme: str) -> None:
    operation = await client.create_tenant("other", display_name="Other", tiers=["dedicated"], idempotency_key="t")
    assert (operation.verb, operation.is_final) == ("tenant.create", False)
    assert [(tenant.name, tenant.ready) for tenant in await client.list_tenants()] == [("acme", True), ("other", False)]
    assert (await client.plan(REQUEST))["tierVersion"] == "1.0.0"
    accepted = await client.create_endpoint(REQUEST, idempotency_key="e")
    assert accepted.endpoint is not None
    assert await client.get_endpoint("acme/chat") == await client.get_endpoint(accepted.endpoint.id)
    assert [endpoint.name for endpoint in await client.list_endpoints("acme")] == ["chat"]
    created = await client.create_key(tenant="acme", name="ci", endpoints=["chat"], idempotency_key="k")
    assert created.secret is not None and created.secret not in repr(created)
    assert [key.id for key in await client.list_keys("acme")] == [created.key.id]
    assert (await client.revoke_key(created.key.id, idempotency_key="r")).revoked_at is not None
    deleted = await client.delete_endpoint("acme/chat", idempotency_key="d")
    assert (await client.get_operation(deleted.id)).verb == "endpoint.delete"
    assert len(await client.list_operations("acme")) == 3


async def test_a_name_never_leads_to_another_path(client: Client, acme: str) -> None:
    key = (await client.create_key(tenant="acme", name="ci", idempotency_key="k")).key
    for name in (f"acme/../../keys/{key.id}", f"../keys/{key.id}", "..", ".", "", "acme/", f"acme/%2e%2e/{key.id}"):
        with pytest.raises(NotFoundError):
            await client.delete_endpoint(name, idempotency_key="d")
        with pytest.raises(NotFoundError):
            await client.get_operation(name)
    with pytest.raises(NotFoundError):
        await client.revoke_key(f"../keys/{key.id}", idempotency_key="r")
    assert [listed.revoked_at for listed in await client.list_keys("acme")] == [None]


async def test_problems_come_back_as_the_errors_they_were(client: Client, acme: str) -> None:
    with pytest.raises(NotFoundError) as missing:
        await client.get_endpoint("acme/none")
    assert missing.value.hint
    with pytest.raises(RejectedError) as rejected:
        await client.create_endpoint(REQUEST | {"model": "tini", "region": 1}, idempotency_key="a")
    assert {finding.field for finding in rejected.value.findings} == {"model", "region"}
    await client.create_endpoint(REQUEST, idempotency_key="b")
    with pytest.raises(RejectedError) as taken:
        await client.create_endpoint(REQUEST, idempotency_key="c")
    assert taken.value.reason == "NameTaken"


async def test_an_operation_is_watched_until_it_has_ended(
    client: Client,
    asked_tenant: str,
    services: Services,
    clock: SteppedClock,
) -> None:
    operation = (await client.list_operations())[0]
    seen: list[str] = []
    async for view in client.watch_operation(operation.id, timeout_seconds=60):
        seen.append(view.state)
        if view.state == "pending":
            clock.advance(1)
            claimed = await claim(services, clock)
        elif view.state == "running":
            clock.advance(1)
            await end(claimed, services, clock)
    assert seen == ["pending", "running", "succeeded"]


async def test_watching_ends_with_its_time(client: Client, asked_tenant: str) -> None:
    operation = (await client.list_operations())[0]
    with pytest.raises(RetryableError) as caught:
        async for _ in client.watch_operation(operation.id, timeout_seconds=0.05):
            pass
    assert caught.value.reason == "TimedOut"
    assert operation.id in (caught.value.hint or "")


async def test_watching_survives_an_api_that_is_away_for_a_while(client: Client, asked_tenant: str) -> None:
    view = replace_state((await client.list_operations())[0].model_dump_json(by_alias=True))
    away = httpx2.Response(503, headers={"Retry-After": "0"})
    async with answering(httpx2.ConnectError("refused"), away, httpx2.Response(200, content=view)) as watching:
        seen = [view.state async for view in watching.watch_operation("op-1", timeout_seconds=30)]
    assert seen == ["succeeded"]


async def test_a_view_that_says_nothing_new_is_not_told_again(client: Client, asked_tenant: str) -> None:
    pending = (await client.list_operations())[0].model_dump_json(by_alias=True)
    same, ended = httpx2.Response(200, content=pending), httpx2.Response(200, content=replace_state(pending))
    async with answering(same, same, same, ended) as watching:
        seen = [view.state async for view in watching.watch_operation("op-1", timeout_seconds=30)]
    assert seen == ["pending", "succeeded"]


def replace_state(view: str) -> str:
    return view.replace('"state":"pending","isFinal":false', '"state":"succeeded","isFinal":true')


async def test_nothing_that_answers_is_retryable() -> None:
    async with answering(httpx2.ConnectError("refused")) as client:
        with pytest.raises(RetryableError) as caught:
            await client.list_tenants()
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
            await client.list_tenants()
    assert type(caught.value) is error

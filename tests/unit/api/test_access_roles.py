"""What each role and scope may do, which tenants a key reaches, and for how long it is believed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from provisioner.api import callers as known_callers
from provisioner.api.services import Services
from provisioner.domain.access import ROLE_SCOPES, AccessRole, Scope
from provisioner.domain.errors import RetryableError
from provisioner.domain.ids import KeyId
from tests.store.examples import NOON, SteppedClock
from tests.unit.api.application import application
from tests.unit.api.callers import CUSTOMERS_ROUTES, before_the_end, caller, every_route, stored_key
from tests.unit.api.conftest import REQUEST, idempotent

PROVIDERS_ROLES = (AccessRole.VIEWER, AccessRole.OPERATOR, AccessRole.ADMIN)


@pytest.fixture
async def ids(operator: httpx2.AsyncClient, acme: str) -> dict[str, str]:
    """An endpoint, its operation and a key, in tenant acme."""
    made = (await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("e"))).json()
    key = (await operator.post("/v1/keys", json={"tenant": acme, "name": "ci"}, headers=idempotent("k"))).json()
    return {"reference": made["subject"], "operation": made["id"], "key": key["key"]["id"]}


@pytest.fixture
async def bound(services: Services, transport: httpx2.ASGITransport, acme: str) -> AsyncIterator[httpx2.AsyncClient]:
    """An operator of another tenant, `other`."""
    body = {"name": "other", "tiers": ["dedicated"]}
    async with await caller(services, transport, "maker", AccessRole.ADMIN) as maker:
        assert (await maker.post("/v1/tenants", json=body, headers=idempotent("t"))).status_code == 202
    async with await caller(services, transport, "bound", AccessRole.ADMIN, tenant="other") as client:
        yield client


def without(answer: httpx2.Response, *names: str) -> dict[str, Any]:
    """A problem without its request id and without the names that were asked for."""
    problem: dict[str, Any] = answer.json()
    del problem["requestId"]
    for name in names:
        problem = {field: v.replace(name, "…") if isinstance(v, str) else v for field, v in problem.items()}
    return problem


@pytest.mark.parametrize("role", PROVIDERS_ROLES)
async def test_a_role_may_what_its_scopes_say_and_is_told_which_one_it_lacks(
    role: AccessRole, services: Services, transport: httpx2.ASGITransport, acme: str
) -> None:
    """Ledger: SEC-01."""
    refused = set()
    async with await caller(services, transport, "key", role) as client:
        asking = before_the_end(client, services)
        for route in every_route(services):
            answer = await asking.request(route.method, route.filled({}), headers=idempotent("a"), json={})
            may = route.scope in ROLE_SCOPES[role]
            assert (answer.status_code in (401, 403)) is not may, (route, answer.text)
            if not may:
                refused.add(route.scope)
                assert (answer.json()["reason"], route.scope in answer.json()["detail"]) == ("Forbidden", True)
    assert (Scope.KEYS_WRITE in refused) is (role is not AccessRole.ADMIN)
    assert (Scope.ENDPOINTS_WRITE in refused) is (role is AccessRole.VIEWER)


async def test_a_key_with_few_scopes_may_no_more_than_those(
    services: Services, transport: httpx2.ASGITransport, acme: str
) -> None:
    """Ledger: SEC-01."""
    scopes = (Scope.ENDPOINTS_WRITE, Scope.OPERATIONS_READ)
    async with await caller(services, transport, "automation", AccessRole.OPERATOR, scopes=scopes) as client:
        made = await client.post("/v1/endpoints", json=REQUEST, headers=idempotent("a"))
        assert made.status_code == 202
        assert (await client.get(made.headers["Location"])).status_code == 200
        for path in ("/v1/endpoints", "/v1/keys", "/v1/tenants", "/v1/audit", "/v1/tiers"):
            assert (await client.get(path)).status_code == 403
    async with await caller(services, transport, "odd", AccessRole.VIEWER, scopes=(Scope.KEYS_WRITE,)) as client:
        answer = await client.post("/v1/keys", json={"name": "mine", "role": "viewer"}, headers=idempotent("b"))
        assert answer.status_code == 403  # what a row says beyond its role counts for nothing


async def test_what_another_tenant_has_is_answered_as_what_does_not_exist(
    bound: httpx2.AsyncClient, ids: dict[str, str], services: Services
) -> None:
    """Ledger: TEN-12, TEN-17."""
    before = await services.store.operations.list()
    for route in every_route(services):
        there, nothing = route.filled(ids), route.filled({name: f"{name}-none" for name in ids})
        if there == nothing:
            continue
        answers = [
            await bound.request(route.method, path, headers=idempotent("same"), json={}) for path in (there, nothing)
        ]
        assert [answer.status_code for answer in answers] == [404, 404], route
        name = next(name for name in ids if f"{{{name}}}" in route.path)
        assert without(answers[0], ids[name]) == without(answers[1], f"{name}-none")
    named = await bound.get("/v1/endpoints/acme/chat")
    assert without(named, "acme/chat") == without(await bound.get("/v1/endpoints/nobody/chat"), "nobody/chat")
    assert await services.store.operations.list() == before


async def test_asking_for_another_tenant_in_a_body_reads_as_a_tenant_that_is_not(
    bound: httpx2.AsyncClient, ids: dict[str, str], services: Services
) -> None:
    """Ledger: TEN-17."""
    bodies: dict[str, dict[str, Any]] = {
        "/v1/endpoints": REQUEST | {"name": "mine"},
        "/v1/plan": REQUEST,
        "/v1/keys": {"name": "mine"},
    }
    for path, body in bodies.items():
        answers = [
            await bound.post(path, json=body | {"tenant": tenant}, headers=idempotent(f"{tenant}-{path}"))
            for tenant in ("acme", "nobody")
        ]
        assert [(answer.status_code, answer.json()["reason"]) for answer in answers] == [(404, "TenantUnknown")] * 2
        assert without(answers[0], "acme") == without(answers[1], "nobody")
    answer = await bound.post("/v1/tenants", json={"name": "more", "tiers": ["shared"]}, headers=idempotent("t"))
    assert answer.status_code == 404
    assert [endpoint.name for endpoint in await services.store.endpoints.list()] == ["chat"]


async def test_lists_hold_what_the_key_reaches(bound: httpx2.AsyncClient, ids: dict[str, str]) -> None:
    """Ledger: TEN-12."""
    for path in ("/v1/endpoints", "/v1/operations", "/v1/keys", "/v1/tenants", "/v1/audit", "/v1/audit/export"):
        text = (await bound.get(path)).text
        assert "acme" not in text, path
    for path in ("/v1/operations", "/v1/audit", "/v1/audit/export", "/v1/orphans", "/v1/usage"):
        known, none = [await bound.get(path, params={"tenant": name}) for name in ("acme", "nobody")]
        assert (known.status_code, known.content) == (none.status_code, none.content)
        assert known.status_code == 200
    for path in ("/v1/endpoints", "/v1/endpoints:watch", "/v1/keys", "/v1/teams", "/v1/projects", "/v1/fallbacks"):
        known, none = [await bound.get(path, params={"tenant": name}) for name in ("acme", "nobody")]
        assert (known.status_code, known.json()["reason"]) == (404, "TenantUnknown")
        assert known.json()["detail"].replace("acme", "nobody") == none.json()["detail"]
    assert (await bound.get("/v1/operations?tenant=acme")).json()["items"] == []
    assert [tenant["name"] for tenant in (await bound.get("/v1/tenants")).json()["items"]] == ["other"]
    assert [key["name"] for key in (await bound.get("/v1/keys")).json()["items"]] == ["bound"]
    assert (await bound.get("/v1/fleet")).json()["endpoints"] == []
    assert {event["tenant"] for event in (await bound.get("/v1/audit")).json()["items"]} == {"other"}


@pytest.mark.parametrize("changes", [{"expires_at": NOON}, {"revoked_at": NOON - timedelta(hours=1)}])
async def test_a_key_that_ended_is_no_key(
    services: Services, transport: httpx2.ASGITransport, changes: dict[str, Any]
) -> None:
    async with await caller(services, transport, "ended", AccessRole.ADMIN, **changes) as client:
        assert (await client.get("/v1/tenants")).status_code == 401


async def test_a_key_ends_while_it_is_known(
    services: Services, transport: httpx2.ASGITransport, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = NOON + timedelta(minutes=1)
    async with await caller(services, transport, "short", AccessRole.VIEWER, expires_at=soon) as client:
        assert (await client.get("/v1/tenants")).status_code == 200
        clock.advance(60)
        assert (await client.get("/v1/tenants")).status_code == 401
    async with await caller(services, transport, "gone", AccessRole.VIEWER) as client:
        assert (await client.get("/v1/tenants")).status_code == 200
        await services.store.keys.revoke(KeyId("key-gone"), clock.now())  # as another process would
        monkeypatch.setattr(known_callers, "KNOWN_SECONDS", 0.0)  # a second later
        assert (await client.get("/v1/tenants")).status_code == 401


async def test_a_key_that_is_revoked_here_stops_at_once(
    operator: httpx2.AsyncClient, services: Services, transport: httpx2.ASGITransport
) -> None:
    async with await caller(services, transport, "gone", AccessRole.VIEWER) as client:
        assert (await client.get("/v1/tenants")).status_code == 200
        assert (await operator.delete("/v1/keys/key-gone", headers=idempotent("r"))).status_code == 200
        assert (await client.get("/v1/tenants")).status_code == 401


async def test_many_requests_ask_the_database_once_about_their_key(
    operator: httpx2.AsyncClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    find = services.store.keys.find

    async def counted(digest: str) -> Any:
        asked.append(digest)
        return await find(digest)

    monkeypatch.setattr(services.store.keys, "find", counted)
    monkeypatch.setattr(known_callers, "KNOWN_SECONDS", 60.0)
    for _ in range(20):
        assert (await operator.get("/v1/tiers")).status_code == 200
    assert len(asked) == 1


async def test_the_number_of_known_keys_is_bounded(
    services: Services, transport: httpx2.ASGITransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_callers, "_MOST_KNOWN", 3)
    known = known_callers.Callers(services.store.keys, clock=services.clock)
    for number in range(6):
        await services.store.keys.add(stored_key(f"many{number}", AccessRole.VIEWER))
        assert await known.find(f"tnt-{f'many{number}':x<43}") is not None
    for number in range(20):
        assert await known.find(f"tnt-nobody-{number}") is None
    assert len(known._known) == 3


async def test_use_is_told_beside_the_request_and_a_database_that_cannot_write_it_does_not_matter(
    operator: httpx2.AsyncClient, services: Services, monkeypatch: pytest.MonkeyPatch, clock: SteppedClock
) -> None:
    async def full(keys: object, now: object) -> None:
        raise RetryableError("using the database: disk full")

    tell = services.store.keys.tell_use
    monkeypatch.setattr(services.store.keys, "tell_use", full)
    assert (await operator.get("/v1/tenants")).status_code == 200
    monkeypatch.setattr(services.store.keys, "tell_use", tell)
    fresh = httpx2.AsyncClient(
        transport=httpx2.ASGITransport(application(services)),
        base_url="http://api.example.com",
        headers=operator.headers,
    )
    async with fresh, asyncio.timeout(60):
        assert (await fresh.get("/v1/tenants")).status_code == 200
        while (await fresh.get("/v1/keys")).json()["items"][0].get("lastUsedAt") is None:
            await asyncio.sleep(0.01)
    assert (await services.store.keys.get(KeyId("key-bootstrap"))).last_used_at == clock.now()


async def test_the_caller_is_the_actor(operator: httpx2.AsyncClient, bound: httpx2.AsyncClient) -> None:
    """Ledger: OPS-06."""
    await bound.post("/v1/endpoints", json=REQUEST | {"tenant": "other"}, headers=idempotent("a"))
    body = {"name": "more", "tiers": ["shared"]}
    await operator.post("/v1/tenants", json=body, headers=idempotent("b"))
    actors = {event["subject"]: event["actor"] for event in (await operator.get("/v1/audit")).json()["items"]}
    assert (actors["more"], actors["other"]) == ("admin:bootstrap", "admin:maker")


def test_customers_routes_exist(services: Services) -> None:
    there = {(route.method, route.path) for route in every_route(services)}
    assert {route for route in CUSTOMERS_ROUTES if route[1] != "/v1/usage"} <= there

"""Catalog, plans, tenants, keys and operations over REST."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provisioner.api.app import create_app
from provisioner.api.services import Services
from provisioner.domain.errors import InsufficientCapacityError
from provisioner.domain.key import key_digest
from provisioner.domain.snapshot import Snapshot
from tests.store.examples import NOON, SteppedClock
from tests.store.statements import run_statement
from tests.unit.api.conftest import GATEWAY_KEY, REQUEST, Wakes, claim, end, idempotent


async def test_tiers_and_models_round_trip(operator: httpx2.AsyncClient, services: Services) -> None:
    """Ledger: CAT-01."""
    tiers = (await operator.get("/v1/tiers")).json()["items"]
    assert [tier["name"] for tier in tiers] == ["dedicated", "shared"]
    assert (await operator.get("/v1/tiers/shared")).json() == tiers[1]
    models = (await operator.get("/v1/models")).json()["items"]
    assert [model["id"] for model in models] == ["acme/speech", "big", "tiny"]
    one = (await operator.get("/v1/models/acme/speech")).json()
    assert one == models[0] == services.catalog.models["acme/speech"].model_dump(mode="json", by_alias=True)


async def test_unknown_names_come_with_a_hint(operator: httpx2.AsyncClient) -> None:
    for path in ("/tiers/dedicatd", "/models/tinny", "/models/prefill?model=tinny"):
        answer = await operator.get(f"/v1{path}")
        assert answer.status_code == 404
        assert "did you mean" in answer.json()["hint"]


async def test_choosing_a_model_prefills_its_masters_values(operator: httpx2.AsyncClient) -> None:
    """Ledger: CAT-02."""
    prefill = (await operator.get("/v1/models/prefill?model=tiny")).json()
    assert prefill["serving"] == {"contextSize": 4096, "parallel": 2}
    assert prefill["parameters"]["contextSize"]["maximum"] == 1048576
    assert prefill["hardware"] == {"gpus": 1, "cpu": "1", "memory": "1Gi"}


async def test_a_form_does_not_offer_what_only_the_master_sets(operator: httpx2.AsyncClient) -> None:
    prefill = (await operator.get("/v1/models/prefill?model=big")).json()
    assert prefill["serving"].keys() <= prefill["parameters"].keys()
    assert "trustRemoteCode" not in prefill["parameters"]


async def test_a_plan_is_told_and_nothing_stored(operator: httpx2.AsyncClient, acme: str, services: Services) -> None:
    """Ledger: TEN-13."""
    first = await operator.post("/v1/plan", json=REQUEST)
    assert first.status_code == 200
    assert first.json()["placement"]["templateVersion"] == "1.0.0"
    assert first.json()["runtime"]["serving"] == {"contextSize": 4096, "parallel": 2}
    assert (await operator.post("/v1/plan", json=REQUEST)).content == first.content
    assert await services.store.endpoints.list() == []


async def test_a_tenant_is_made_by_an_operation(operator: httpx2.AsyncClient, services: Services, wakes: Wakes) -> None:
    body = {"name": "acme", "tiers": ["shared", "dedicated", "shared"]}
    answer = await operator.post("/v1/tenants", json=body, headers=idempotent("a"))
    assert answer.status_code == 202
    assert (answer.json()["verb"], answer.json()["subject"], wakes.worker) == ("tenant.create", "acme", 1)
    (tenant,) = (await operator.get("/v1/tenants")).json()["items"]
    assert (tenant["name"], tenant["displayName"], tenant["ready"]) == ("acme", "acme", False)
    assert tenant["tiers"] == ["dedicated", "shared"]
    again = await operator.post("/v1/tenants", json=body, headers=idempotent("a"))
    assert again.json()["id"] == answer.json()["id"]


async def test_a_bad_tenant_is_refused_with_every_finding(operator: httpx2.AsyncClient, services: Services) -> None:
    form = {"name": "Acme!", "tiers": [], "colour": "red"}
    answer = await operator.post("/v1/tenants", json=form, headers=idempotent("a"))
    assert {finding["field"] for finding in answer.json()["findings"]} == {"name", "tiers", "colour"}
    sense = {"name": "pool", "tiers": ["dedicated", "gold"]}
    answer = await operator.post("/v1/tenants", json=sense, headers=idempotent("b"))
    assert {finding["field"] for finding in answer.json()["findings"]} == {"tiers[0]", "tiers[1]"}
    assert await services.store.tenants.list() == []


async def test_a_secret_is_shown_once_and_only_its_digest_stored(
    operator: httpx2.AsyncClient, research: str, services: Services, wakes: Wakes
) -> None:
    """Ledger: SEC-07."""
    endpoint = (await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("e"))).json()["subject"]
    later = (NOON + timedelta(days=1)).isoformat()
    body = {
        "tenant": "acme",
        "name": "ci",
        "team": research,
        "endpoints": ["chat", endpoint],
        "expiresAt": later,
    }
    answer = await operator.post("/v1/keys", json=body, headers=idempotent("k"))
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    secret, key = answer.json()["secret"], answer.json()["key"]
    assert secret.startswith(key["prefix"])
    assert key["endpoints"] == [endpoint]
    (stored,) = await services.store.keys.list(tenant="acme")
    assert stored.digest == key_digest(secret)
    listed = await operator.get("/v1/keys?tenant=acme")
    assert listed.json()["items"] == [key]
    assert secret not in listed.text
    assert wakes.reconciler == 1


async def test_revoking_a_key_twice_is_fine(operator: httpx2.AsyncClient, acme: str, wakes: Wakes) -> None:
    made = await operator.post("/v1/keys", json={"tenant": "acme", "name": "ci"}, headers=idempotent("k"))
    key = made.json()["key"]
    first = await operator.delete(f"/v1/keys/{key['id']}", headers=idempotent("r"))
    assert first.json()["revokedAt"] == "2026-03-01T12:00:00Z"
    for again in ("r", "r2"):
        assert (await operator.delete(f"/v1/keys/{key['id']}", headers=idempotent(again))).json() == first.json()
    assert (await operator.delete("/v1/keys/key-none", headers=idempotent("r3"))).status_code == 404
    assert wakes.reconciler == 4


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tenant": "nobody"}, "tenant"),
        ({"endpoints": ["none"]}, "endpoints[0]"),
        ({"endpoints": []}, "endpoints"),
        ({"expiresAt": "2026-03-01T12:00:00Z"}, "expiresAt"),
        ({"expiresAt": "2027-03-01T12:00:00"}, "expiresAt"),
        ({"expiresAt": "9999-12-31T23:59:59-14:00"}, "expiresAt"),
        ({"expiresAt": "0001-01-01T00:00:00+14:00"}, "expiresAt"),
        ({"name": ""}, "name"),
        ({"secret": "mine"}, "secret"),
        ({"tenant": None}, "tenant"),
        ({"role": "root"}, "role"),
        ({"role": "viewer", "team": "research"}, "team"),
        ({"role": "operator", "endpoints": ["chat"]}, "endpoints"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["endpoints:burn"]}, "scopes[0]"),
        ({"scopes": ["inference:call", "keys:write"]}, "scopes[1]"),
    ],
)
async def test_a_bad_key_is_refused(
    operator: httpx2.AsyncClient, acme: str, services: Services, changes: dict[str, object], field: str
) -> None:
    body = {"tenant": "acme", "name": "ci"} | changes
    answer = await operator.post("/v1/keys", json=body, headers=idempotent("k"))
    assert answer.status_code == 422
    assert [finding["field"] for finding in answer.json()["findings"]] == [field]
    assert await services.store.keys.list(tenant="acme") == []


async def test_waiting_for_an_operation_ends_when_it_changes(
    operator: httpx2.AsyncClient, asked_tenant: str, services: Services, clock: SteppedClock
) -> None:
    operation = (await operator.get("/v1/operations")).json()["items"][0]
    path = f"/v1/operations/{operation['id']}"
    unchanged = await operator.get(path, params={"wait": 0.05, "seen": operation["updatedAt"]})
    assert unchanged.json()["state"] == "pending"
    waiting = asyncio.create_task(operator.get(path, params={"wait": 30, "seen": operation["updatedAt"]}))
    await asyncio.sleep(0)
    clock.advance(1)
    claimed = await claim(services, clock)
    assert (await waiting).json()["state"] == "running"
    await end(claimed, services, clock)
    ended = await operator.get(path, params={"wait": 30, "seen": "2030-01-01T00:00:00Z"})
    assert (ended.json()["state"], ended.json()["done"]) == ("succeeded", True)


async def test_a_gateway_waits_for_the_next_snapshot(stranger: httpx2.AsyncClient, services: Services) -> None:
    headers = {"Authorization": f"Bearer {GATEWAY_KEY}"}
    none = await stranger.get("/internal/snapshots", headers=headers)
    assert (none.status_code, none.json()["reason"]) == (503, "NoSnapshot")
    await services.store.snapshots.publish(Snapshot(version=1, created_at=NOON, routes=(), keys=()))
    first = await stranger.get("/internal/snapshots?wait=10", headers=headers)
    told = {"version": 1, "created_at": "2026-03-01T12:00:00Z", "routes": [], "keys": []}
    assert first.json() | told == first.json()
    known = headers | {"If-None-Match": first.headers["ETag"]}
    same = await stranger.get("/internal/snapshots?wait=0.05", headers=known)
    assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", first.headers["ETag"])
    waiting = asyncio.create_task(stranger.get("/internal/snapshots?wait=30", headers=known))
    await asyncio.sleep(0)
    await services.store.snapshots.publish(Snapshot(version=2, created_at=NOON, routes=(), keys=()))
    assert (await waiting).json()["version"] == 2


async def test_a_row_of_another_version_is_answered_with_500_and_hides_no_other(
    operator: httpx2.AsyncClient, acme: str, tmp_path: Path
) -> None:
    made = []
    for name in ("one", "two"):
        answer = await operator.post("/v1/endpoints", json=REQUEST | {"name": name}, headers=idempotent(name))
        made.append(answer.json()["subject"])
        await operator.post("/v1/keys", json={"tenant": acme, "name": name}, headers=idempotent(f"key-{name}"))
    url = f"sqlite:///{tmp_path}/store.sqlite"
    await run_statement(url, f"UPDATE endpoints SET phase = 'Hibernating' WHERE id = '{made[0]}'")
    await run_statement(url, "UPDATE api_keys SET endpoints = '7' WHERE name = 'one'")
    listed = await operator.get("/v1/endpoints")
    assert [endpoint["name"] for endpoint in listed.json()["items"]] == ["two"]
    assert [key["name"] for key in (await operator.get("/v1/keys?tenant=acme")).json()["items"]] == ["two"]
    bad = await operator.get(f"/v1/endpoints/{made[0]}")
    assert (bad.status_code, bad.json()["reason"]) == (500, "RowUnreadable")
    assert made[0] in bad.json()["detail"]
    assert "Hibernating" not in bad.text
    assert (await operator.get(f"/v1/endpoints/{made[1]}")).status_code == 200


async def test_what_is_wrong_on_our_side_is_a_problem_without_details(
    operator: httpx2.AsyncClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(**_: object) -> None:
        raise InsufficientCapacityError("listing tenants: full", retry_after_seconds=2.5)

    async def broken(**_: object) -> None:
        raise KeyError("secret-detail")

    monkeypatch.setattr(services.store.tenants, "page", full)
    answer = await operator.get("/v1/tenants")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "3")
    monkeypatch.setattr(services.store.tenants, "page", broken)
    answer = await operator.get("/v1/tenants")
    assert (answer.status_code, answer.json()["reason"]) == (500, "Invariant")
    assert "secret-detail" not in answer.text
    assert answer.headers["X-Request-ID"] == answer.json()["requestId"]


def test_the_openapi_document_describes_bodies_and_problems(services: Services) -> None:
    document = create_app(services).openapi()
    schemas = document["components"]["schemas"]
    assert {"RequestForm", "TenantForm", "KeyForm", "Problem", "EndpointView", "OperationView"} <= set(schemas)
    create = document["paths"]["/v1/endpoints"]["post"]
    assert create["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/RequestForm"
    }
    assert "application/problem+json" in create["responses"]["4XX"]["content"]
    assert "/internal/snapshots" not in document["paths"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(content=st.binary(max_size=200) | st.text(alphabet='{}[]":,0129.eE+-tfn\\u d8', max_size=60).map(str.encode))
async def test_any_body_is_answered_as_the_callers_fault(
    operator: httpx2.AsyncClient, acme: str, content: bytes
) -> None:
    for path in ("/plan", "/endpoints", "/tenants", "/keys"):
        answer = await operator.post(f"/v1{path}", content=content, headers=idempotent("fuzz"))
        assert answer.status_code in (400, 422), answer.text
        assert answer.json()["reason"] in ("NotJson", "InvalidRequest")


async def test_lists_are_read_page_by_page(operator: httpx2.AsyncClient, acme: str) -> None:
    for name in ("one", "three", "two"):
        await operator.post("/v1/endpoints", json=REQUEST | {"name": name}, headers=idempotent(name))
    seen: list[str] = []
    query = {"limit": "2", "tenant": acme}
    while True:
        page = (await operator.get("/v1/endpoints", params=query)).json()
        seen += [endpoint["name"] for endpoint in page["items"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    assert seen == ["one", "three", "two"]


@pytest.mark.parametrize(
    "cursor", ["x", "%00", "W10", "WyJhIl0", "WzFd", "WyJcdTAwMDAiLCJhIl0", "eyJhIjoxfQ", "W" * 900]
)
@pytest.mark.parametrize("noun", ["endpoints", "operations", "keys", "audit"])
async def test_a_cursor_that_is_none_of_ours_is_refused(operator: httpx2.AsyncClient, noun: str, cursor: str) -> None:
    answer = await operator.get(f"/v1/{noun}?cursor={cursor}")
    assert answer.status_code in (404, 422), answer.text
    assert answer.json()["reason"] in ("InvalidCursor", "NotFound", "Rejected")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("endpoints", "phase"),
        ("operations", "tenat"),
        ("endpoints/acme/chat", "x"),
        ("keys", "\x1b[31m"),
        ("plan", "q"),
    ],
)
async def test_a_query_parameter_that_no_route_knows_is_refused_by_name(
    operator: httpx2.AsyncClient, acme: str, path: str, name: str
) -> None:
    method = "POST" if path == "plan" else "GET"
    answer = await operator.request(method, f"/v1/{path}", params={name: "1"}, json=REQUEST if path == "plan" else None)
    assert answer.status_code == 422
    (finding,) = answer.json()["findings"]
    assert (finding["reason"], finding["field"]) == ("UnknownParameter", name)
    assert name == "a\x1b" or name in finding["message"]


async def test_a_query_parameter_that_stands_twice_is_refused_by_name(operator: httpx2.AsyncClient) -> None:
    answer = await operator.get("/v1/endpoints?tenant=acme&limit=5&tenant=globex")
    assert answer.status_code == 422
    (finding,) = answer.json()["findings"]
    assert (finding["reason"], finding["field"]) == ("RepeatedParameter", "tenant")


async def test_the_catalog_is_read_page_by_page_too(operator: httpx2.AsyncClient) -> None:
    names: list[str] = []
    query = {"limit": "1"}
    while True:
        page = (await operator.get("/v1/tiers", params=query)).json()
        names += [tier["name"] for tier in page["items"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    assert names == [tier["name"] for tier in (await operator.get("/v1/tiers")).json()["items"]] == sorted(names)

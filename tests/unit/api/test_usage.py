"""Usage over REST: gateways tell it, once per batch; the provider and customers read it, each as far as they reach."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.access import AccessRole
from provisioner.domain.key import key_digest
from tests.store.examples import NOON, SteppedClock
from tests.unit.api.callers import caller, secret_of
from tests.unit.api.conftest import GATEWAY_KEY, REQUEST, idempotent


def record(**changes: Any) -> dict[str, Any]:
    """A request of endpoint `ep-gone` of tenant acme."""
    return {
        "at": NOON.isoformat(),
        "tenant": "acme",
        "endpoint": "ep-gone",
        "key": "key-gone",
        "status": 200,
        "outcome": "ok",
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "duration_ms": 12.5,
    } | changes


async def tell(stranger: httpx2.AsyncClient, *records: dict[str, Any], batch: str = "b-1") -> httpx2.Response:
    """Tell records as a gateway does."""
    headers = {"Authorization": f"Bearer {GATEWAY_KEY}"}
    return await stranger.post("/internal/usage", json={"batch": batch, "records": records}, headers=headers)


async def read(client: httpx2.AsyncClient, **parameters: Any) -> list[dict[str, Any]]:
    """The sums."""
    answer = await client.get("/v1/usage", params=parameters)
    assert answer.status_code == 200, answer.text
    return [dict(item) for item in answer.json()["items"]]


@pytest.fixture
async def endpoint(operator: httpx2.AsyncClient, acme: str) -> str:
    """The id of endpoint `chat` of tenant acme."""
    made = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("e"))
    return str(made.json()["subject"])


async def test_a_batch_is_counted_once_and_told_by_customer_endpoint_and_tier(
    stranger: httpx2.AsyncClient, operator: httpx2.AsyncClient, endpoint: str
) -> None:
    """Ledger: MET-01."""
    records = (record(endpoint=endpoint), record(endpoint=endpoint, completion_tokens=None), record(tenant="zeta"))
    for counted in (True, False):
        answer = await tell(stranger, *records)
        assert (answer.status_code, answer.json()) == (200, {"counted": counted})
    of_chat, of_gone = await read(operator)
    sums = {"requests": 2, "failures": 0, "unmeasured": 1, "promptTokens": 14, "completionTokens": 3}
    labels = {"tenant": "acme", "tier": "dedicated", "endpoint": endpoint, "endpointName": "chat"}
    assert of_chat == labels | sums | {"durationMs": 25.0, "team": None, "key": None, "hour": None}
    assert [of_gone[name] for name in ("tenant", "endpoint", "endpointName", "tier")] == ["zeta", *["ep-gone"] * 2, ""]
    assert [(one["tenant"], one["requests"]) for one in await read(operator, group="tenant")] == [
        ("acme", 2),
        ("zeta", 1),
    ]
    assert [(one["tier"], one["requests"]) for one in await read(operator, group="tier")] == [("", 1), ("dedicated", 2)]
    assert [one["requests"] for one in await read(operator, tenant="acme", group="hour")] == [2]


async def test_pages_follow_each_other(stranger: httpx2.AsyncClient, operator: httpx2.AsyncClient) -> None:
    await tell(stranger, *(record(endpoint=f"ep-{number}") for number in range(5)))
    seen, cursor = [], ""
    while True:
        answer = (await operator.get(f"/v1/usage?limit=2{cursor}")).json()
        seen += [item["endpoint"] for item in answer["items"]]
        if answer["nextCursor"] is None:
            break
        cursor = f"&cursor={answer['nextCursor']}"
    assert seen == [f"ep-{number}" for number in range(5)]
    other = await operator.get(f"/v1/usage?group=hour{cursor}")
    assert (other.status_code, other.json()["reason"]) == (422, "InvalidCursor")


async def test_a_key_is_told_by_its_id_and_never_by_its_digest(
    stranger: httpx2.AsyncClient, operator: httpx2.AsyncClient, services: Services, acme: str
) -> None:
    """Ledger: SEC-07."""
    made = (await operator.post("/v1/keys", json={"name": "ci", "tenant": acme}, headers=idempotent("k"))).json()
    known, unknown = key_digest(made["secret"]), key_digest("gone")
    await tell(stranger, record(key=known), record(key=unknown))
    keys = [item["key"] for item in await read(operator, group="key")]
    assert keys == [made["key"]["id"], "unknown"]


async def test_a_customer_reads_of_its_own_tenant_alone_and_nothing_of_what_stands_behind(
    stranger: httpx2.AsyncClient, services: Services, transport: httpx2.ASGITransport, endpoint: str
) -> None:
    """Ledger: MET-01."""
    foreign = record(tenant="zeta", endpoint="ep-z", key="key-z")
    await tell(stranger, record(endpoint=endpoint), record(team="research"), foreign)
    async with await caller(services, transport, "all", AccessRole.CUSTOMER) as client:
        items = await read(client)
        assert [item["endpoint"] for item in items] == sorted([endpoint, "ep-gone"])
        assert not {"tier", "tenant"} & {name for item in items for name in item}
        for tenant in ("zeta", "nobody"):
            assert await read(client, tenant=tenant) == []
        for word in ("tier", "tenant", "colour"):
            refused = await client.get(f"/v1/usage?group={word}")
            assert refused.status_code == 422
            assert "tier" not in refused.json()["findings"][0]["hint"]
    async with await caller(services, transport, "one", AccessRole.CUSTOMER, endpoints=(endpoint,)) as client:
        assert [item["endpoint"] for item in await read(client)] == [endpoint]
        assert await read(client, endpoint="ep-gone") == []
    async with await caller(services, transport, "team", AccessRole.CUSTOMER, team="research") as client:
        assert [(item["team"], item["requests"]) for item in await read(client, group="team")] == [("research", 1)]


async def test_where_a_customer_finds_usage_is_where_the_endpoint_says(
    stranger: httpx2.AsyncClient, services: Services, transport: httpx2.ASGITransport, endpoint: str
) -> None:
    await tell(stranger, record(endpoint=endpoint), record())
    async with await caller(services, transport, "one", AccessRole.CUSTOMER) as client:
        shown = (await client.get(f"/v1/endpoints/{endpoint}")).json()["usage"]
        assert [item["endpoint"] for item in (await client.get(shown)).json()["items"]] == [endpoint]


async def test_hours_are_those_that_somebody_asks_for(
    stranger: httpx2.AsyncClient, operator: httpx2.AsyncClient, clock: SteppedClock
) -> None:
    old, older = NOON - timedelta(days=29), NOON - timedelta(days=31)
    await tell(stranger, record(), record(at=old.isoformat()), record(at=older.isoformat()))
    clock.advance(60)
    assert [item["requests"] for item in await read(operator)] == [2]
    assert [item["requests"] for item in await read(operator, since=older.isoformat())] == [3]
    assert await read(
        operator, since=old.isoformat(), until=(old + timedelta(minutes=1)).isoformat(), group="hour"
    ) == [
        {"hour": old.isoformat().replace("+00:00", "Z")}
        | dict.fromkeys(("tenant", "team", "tier", "endpoint", "endpointName", "key"))
        | {"requests": 1, "failures": 0, "unmeasured": 0, "promptTokens": 7, "completionTokens": 3, "durationMs": 12.5}
    ]
    turned = await operator.get(f"/v1/usage?since={NOON.isoformat()}&until={old.isoformat()}".replace("+", "%2B"))
    assert (turned.status_code, turned.json()["findings"][0]["field"]) == (422, "since")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"at": "2026-03-01T12:00:00"}, "records[1].at"),
        ({"at": "9999-12-31T23:59:59Z"}, "records[1].at"),
        ({"tenant": ""}, "records[1].tenant"),
        ({"endpoint": "a\0b"}, "records[1].endpoint"),
        ({"key": "k" * 128}, "records[1].key"),
        ({"status": "200"}, "records[1].status"),
        ({"outcome": "fine"}, "records[1].outcome"),
        ({"prompt_tokens": -1}, "records[1].prompt_tokens"),
        ({"prompt_tokens": 10**30}, "records[1].prompt_tokens"),
        ({"completion_tokens": 1.5}, "records[1].completion_tokens"),
        ({"duration_ms": -0.1}, "records[1].duration_ms"),
    ],
)
async def test_a_batch_with_a_wrong_record_is_refused_whole(
    stranger: httpx2.AsyncClient, operator: httpx2.AsyncClient, changes: dict[str, Any], field: str
) -> None:
    refused = await tell(stranger, record(), record(**changes))
    assert (refused.status_code, refused.json()["reason"]) == (422, "InvalidRequest")
    assert [finding["field"] for finding in refused.json()["findings"]] == [field]
    assert await read(operator) == []
    assert (await tell(stranger, record())).json() == {"counted": True}


async def test_a_batch_is_bounded_and_a_newer_gateway_may_tell_more(
    stranger: httpx2.AsyncClient, operator: httpx2.AsyncClient
) -> None:
    assert (await tell(stranger, *[record()] * 1000)).status_code == 200
    assert (await tell(stranger, *[record()] * 1001, batch="b-2")).status_code == 422
    long = {"colour": "red" * 500}
    assert (await tell(stranger, *[record(**long)] * 900, batch="b-3")).status_code == 413
    assert (await tell(stranger, record(**long), batch="b-4")).json() == {"counted": True}
    assert [item["requests"] for item in await read(operator)] == [1001]


async def test_the_door_needs_the_gateways_credential(
    stranger: httpx2.AsyncClient, services: Services, transport: httpx2.ASGITransport
) -> None:
    assert (await stranger.post("/internal/usage", json={})).status_code == 401
    async with await caller(services, transport, "admin", AccessRole.ADMIN) as client:
        assert (await client.post("/internal/usage", json={})).status_code == 401
        assert secret_of("admin") not in (await client.post("/internal/usage", json={})).text

"""The audit log over REST: every change is in it, it is read page by page, and exported as lines."""

from __future__ import annotations

import json
from datetime import timedelta

import httpx2
import pytest

from provisioner.api.routes import audit
from provisioner.api.services import Services
from provisioner.domain.access import AccessRole
from provisioner.domain.audit import AuditEvent
from provisioner.domain.ids import KeyId
from provisioner.domain.origin import Origin
from tests.store.examples import NOON, SteppedClock
from tests.unit.api.callers import caller, stored_key
from tests.unit.api.conftest import REQUEST, idempotent


async def fill(services: Services, clock: SteppedClock, count: int) -> None:
    """So many keys, a minute apart."""
    for number in range(count):
        made = {"created_at": clock.advance(60), "created_by": f"m{number}"}
        key = stored_key(f"k{number}", AccessRole.VIEWER, **made)
        origin = Origin(idempotency_key=key.id, request_digest="", actor="admin:ci", request_id=f"req-{number}")
        await services.store.keys.make(key, origin)


async def test_every_change_over_the_api_leaves_an_event(
    operator: httpx2.AsyncClient, acme: str, clock: SteppedClock
) -> None:
    """Ledger: SEC-03, OPS-06, TEN-12."""
    made = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("e") | {"X-Request-ID": "mine"})
    key = await operator.post("/v1/keys", json={"name": "ci", "tenant": acme}, headers=idempotent("k"))
    await operator.delete(f"/v1/keys/{key.json()['key']['id']}", headers=idempotent("r"))
    await operator.delete("/v1/endpoints/acme/chat", headers=idempotent("d"))
    await operator.post("/v1/endpoints", json=REQUEST | {"tier": "gold"}, headers=idempotent("x"))
    events = (await operator.get("/v1/audit")).json()["items"]
    assert [(event["action"], event["outcome"]) for event in reversed(events)] == [
        ("tenant.create", "accepted"),
        ("tenant.create", "succeeded"),
        ("endpoint.create", "accepted"),
        ("key.create", "succeeded"),
        ("key.revoke", "succeeded"),
        ("endpoint.create", "cancelled"),
        ("endpoint.delete", "accepted"),
    ]
    assert {event["actor"] for event in events} == {"admin:bootstrap"}
    created = next(event for event in events if event["requestId"] == "mine" and event["outcome"] == "accepted")
    assert (created["subject"], created["operation"]) == (made.json()["subject"], made.json()["id"])
    assert (created["beforeDigest"], len(created["afterDigest"])) == ("", 64)


async def test_events_are_read_page_by_page_and_by_what_they_say(
    operator: httpx2.AsyncClient, services: Services, clock: SteppedClock
) -> None:
    """Ledger: DAY-09."""
    await fill(services, clock, 5)
    seen, query = [], {"limit": "2"}
    while True:
        page = (await operator.get("/v1/audit", params=query)).json()
        seen += [event["subject"] for event in page["items"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    assert seen == [f"key-k{number}" for number in (4, 3, 2, 1, 0)]
    since = (NOON + timedelta(minutes=2)).isoformat()
    until = (NOON + timedelta(minutes=4)).isoformat()
    found = (await operator.get("/v1/audit", params={"since": since, "until": until})).json()["items"]
    assert [event["subject"] for event in found] == ["key-k2", "key-k1"]
    for query, count in (
        ({"subject": "key-k3"}, 1),
        ({"action": "key.create"}, 5),
        ({"action": "key.revoke"}, 0),
        ({"actor": "admin:ci"}, 5),
        ({"tenant": "acme"}, 0),
    ):
        assert len((await operator.get("/v1/audit", params=query)).json()["items"]) == count, query


BAD_QUERIES = [
    *("cursor=x", "cursor=-1", "cursor=99999999999999999999"),
    *("limit=0", "limit=1001", "since=noon", "since=2026-01-01T00:00:00"),
]


@pytest.mark.parametrize("query", BAD_QUERIES)
async def test_a_bad_question_is_the_callers_fault(operator: httpx2.AsyncClient, query: str) -> None:
    assert (await operator.get(f"/v1/audit?{query}")).status_code == 422


async def test_an_export_is_json_lines_of_any_length_and_holds_few_at_a_time(
    operator: httpx2.AsyncClient, services: Services, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledger: SEC-03."""
    await fill(services, clock, 7)
    read: list[int] = []
    oldest = services.store.audit.oldest

    async def counted(*wanted: object, **more: object) -> list[AuditEvent]:
        found = list(await oldest(*wanted, **more))  # type: ignore[arg-type]
        read.append(len(found))
        return found

    monkeypatch.setattr(services.store.audit, "oldest", counted)
    monkeypatch.setattr(audit, "EXPORTED_AT_ONCE", 3)
    clock.advance(1)
    answer = await operator.get("/v1/audit/export")
    assert answer.headers["Content-Type"] == "application/jsonl"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["subject"] for line in lines] == [f"key-k{number}" for number in range(7)]
    assert set(lines[0]) == set((await operator.get("/v1/audit?limit=1")).json()["items"][0])
    assert read == [3, 3, 1, 0]
    some = await operator.get("/v1/audit/export", params={"until": (NOON + timedelta(minutes=2)).isoformat()})
    assert [json.loads(line)["subject"] for line in some.text.splitlines()] == ["key-k0"]


async def test_an_event_never_holds_a_secret(operator: httpx2.AsyncClient, acme: str, services: Services) -> None:
    made = await operator.post("/v1/keys", json={"name": "ci", "tenant": acme}, headers=idempotent("k"))
    text = (await operator.get("/v1/audit/export")).text
    stored = await services.store.keys.get(KeyId(made.json()["key"]["id"]))
    assert made.json()["secret"] not in text
    assert stored.digest not in text


async def test_the_log_is_for_administrators(services: Services, transport: httpx2.ASGITransport) -> None:
    for role in (AccessRole.VIEWER, AccessRole.OPERATOR):
        async with await caller(services, transport, role.value, role) as client:
            for path in ("/v1/audit", "/v1/audit/export"):
                assert (await client.get(path)).status_code == 403

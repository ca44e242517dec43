"""External fallback over REST: chosen by administrators, reserved of by gateways, told by what became of requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.catalog.fallback import FallbackBudget, FallbackOffer
from provisioner.domain.access import AccessRole
from provisioner.domain.audit import AuditFilter
from provisioner.reconciler.loop import Reconciler
from tests.store.examples import NOON, SteppedClock
from tests.unit.api.application import application
from tests.unit.api.callers import caller
from tests.unit.api.conftest import GATEWAY_KEY, REQUEST, Wakes, idempotent
from tests.unit.api.test_usage import record, tell
from tests.unit.catalog.packs import site_with

PARTNER = FallbackOffer(
    name="partner",
    url="https://api.partner.example.com/v1",
    credential="partner-key",
    models={"tiny": "partner/tiny-1"},
    budget=FallbackBudget(period="hour", requests=100),
)
OTHER = PARTNER.model_copy(update={"name": "other", "models": {"big": "other/big"}})
GATEWAY = {"Authorization": f"Bearer {GATEWAY_KEY}"}


@pytest.fixture
async def services(services: Services) -> Services:
    """A site with two policies."""
    return replace(services, site=site_with(fallbacks=(PARTNER, OTHER)))


@pytest.fixture
async def chat(operator: httpx2.AsyncClient, acme: str) -> str:
    """The id of endpoint `chat` of tenant acme."""
    made = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("e"))
    assert made.status_code == 202, made.text
    return str(made.json()["subject"])


async def choose(client: httpx2.AsyncClient, key: str, **body: Any) -> httpx2.Response:
    """Choose for acme/chat."""
    form = {"policy": "partner", "enabled": True, "privacyAcknowledged": True} | body
    return await client.put("/v1/fallbacks/acme/chat", json=form, headers=idempotent(key))


async def test_a_choice_is_told_audited_and_taken_back(
    operator: httpx2.AsyncClient, chat: str, services: Services, clock: SteppedClock, wakes: Wakes
) -> None:
    """FAL-05: who acknowledged and when stays with the choice, until the policy is another one."""
    first = (await choose(operator, "a")).json()
    assert first == {
        "endpoint": chat, "tenant": "acme", "policy": "partner", "enabled": True,
        "changedAt": "2026-03-01T12:00:00Z", "acknowledgedBy": "admin:bootstrap",
        "acknowledgedAt": "2026-03-01T12:00:00Z",
    }  # fmt: skip
    clock.advance(60)
    assert (await choose(operator, "a")).json() == first
    off = (await choose(operator, "b", enabled=False)).json()
    assert (off["enabled"], off["acknowledgedAt"]) == (False, first["acknowledgedAt"])
    withdrawn = (await choose(operator, "c", privacyAcknowledged=False)).json()
    assert (withdrawn["acknowledgedBy"], withdrawn["acknowledgedAt"]) == ("", None)
    assert (await operator.get(f"/v1/fallbacks/{chat}")).json() == withdrawn
    assert (await operator.get("/v1/fallbacks?tenant=acme")).json()["items"] == [withdrawn]
    assert wakes.reconciler >= 3
    assert (await operator.delete("/v1/fallbacks/acme/chat", headers=idempotent("d"))).status_code == 204
    assert (await operator.get("/v1/fallbacks/acme/chat")).status_code == 404
    events = await services.store.audit.oldest(AuditFilter(subject=chat))
    told = [(event.action, event.actor) for event in events if event.action.startswith("fallback.")]
    assert told == [("fallback.choose", "admin:bootstrap")] * 3 + [("fallback.remove", "admin:bootstrap")]


async def test_a_policy_has_to_be_the_sites_and_to_have_the_model(operator: httpx2.AsyncClient, chat: str) -> None:
    """FAL-07: an endpoint's model has an exact counterpart there, or the policy is not for it."""
    for policy, reason in (("partnr", "UnknownPolicy"), ("other", "ModelNotMapped")):
        refused = await choose(operator, policy, policy=policy)
        assert (refused.status_code, refused.json()["findings"][0]["reason"]) == (422, reason)


@pytest.mark.parametrize(("role", "status"), [(AccessRole.OPERATOR, 403), (AccessRole.CUSTOMER, 404)])
async def test_only_administrators_let_prompts_leave(
    services: Services, transport: httpx2.ASGITransport, chat: str, role: AccessRole, status: int
) -> None:
    other = await caller(services, transport, "other", role)
    assert (await choose(other, "a")).status_code == status


async def test_gateways_learn_of_the_choice(
    operator: httpx2.AsyncClient, chat: str, services: Services, clock: SteppedClock
) -> None:
    """FAL-06: the credential goes along as a name."""
    await choose(operator, "a", enabled=False)
    reconciler = Reconciler(
        clusters=None,  # type: ignore[arg-type] # nothing is observed
        store=services.store,
        clock=clock,
        policies=services.site.fallback_policies,
    )
    snapshot = await reconciler.publish()
    assert snapshot
    fallback = snapshot.routes[0].fallback
    assert fallback and (fallback.policy, fallback.model) == ("partner", "partner/tiny-1")
    assert (fallback.is_enabled, fallback.is_acknowledged) == (False, True)
    target = fallback.target
    assert (target.address, target.is_public, target.credential) == ("api.partner.example.com:443", True, "partner-key")


async def reserve(stranger: httpx2.AsyncClient, name: str, **body: Any) -> httpx2.Response:
    """Reserve as a gateway does."""
    form = {"reservation": name, "policy": "partner", "requests": 256} | body
    return await stranger.post("/internal/budget", json=form, headers=GATEWAY)


async def test_gateways_reserve_and_give_back(stranger: httpx2.AsyncClient, services: Services) -> None:
    """FAL-08: over the door of the gateways, too, no more than the budget is given."""
    answers = [answer.json() for answer in await asyncio.gather(*(reserve(stranger, f"res-{n:05}") for n in range(6)))]
    assert sum(answer["requests"] for answer in answers) == 100
    assert answers[0]["until"] == (NOON + timedelta(hours=1)).isoformat()
    holder = next(answer["reservation"] for answer in answers if answer["requests"] == 100)
    for _ in range(2):
        body = {"reservation": holder, "unused": 30}
        back = await stranger.post("/internal/budget/return", json=body, headers=GATEWAY)
        assert back.status_code == 204
    assert (await reserve(stranger, "res-later", requests=256)).json()["requests"] == 30


async def test_bad_reservations_are_refused(stranger: httpx2.AsyncClient) -> None:
    assert (await reserve(stranger, "res-00000", policy="partnr")).status_code == 404
    for changes in ({"requests": 257}, {"requests": 0}, {"reservation": "short"}, {"policy": ""}):
        assert (await reserve(stranger, **({"name": "res-00000"} | changes))).status_code == 422
    assert (await stranger.post("/internal/budget", json={})).status_code == 401


async def test_evidence_of_requests_is_kept_within_bounds(
    stranger: httpx2.AsyncClient, operator: httpx2.AsyncClient, chat: str
) -> None:
    """FAL-10: target or denial of a request stay, and nothing that it said."""
    common = {"endpoint": chat, "request_id": "req-1"}
    sent = record(**common, target="partner")
    denied = [record(**common, status=503, outcome="shed", denial="policy_disabled") for _ in range(30)]
    assert (await tell(stranger, record(endpoint=chat), sent, *denied)).json() == {"counted": True}
    assert (await tell(stranger, sent)).json() == {"counted": False}
    first = (await operator.get(f"/v1/fallback-requests?endpoint={chat}&limit=20")).json()
    second = (await operator.get(f"/v1/fallback-requests?endpoint={chat}&cursor={first['nextCursor']}")).json()
    items = first["items"] + second["items"]
    assert [item["denial"] for item in items] == ["policy_disabled"] * 20 + [""]
    assert items[-1] == {
        "id": items[-1]["id"], "at": "2026-03-01T12:00:00Z", "tenant": "acme", "endpoint": chat, "key": "key-gone",
        "requestId": "req-1", "target": "partner", "denial": "", "status": 200, "outcome": "ok",
    }  # fmt: skip


@pytest.fixture
async def gateways(services: Services) -> AsyncIterator[httpx2.AsyncClient]:
    """Gateways, who share a credential."""
    transport = httpx2.ASGITransport(application(services))
    async with httpx2.AsyncClient(transport=transport, base_url="http://api.example.com", headers=GATEWAY) as http:
        yield http


async def test_live_gateways_are_counted_into_the_snapshot(
    gateways: httpx2.AsyncClient, services: Services, clock: SteppedClock, wakes: Wakes
) -> None:
    reconciler = Reconciler(clusters=None, store=services.store, clock=clock)  # type: ignore[arg-type]

    async def told(gateway: str) -> None:
        await gateways.get("/internal/snapshots", headers={"Tenantry-Gateway": gateway})

    async def count() -> int:
        snapshot = await reconciler.publish()
        assert snapshot
        return snapshot.gateways

    assert await count() == 1
    await told("gateway-one")
    await told("gateway-two")
    await told("no id, that")
    assert (await count(), wakes.reconciler) == (2, 2)
    clock.advance(45)
    await told("gateway-two")
    assert await count() == 2
    clock.advance(45)
    assert await count() == 1
    await told("gateway-one")
    assert await count() == 2
    assert (await gateways.delete("/internal/gateways/gateway-one")).status_code == 204
    assert await count() == 1


async def test_a_batch_of_usage_tells_when_its_keys_were_used(
    stranger: httpx2.AsyncClient, operator: httpx2.AsyncClient, acme: str
) -> None:
    made = (await operator.post("/v1/keys", json={"tenant": acme, "name": "ci"}, headers=idempotent("k"))).json()
    key = made["key"]["id"]

    async def last_used() -> object:
        keys = (await operator.get("/v1/keys?tenant=acme")).json()["items"]
        return {one["id"]: one["lastUsedAt"] for one in keys}[key]

    assert await last_used() is None
    await tell(stranger, record(key=key))
    assert await last_used() == "2026-03-01T12:00:00Z"

"""Keys over REST: nobody gives away more than he has, a secret is shown once, and few are made at a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.access import DEFAULT_SCOPES, ROLE_SCOPES, AccessRole, Scope
from provisioner.domain.key import key_digest
from provisioner.domain.snapshot import Allowance
from tests.store.examples import NOON, SteppedClock
from tests.unit.api.callers import caller
from tests.unit.api.conftest import idempotent


async def make(client: httpx2.AsyncClient, key: str, **body: Any) -> httpx2.Response:
    """Ask for a key."""
    return await client.post("/v1/keys", json={"name": key} | body, headers=idempotent(key))


@pytest.mark.parametrize("role", [role for role in AccessRole if role is not AccessRole.CUSTOMER])
async def test_a_key_of_the_providers_own_works_at_once_and_says_what_it_may(
    operator: httpx2.AsyncClient, services: Services, transport: httpx2.ASGITransport, role: AccessRole
) -> None:
    """Ledger: SEC-01, SEC-07, SEC-08."""
    expires = (NOON + timedelta(days=30)).isoformat().replace("+00:00", "Z")
    answer = await make(operator, "automation", role=role, expiresAt=expires)
    assert answer.status_code == 201, answer.text
    secret, key = answer.json()["secret"], answer.json()["key"]
    assert (key["role"], key["tenant"], key["expiresAt"], key["createdBy"]) == (role, None, expires, "key-bootstrap")
    assert set(key["scopes"]) == ROLE_SCOPES[role]
    assert secret.startswith(key["prefix"]) and len(key["prefix"]) < len(secret) / 4
    stored = await services.store.keys.get(key["id"])
    assert stored.digest == key_digest(secret)
    assert secret not in repr(stored)
    headers = {"Authorization": f"Bearer {secret}"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://api.example.com", headers=headers) as client:
        assert (await client.get("/v1/tenants")).status_code == 200


async def test_a_customers_key_has_no_more_than_its_defaults(operator: httpx2.AsyncClient, acme: str) -> None:
    plain = (await make(operator, "plain", tenant=acme)).json()["key"]
    assert set(plain["scopes"]) == DEFAULT_SCOPES[AccessRole.CUSTOMER]
    asked = ["endpoints:write", "endpoints:read", "endpoints:read"]
    more = (await make(operator, "more", tenant=acme, scopes=asked)).json()["key"]
    assert more["scopes"] == ["endpoints:read", "endpoints:write"]


async def test_a_customers_key_may_be_bounded_in_what_is_sent_with_it(
    operator: httpx2.AsyncClient, acme: str, services: Services
) -> None:
    bound = {"requestsPerMinute": 60, "tokensPerMinute": None}
    made = (await make(operator, "slow", tenant=acme, allowance={"requestsPerMinute": 60})).json()["key"]
    assert made["allowance"] == bound
    (listed,) = (await operator.get("/v1/keys", params={"tenant": acme})).json()["items"]
    assert listed["allowance"] == bound
    assert (await services.store.keys.get(made["id"])).allowance == Allowance(requests_per_minute=60)
    assert (await make(operator, "free", tenant=acme, allowance={})).json()["key"]["allowance"] is None
    for refused in ({"allowance": {"requestsPerMinute": 0}, "tenant": acme}, {"allowance": bound, "role": "viewer"}):
        answer = await make(operator, "none", **refused)
        assert answer.status_code == 422
        assert answer.json()["findings"][0]["field"].startswith("allowance")


async def test_a_repeated_request_answers_the_key_without_its_secret_and_says_so(
    operator: httpx2.AsyncClient, acme: str, services: Services
) -> None:
    """Ledger: OPS-01."""
    first, again = await make(operator, "ci", tenant=acme), await make(operator, "ci", tenant=acme)
    assert again.status_code == 201
    assert (again.json()["secret"], again.json()["key"]) == (None, first.json()["key"])
    assert "was shown then" in again.json()["hint"]
    other = await operator.post("/v1/keys", json={"name": "other", "tenant": acme}, headers=idempotent("ci"))
    assert (other.status_code, other.json()["reason"]) == (422, "IdempotencyKeyReused")
    assert len(await services.store.keys.list(tenant=acme)) == 1


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_every_change_needs_an_idempotency_key(operator: httpx2.AsyncClient, acme: str, method: str) -> None:
    """Ledger: OPS-01."""
    path = "/v1/keys" if method == "POST" else "/v1/keys/key-bootstrap"
    answer = await operator.request(method, path, json={"name": "ci", "tenant": acme})
    assert (answer.status_code, answer.json()["reason"]) == (400, "IdempotencyKeyMissing")


@pytest.mark.parametrize(
    ("maker", "asked", "fields"),
    [
        ({"scopes": (Scope.KEYS_WRITE, Scope.KEYS_READ)}, {"role": "viewer"}, {"scopes"}),
        ({"scopes": (Scope.KEYS_WRITE, Scope.KEYS_READ)}, {"role": "admin", "scopes": ["keys:read"]}, set()),
        ({"scopes": (Scope.KEYS_WRITE,)}, {"role": "admin", "scopes": ["audit:read"]}, {"scopes"}),
        ({"scopes": (Scope.KEYS_WRITE,)}, {"tenant": "acme"}, {"scopes"}),
        ({"scopes": (Scope.KEYS_WRITE,)}, {"tenant": "acme", "scopes": ["inference:call"]}, set()),
        ({}, {"role": "admin"}, set()),
    ],
)
async def test_nobody_makes_a_key_that_may_more_than_his_own(
    services: Services, transport: httpx2.ASGITransport, acme: str,
    maker: dict[str, Any], asked: dict[str, Any], fields: set[str],
) -> None:  # fmt: skip
    """Ledger: SEC-01."""
    async with await caller(services, transport, "maker", AccessRole.ADMIN, **maker) as client:
        answer = await make(client, "gift", **asked)
        assert answer.status_code == (403 if fields else 201), answer.text
        assert {finding["field"] for finding in answer.json().get("findings", ())} == fields


async def test_a_maker_of_one_tenant_makes_keys_of_that_tenant(
    services: Services, transport: httpx2.ASGITransport, acme: str
) -> None:
    async with await caller(services, transport, "bound", AccessRole.ADMIN, tenant="acme") as client:
        assert (await make(client, "silent", role="operator")).json()["key"]["tenant"] == "acme"
        assert (await make(client, "spoken", tenant="acme")).json()["key"]["tenant"] == "acme"
        assert (await make(client, "foreign", tenant="other")).status_code == 404
        assert (await client.delete("/v1/keys/key-bootstrap", headers=idempotent("r"))).status_code == 404


async def test_a_sixth_key_within_a_minute_waits(
    operator: httpx2.AsyncClient, acme: str, clock: SteppedClock, services: Services, transport: httpx2.ASGITransport
) -> None:
    for number in range(5):
        assert (await make(operator, f"key-{number}", tenant=acme)).status_code == 201
        clock.advance(5)
    refused = await make(operator, "sixth", tenant=acme)
    assert (refused.status_code, refused.json()["reason"]) == (429, "TooManyKeys")
    assert refused.headers["Retry-After"] == "35"
    assert (await make(operator, "key-0", tenant=acme)).status_code == 201  # a repeated one makes none
    async with await caller(services, transport, "maker", AccessRole.ADMIN) as other:
        assert (await make(other, "mine", tenant=acme)).status_code == 201
    clock.advance(35)
    assert (await make(operator, "sixth", tenant=acme)).status_code == 201


async def test_the_last_administrator_stays(operator: httpx2.AsyncClient) -> None:
    kept = await operator.delete("/v1/keys/key-bootstrap", headers=idempotent("r"))
    assert (kept.status_code, kept.json()["reason"]) == (409, "LastAdminKey")
    assert (await make(operator, "second", role="admin")).status_code == 201
    gone = await operator.delete("/v1/keys/key-bootstrap", headers=idempotent("s"))
    assert gone.json()["revokedAt"] is not None
    assert (await operator.get("/v1/keys")).status_code == 401


async def test_keys_are_listed_newest_first_with_the_revoked_ones_and_no_secret(
    operator: httpx2.AsyncClient, acme: str, clock: SteppedClock
) -> None:
    """Ledger: SEC-07."""
    secrets = []
    for name in ("old", "new"):
        clock.advance(1)
        secrets.append((await make(operator, name, tenant=acme)).json()["secret"])
    listed = await operator.get("/v1/keys")
    assert [key["name"] for key in listed.json()["items"]] == ["new", "old", "bootstrap"]
    assert not any(secret in listed.text or key_digest(secret) in listed.text for secret in secrets)

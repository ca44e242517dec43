"""Teams over REST: endpoints and keys belong to those that were made, and to no others."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.access import AccessRole
from tests.unit.api.callers import caller
from tests.unit.api.conftest import REQUEST, idempotent


async def make(client: httpx2.AsyncClient, name: str = "research", **body: Any) -> httpx2.Response:
    """Ask for a team of tenant acme."""
    form = {"tenant": "acme", "name": name} | body
    return await client.post("/v1/teams", json=form, headers=idempotent(f"team-{name}"))


async def test_a_team_is_made_once_renamed_and_removed(operator: httpx2.AsyncClient, acme: str) -> None:
    """Ledger: OPS-01."""
    made, again = await make(operator, displayName="Research"), await make(operator, displayName="Research")
    assert (made.status_code, again.status_code, again.json()) == (201, 201, made.json())
    path = made.headers["Location"]
    assert path == "/v1/teams/acme/research"
    assert made.json() == {
        "tenant": acme, "name": "research", "displayName": "Research", "createdAt": "2026-03-01T12:00:00Z",
    }  # fmt: skip
    for _ in range(2):  # the second time it is the same request, which is not refused for its old tag
        headers = idempotent("r") | {"If-Match": made.headers["ETag"]}
        renamed = await operator.patch(path, json={"displayName": "Labs"}, headers=headers)
        assert (renamed.status_code, renamed.json()["displayName"]) == (200, "Labs")
    old = idempotent("o") | {"If-Match": made.headers["ETag"]}
    refused = await operator.patch(path, json={"displayName": "Other"}, headers=old)
    assert (refused.status_code, refused.json()["reason"]) == (412, "PreconditionFailed")
    seen = await operator.get(path)
    assert (seen.json(), seen.headers["ETag"]) == (renamed.json(), renamed.headers["ETag"])
    for _ in range(2):
        assert (await operator.delete(path, headers=idempotent("d"))).status_code == 204
    assert (await operator.get(path)).json()["reason"] == "TeamUnknown"
    assert (await operator.delete(path, headers=idempotent("e"))).status_code == 404


async def test_endpoints_and_keys_belong_to_teams_that_are_there(
    operator: httpx2.AsyncClient, acme: str, services: Services
) -> None:
    asked = (("/v1/endpoints", REQUEST), ("/v1/keys", {"tenant": acme, "name": "ci"}))
    for path, body in asked:
        answer = await operator.post(path, json=body | {"team": "research"}, headers=idempotent("z"))
        assert answer.json()["findings"][0]["hint"].startswith(
            "it has no team yet; make one with `tenantry team create"
        )
    await make(operator, "research")
    for path, body in asked:
        answer = await operator.post(path, json=body | {"team": "reserach"}, headers=idempotent("a"))
        (finding,) = answer.json()["findings"]
        assert (answer.status_code, finding["reason"], finding["field"]) == (422, "UnknownTeam", "team")
        assert "did you mean `research`?" in finding["hint"]
        assert "`tenantry team create acme/NAME`" in finding["hint"]
    assert not await services.store.endpoints.list() and not await services.store.keys.list(tenant=acme)
    for path, body in asked:
        answer = await operator.post(path, json=body | {"team": "research"}, headers=idempotent("b"))
        assert answer.status_code in (201, 202), answer.text
    refused = await operator.delete("/v1/teams/acme/research", headers=idempotent("d"))
    assert (refused.status_code, refused.json()["reason"]) == (409, "TeamInUse")
    assert "endpoint `chat`" in refused.json()["detail"] and "key `ci`" in refused.json()["detail"]


async def test_an_endpoint_is_given_to_teams_that_are_there(operator: httpx2.AsyncClient, acme: str) -> None:
    made = (await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("e"))).json()["subject"]
    answer = await operator.post(f"/v1/endpoints/{made}:update", json={"team": "research"}, headers=idempotent("u"))
    assert answer.status_code in (409, 422), answer.text
    if answer.status_code == 422:
        assert [finding["reason"] for finding in answer.json()["findings"]] == ["UnknownTeam"]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"tenant": "nobody"}, {"tenant"}),
        ({"name": "No Name!"}, {"name"}),
        ({"displayName": ""}, {"displayName"}),
        ({"colour": "red"}, {"colour"}),
    ],
)
async def test_a_bad_team_is_refused(
    operator: httpx2.AsyncClient, acme: str, body: dict[str, Any], fields: set[str]
) -> None:
    answer = await operator.post("/v1/teams", json={"tenant": acme, "name": "a"} | body, headers=idempotent("t"))
    assert answer.status_code == 422
    assert {finding["field"] for finding in answer.json()["findings"]} == fields


async def test_teams_of_other_tenants_are_not_there(
    operator: httpx2.AsyncClient, services: Services, transport: httpx2.ASGITransport, acme: str
) -> None:
    """Ledger: SEC-01."""
    await make(operator)
    body = {"name": "other", "tiers": ["dedicated"]}
    assert (await operator.post("/v1/tenants", json=body, headers=idempotent("t"))).status_code == 202
    async with await caller(services, transport, "other", AccessRole.ADMIN, tenant="other") as client:
        assert (await client.get("/v1/teams")).json()["items"] == []
        assert (await client.get("/v1/teams?tenant=acme")).status_code == 404
        assert (await make(client, "mine")).status_code == 404
        known, none = await client.get("/v1/teams/acme/research"), await client.get("/v1/teams/acme/none")
        assert known.status_code == none.status_code == 404
        assert known.json()["detail"].replace("research", "none") == none.json()["detail"]
        gone = await client.delete("/v1/teams/acme/research", headers=idempotent("d"))
        assert gone.status_code == 404
    async with await caller(services, transport, "customer", AccessRole.CUSTOMER) as client:
        assert (await client.get("/v1/teams")).json()["detail"] == (await client.get("/v1/nothing")).json()["detail"]
    async with await caller(services, transport, "viewer", AccessRole.VIEWER) as client:
        assert [team["name"] for team in (await client.get("/v1/teams")).json()["items"]] == ["research"]
        assert (await make(client, "mine")).status_code == 403

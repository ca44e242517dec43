"""Tenants over REST: looked at and changed."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.operation import OperationState
from tests.store.examples import SteppedClock
from tests.unit.api.conftest import claim, end, idempotent
from tests.unit.api.test_endpoints_changes import chat

__all__ = ["chat"]


async def change(
    operator: httpx2.AsyncClient, body: Any, *, tenant: str = "acme", key: str = "change", **headers: str
) -> httpx2.Response:
    return await operator.patch(f"/v1/tenants/{tenant}", json=body, headers={**idempotent(key), **headers})


async def test_a_tenant_is_shown_with_a_tag_for_changes_on_condition(operator: httpx2.AsyncClient, acme: str) -> None:
    shown = await operator.get("/v1/tenants/acme")
    assert (shown.status_code, shown.json()["tiers"], shown.json()["ready"]) == (200, ["dedicated"], True)
    tag = shown.headers["ETag"]
    assert (await operator.get("/v1/tenants/acme", headers={"If-None-Match": tag})).status_code == 304
    none = await operator.get("/v1/tenants/nobody")
    assert (none.status_code, none.json()["reason"]) == (404, "TenantUnknown")
    refused = await change(operator, {"displayName": "A"}, key="old", **{"If-Match": '"old"'})
    assert (refused.status_code, refused.json()["reason"]) == (412, "PreconditionFailed")
    assert (await change(operator, {"displayName": "A"}, **{"If-Match": tag})).status_code == 202
    assert (await operator.get("/v1/tenants/acme")).headers["ETag"] != tag


async def test_what_is_left_out_stays_and_the_same_change_is_answered_with_its_operation(
    operator: httpx2.AsyncClient, acme: str, services: Services, clock: SteppedClock
) -> None:
    asked = await change(operator, {"displayName": "Acme Inc."})
    operation = asked.json()
    assert (asked.status_code, operation["verb"], operation["subject"]) == (202, "tenant.update", "acme")
    assert asked.headers["Location"] == f"/v1/operations/{operation['id']}"
    for key in ("change", "other"):
        again = await change(operator, {"displayName": "Acme Inc."}, key=key)
        assert (again.status_code, again.json()["id"]) == (202, operation["id"])
    other = await change(operator, {"displayName": "Acme"}, key="third")
    assert (other.status_code, other.json()["reason"]) == (409, "OperationInProgress")
    cancelled = await operator.post(f"/v1/operations/{operation['id']}:cancel", headers=idempotent("c"))
    assert (cancelled.status_code, cancelled.json()["reason"]) == (409, "NotCancellable")
    await end(await claim(services, clock), services, clock)
    done = (await operator.get(f"/v1/operations/{operation['id']}")).json()
    assert (done["state"], done["response"]["resource"]) == (OperationState.SUCCEEDED, "/v1/tenants/acme")
    shown = (await operator.get("/v1/tenants/acme")).json()
    assert (shown["displayName"], shown["tiers"]) == ("Acme Inc.", ["dedicated"])
    events = (await operator.get("/v1/audit?subject=acme")).json()["items"]
    assert [event["outcome"] for event in events if event["action"] == "tenant.update"] == ["succeeded", "accepted"]


async def test_other_tiers_asked_for_again_while_they_come_and_go_are_answered_with_their_operation(
    operator: httpx2.AsyncClient, acme: str
) -> None:
    """The row has the tiers of before and those to come by then."""
    first = await change(operator, {"tiers": ["shared"]})
    again = await change(operator, {"tiers": ["shared"]}, key="other")
    assert (again.status_code, again.json().get("id")) == (202, first.json()["id"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tiers": ["nothing"]}, "tiers[0]"),
        ({"tiers": []}, "tiers"),
        ({"name": "other"}, "name"),
        ({"tiers": 1}, "tiers"),
    ],
)
async def test_a_change_is_admitted_like_a_new_tenant(
    operator: httpx2.AsyncClient, acme: str, body: Any, field: str
) -> None:
    refused = await change(operator, body)
    assert refused.status_code == 422
    assert [finding["field"] for finding in refused.json()["findings"]] == [field]


async def test_a_tier_with_endpoints_is_kept_and_they_are_named(operator: httpx2.AsyncClient, chat: str) -> None:
    refused = await change(operator, {"tiers": ["shared"]})
    assert (refused.status_code, refused.json()["reason"]) == (409, "TierInUse")
    assert "chat" in refused.json()["detail"]


async def test_a_name_that_is_taken_says_how_its_tenant_is_changed(operator: httpx2.AsyncClient, acme: str) -> None:
    body = {"name": "acme", "tiers": ["dedicated"]}
    refused = await operator.post("/v1/tenants", json=body, headers=idempotent("again"))
    assert (refused.status_code, refused.json()["reason"]) == (409, "NameTaken")
    assert "tenantry tenant update acme" in refused.json()["hint"]


async def test_a_tenant_that_is_not_ready_is_not_changed(operator: httpx2.AsyncClient) -> None:
    made = await operator.post("/v1/tenants", json={"name": "new", "tiers": ["dedicated"]}, headers=idempotent("n"))
    refused = await change(operator, {"tiers": ["dedicated"]}, tenant="new")
    assert refused.json()["reason"] == "TenantNotReady"
    assert made.json()["id"] in refused.json()["hint"]

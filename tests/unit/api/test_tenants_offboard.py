"""Tenants over REST: off-boarded."""

from __future__ import annotations

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.operation import Verb
from tests.store.examples import SteppedClock
from tests.unit.api.conftest import REQUEST, claim, end, idempotent
from tests.unit.api.test_endpoints_changes import chat

__all__ = ["chat"]


async def leave(
    operator: httpx2.AsyncClient, tenant: str = "acme", *, key: str = "leave", query: str = ""
) -> httpx2.Response:
    return await operator.delete(f"/v1/tenants/{tenant}{query}", headers=idempotent(key))


async def test_tenant_that_has_endpoints_is_kept_and_they_are_named(
    operator: httpx2.AsyncClient, chat: str, services: Services
) -> None:
    answer = await leave(operator)
    assert (answer.status_code, answer.json()["reason"]) == (409, "TenantInUse")
    assert "chat" in answer.json()["detail"]
    assert "`--delete-endpoints`" in answer.json()["hint"] and "`?endpoints=delete`" in answer.json()["hint"]
    tenant = await services.store.tenants.find("acme")
    assert tenant and not tenant.offboarding


async def test_tenant_leaves_with_its_endpoints_where_that_is_said(
    operator: httpx2.AsyncClient, chat: str, services: Services
) -> None:
    """Ledger: TEN-17"""
    answer = await leave(operator, query="?endpoints=delete")
    assert answer.status_code == 202, answer.text
    operation = answer.json()
    assert answer.headers["Location"] == f"/v1/operations/{operation['id']}"
    assert (operation["verb"], operation["subject"]) == ("tenant.offboard", "acme")
    again = await leave(operator, key="again")
    assert (again.status_code, again.json()["id"]) == (202, operation["id"])
    refused = await operator.post("/v1/endpoints", json=REQUEST | {"name": "other"}, headers=idempotent("other"))
    assert (refused.status_code, refused.json()["reason"]) == (409, "TenantOffboarding")
    body = {"tenant": "acme", "name": "late"}
    refused = await operator.post("/v1/keys", json=body, headers=idempotent("late"))
    assert (refused.status_code, refused.json()["reason"]) == (409, "TenantOffboarding")


async def test_tenant_that_left_answers_the_operation_by_which_it_did(
    operator: httpx2.AsyncClient, acme: str, services: Services, clock: SteppedClock
) -> None:
    first = (await leave(operator)).json()
    operation = await claim(services, clock)
    assert operation.verb is Verb.TENANT_OFFBOARD and operation.lease
    await services.store.tenants.erase("acme", operation=operation.id, fence=operation.lease.fence)
    await end(operation, services, clock)
    again = await leave(operator, key="again")
    assert (again.status_code, again.json()["id"], again.json()["state"]) == (202, first["id"], "succeeded")


@pytest.mark.parametrize("query", ["", "?endpoints=delete"])
async def test_tenant_that_never_was_is_not_found(operator: httpx2.AsyncClient, query: str) -> None:
    answer = await leave(operator, "nobody", query=query)
    assert (answer.status_code, answer.json()["reason"]) == (404, "TenantUnknown")


async def test_unknown_choice_for_endpoints_is_refused(operator: httpx2.AsyncClient, acme: str) -> None:
    answer = await leave(operator, query="?endpoints=keep")
    assert answer.status_code == 422


async def test_off_boarding_is_not_cancelled(operator: httpx2.AsyncClient, acme: str) -> None:
    operation = (await leave(operator)).json()["id"]
    refused = await operator.post(f"/v1/operations/{operation}:cancel", headers=idempotent("cancel"))
    assert (refused.status_code, refused.json()["reason"]) == (409, "NotCancellable")

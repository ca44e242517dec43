"""Cancelling operations over REST."""

from __future__ import annotations

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.operation import OperationState
from tests.store.examples import SteppedClock
from tests.unit.api.conftest import REQUEST, Wakes, claim, end, idempotent


async def create(operator: httpx2.AsyncClient) -> dict[str, str]:
    answer = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("create"))
    operation: dict[str, str] = answer.json()
    return operation


async def cancel(operator: httpx2.AsyncClient, operation: str, key: str = "cancel") -> httpx2.Response:
    return await operator.post(f"/v1/operations/{operation}:cancel", headers=idempotent(key))


@pytest.mark.usefixtures("acme")
async def test_cancel_is_accepted_and_again_changes_nothing(
    operator: httpx2.AsyncClient, services: Services, clock: SteppedClock, wakes: Wakes
) -> None:
    made = await create(operator)
    wakes.worker = 0
    answer = await cancel(operator, made["id"])
    assert (answer.status_code, answer.json()["state"], answer.json()["done"]) == (202, "cancelling", False)
    assert answer.headers["Location"] == f"/v1/operations/{made['id']}"
    assert wakes.worker == 1
    assert (await cancel(operator, made["id"], "again")).json()["updatedAt"] == answer.json()["updatedAt"]
    await end(await claim(services, clock), services, clock, state=OperationState.CANCELLED)
    over = await cancel(operator, made["id"], "late")
    assert (over.status_code, over.json()["state"], over.json()["done"]) == (202, "cancelled", True)


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize("state", [OperationState.SUCCEEDED, OperationState.FAILED])
async def test_operation_that_has_ended_is_a_conflict(
    operator: httpx2.AsyncClient, services: Services, clock: SteppedClock, state: OperationState
) -> None:
    made = await create(operator)
    await end(await claim(services, clock), services, clock, state=state)
    refused = await cancel(operator, made["id"])
    assert (refused.status_code, refused.json()["reason"]) == (409, "OperationEnded")


@pytest.mark.usefixtures("acme")
async def test_delete_cannot_be_cancelled_and_goes_on(operator: httpx2.AsyncClient, services: Services) -> None:
    await create(operator)
    deleting = (await operator.delete("/v1/endpoints/acme/chat", headers=idempotent("delete"))).json()
    refused = await cancel(operator, deleting["id"])
    assert (refused.status_code, refused.json()["reason"]) == (409, "NotCancellable")
    assert "cannot be brought back" in refused.json()["detail"]
    assert (await operator.get(f"/v1/operations/{deleting['id']}")).json()["state"] == "pending"


@pytest.mark.usefixtures("acme")
async def test_cancel_needs_an_idempotency_key_and_an_operation(operator: httpx2.AsyncClient) -> None:
    made = await create(operator)
    missing = await operator.post(f"/v1/operations/{made['id']}:cancel")
    assert (missing.status_code, missing.json()["reason"]) == (400, "IdempotencyKeyMissing")
    assert (await cancel(operator, "op-nobody")).status_code == 404

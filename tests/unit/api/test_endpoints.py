"""Endpoints over REST: asked for, shown, given up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.conditions import Stage, StageName, StageState, update_stages
from provisioner.domain.endpoint import Phase
from provisioner.domain.ids import EndpointId, OperationId
from provisioner.domain.operation import OperationState
from tests.store.examples import SteppedClock
from tests.unit.api.conftest import REQUEST, Wakes, claim, end, idempotent


async def create(operator: httpx2.AsyncClient, body: Any = None, *, key: str = "a") -> httpx2.Response:
    return await operator.post("/v1/endpoints", json=REQUEST if body is None else body, headers=idempotent(key))


async def test_creating_answers_the_operation_at_once(
    operator: httpx2.AsyncClient, acme: str, services: Services, wakes: Wakes
) -> None:
    """Ledger: OPS-01, OPS-02, LIF-01, LIF-11."""
    answer = await operator.post(
        "/v1/endpoints", json=REQUEST, headers=idempotent("a") | {"X-Request-ID": "my-request"}
    )
    assert answer.status_code == 202
    operation = answer.json()
    [endpoint] = (await operator.get("/v1/endpoints")).json()["items"]
    assert answer.headers["Location"] == f"/v1/operations/{operation['id']}"
    assert (operation["verb"], operation["state"], operation["subject"]) == (
        "endpoint.create",
        "pending",
        endpoint["id"],
    )
    assert (operation["done"], operation["response"], operation["error"]) == (False, None, None)
    assert [stage["name"] for stage in operation["stages"]] == [name.value for name in StageName]
    stored = await services.store.operations.get(OperationId(operation["id"]))
    assert (stored.request_id, stored.actor, stored.state) == ("my-request", "admin:bootstrap", OperationState.PENDING)
    assert wakes.worker == 2


async def test_the_same_key_answers_the_same_operation(
    operator: httpx2.AsyncClient, acme: str, services: Services
) -> None:
    """Ledger: OPS-01."""
    first = (await create(operator)).json()
    again = await create(operator, json.loads(json.dumps(REQUEST, sort_keys=True)))
    assert again.status_code == 202
    assert again.json()["id"] == first["id"]
    assert again.json()["subject"] == first["subject"]
    assert len(await services.store.endpoints.list()) == 1
    reused = await create(operator, REQUEST | {"name": "other"})
    assert (reused.status_code, reused.json()["reason"]) == (422, "IdempotencyKeyReused")


@pytest.mark.parametrize("key", [None, "", "x" * 129, "a b"])
async def test_without_an_idempotency_key_nothing_is_done(
    operator: httpx2.AsyncClient, acme: str, services: Services, key: str | None
) -> None:
    """Ledger: OPS-01."""
    headers = {"Idempotency-Key": key} if key is not None else {}
    for method, path in (("POST", "/endpoints"), ("POST", "/tenants"), ("DELETE", "/endpoints/acme/chat")):
        answer = await operator.request(method, f"/v1{path}", json=REQUEST, headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (400, "IdempotencyKeyMissing")
    assert await services.store.endpoints.list() == []


async def test_all_findings_come_at_once(operator: httpx2.AsyncClient, acme: str, services: Services) -> None:
    """Ledger: LIF-01."""
    await create(operator)
    wrong = REQUEST | {"model": "tini", "tier": "shared", "scaling": {"minReplicas": 2, "maxReplicas": 1}}
    answer = await create(operator, wrong, key="b")
    assert answer.status_code == 422
    assert {(finding["reason"], finding["field"]) for finding in answer.json()["findings"]} == {
        ("UnknownModel", "model"),
        ("TierNotAllowed", "tier"),
        ("MinAboveMax", "scaling.minReplicas"),
        ("NameTaken", "name"),
    }
    assert all(finding["message"] for finding in answer.json()["findings"])
    assert len(await services.store.endpoints.list()) == 1


async def test_an_unknown_tenant_is_told_with_the_rest(operator: httpx2.AsyncClient, acme: str) -> None:
    answer = await create(operator, REQUEST | {"tenant": "acmee", "region": "nowhere"})
    findings = {finding["field"]: finding for finding in answer.json()["findings"]}
    assert set(findings) == {"tenant", "region"}
    assert "did you mean `acme`?" in findings["tenant"]["hint"]
    alone = await create(operator, REQUEST | {"tenant": "acmee"})
    assert [finding["reason"] for finding in alone.json()["findings"]] == ["UnknownTenant"]


async def test_a_taken_name_is_a_conflict(operator: httpx2.AsyncClient, acme: str) -> None:
    await create(operator)
    answer = await create(operator, key="b")
    assert (answer.status_code, answer.json()["reason"]) == (409, "NameTaken")


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        (b"", 400, "NotJson"),
        (b"{", 400, "NotJson"),
        (b"\xff", 400, "NotJson"),
        (b'{"name": 1, "name": 2}', 400, "NotJson"),
        (b'{"name": NaN}', 400, "NotJson"),
        (b"[" * 100_000, 400, "NotJson"),
        (b"9" * 5000, 400, "NotJson"),
        (b"[]", 422, "InvalidRequest"),
        (b"null", 422, "InvalidRequest"),
        (b'{"name": "\\ud800"}', 422, "InvalidRequest"),
        (b" " * (1024 * 1024) + b"{}", 413, "BodyTooLarge"),
    ],
)
async def test_a_body_that_is_no_request_is_refused(
    operator: httpx2.AsyncClient, acme: str, content: bytes, status: int, reason: str
) -> None:
    for path in ("/endpoints", "/tenants", "/plan", "/keys"):
        answer = await operator.post(f"/v1{path}", content=content, headers=idempotent("a"))
        assert (answer.status_code, answer.json()["reason"]) == (status, reason), path


async def test_an_endpoint_is_shown_in_four_groups(
    operator: httpx2.AsyncClient, acme: str, services: Services, clock: SteppedClock
) -> None:
    """Ledger: LIF-03, LIF-04."""
    created = (await create(operator)).json()["subject"]
    shown = (await operator.get("/v1/endpoints/acme/chat")).json()
    assert shown == (await operator.get(f"/v1/endpoints/{created}")).json()
    assert (shown["phase"], shown["stage"]) == ("Creating", "project")
    assert shown["url"] == "https://chat.acme.example.com/v1"
    assert shown["model"] == {
        "id": "tiny",
        "alias": "chat",
        "servedModel": "tiny",
        "runtime": "llama-cpp",
        "kind": "chat",
        "state": "Pending",
    }
    assert shown["identifiers"] == {
        "project": "acme-dedicated",
        "tenantCluster": created,
        "template": "tenantry-dedicated",
        "templateVersion": "1.0.0",
        "nodeType": "laptop.gpu",
        "nodeClaims": [],
        "route": created,
        "operation": shown["identifiers"]["operation"],
        "revision": shown["identifiers"]["revision"],
    }
    assert [e["id"] for e in (await operator.get("/v1/endpoints?tenant=acme")).json()["items"]] == [created]


async def test_a_list_of_a_tenant_that_is_not_there_is_refused_and_one_without_endpoints_is_empty(
    operator: httpx2.AsyncClient, acme: str
) -> None:
    assert (await operator.get("/v1/endpoints?tenant=acme")).json()["items"] == []
    for path in ("endpoints", "endpoints:watch", "keys", "teams", "projects", "fallbacks"):
        answer = await operator.get(f"/v1/{path}?tenant=nobody")
        assert (answer.status_code, answer.json()["reason"]) == (404, "TenantUnknown"), path
        assert "tenantry tenant list" in answer.json()["hint"]


async def test_stages_say_how_long_each_took(
    operator: httpx2.AsyncClient, acme: str, services: Services, clock: SteppedClock
) -> None:
    """Ledger: LIF-04."""
    accepted = (await create(operator)).json()
    operation = await claim(services, clock)
    assert operation.lease is not None
    endpoint = await services.store.endpoints.get(EndpointId(accepted["subject"]))
    for seconds, name, state in ((3, StageName.PROJECT, StageState.DONE), (4, StageName.CAPACITY, StageState.DONE)):
        now = clock.advance(seconds)
        stages = update_stages(endpoint.stages, [Stage(name=name, state=state)], now)
        endpoint = replace(endpoint, stages=stages, updated_at=now)
    await services.store.endpoints.save(endpoint, operation=operation.id, fence=operation.lease.fence)
    clock.advance(5)
    view = (await operator.get(f"/v1/operations/{operation.id}")).json()
    elapsed = {stage["name"]: stage["elapsedSeconds"] for stage in view["stages"]}
    assert (elapsed["project"], elapsed["delivery"], elapsed["placement"], elapsed["capacity"]) == (3.0, 9.0, None, 0.0)
    assert (await operator.get("/v1/endpoints/acme/chat")).json()["stage"] == "delivery"


async def test_the_time_of_a_stage_that_failed_stands_still(
    operator: httpx2.AsyncClient, acme: str, services: Services, clock: SteppedClock
) -> None:
    accepted = (await create(operator)).json()
    operation = await claim(services, clock)
    assert operation.lease is not None
    endpoint = await services.store.endpoints.get(EndpointId(accepted["subject"]))
    now = clock.advance(3)
    stages = update_stages(endpoint.stages, [Stage(name=StageName.PROJECT, state=StageState.ERROR)], now)
    failed = replace(endpoint, phase=Phase.FAILED, stages=stages, updated_at=now)
    await services.store.endpoints.save(failed, operation=operation.id, fence=operation.lease.fence)
    clock.advance(60)
    view = (await operator.get("/v1/endpoints/acme/chat")).json()
    assert view["stages"][0]["elapsedSeconds"] == 3.0


async def test_a_delete_shows_its_own_steps_and_not_the_stages_of_the_creation(
    operator: httpx2.AsyncClient, acme: str
) -> None:
    await create(operator)
    deleting = (await operator.delete("/v1/endpoints/acme/chat", headers=idempotent("d"))).json()
    assert deleting["stages"] == []
    assert (await operator.get(f"/v1/operations/{deleting['id']}")).json()["stages"] == []


@pytest.mark.parametrize("reference", ["ep-none", "acme/none", "none/chat", "a/b/c", "x" * 500, "ä", "acme%2Fnone"])
async def test_an_unknown_endpoint_is_not_found(operator: httpx2.AsyncClient, acme: str, reference: str) -> None:
    for method in ("GET", "DELETE"):
        answer = await operator.request(method, f"/v1/endpoints/{reference}", headers=idempotent("d"))
        assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")
        assert "tenantry endpoint list" in answer.json()["hint"]


@pytest.mark.parametrize(
    "path", ["/endpoints/%00", "/endpoints/acme/a%00b", "/endpoints?tenant=%00", "/operations/%00", "/keys?tenant=a%00"]
)
async def test_a_nul_in_the_address_never_reaches_the_database(
    operator: httpx2.AsyncClient, acme: str, path: str
) -> None:
    answer = await operator.get(f"/v1{path}")
    assert (answer.status_code, answer.json()["reason"]) == (422, "Rejected")


async def test_deleting_is_an_operation_and_deleting_again_changes_nothing(
    operator: httpx2.AsyncClient, acme: str, services: Services, clock: SteppedClock, wakes: Wakes
) -> None:
    """Ledger: TEN-05."""
    endpoint_id = (await create(operator)).json()["subject"]
    first = await operator.delete("/v1/endpoints/acme/chat", headers=idempotent("d"))
    assert first.status_code == 202
    assert (first.json()["verb"], first.json()["subject"]) == ("endpoint.delete", endpoint_id)
    assert first.headers["Location"] == f"/v1/operations/{first.json()['id']}"
    assert wakes.reconciler == 1
    assert (await services.store.endpoints.get(endpoint_id)).phase is Phase.DELETING
    running = await operator.delete(f"/v1/endpoints/{endpoint_id}", headers=idempotent("e"))
    assert running.json()["id"] == first.json()["id"]
    operation = await claim(services, clock)
    assert operation.lease is not None
    await services.store.endpoints.remove(endpoint_id, operation=operation.id, fence=operation.lease.fence)
    await end(operation, services, clock)
    for reference in ("acme/chat", endpoint_id):
        again = await operator.delete(f"/v1/endpoints/{reference}", headers=idempotent("f"))
        assert (again.status_code, again.json()["state"]) == (202, "succeeded")
        assert again.json()["id"] == first.json()["id"]
    repeated = await create(operator)
    assert (repeated.status_code, repeated.json()["subject"]) == (202, endpoint_id)


async def test_a_failed_delete_can_be_asked_for_again(
    operator: httpx2.AsyncClient, acme: str, services: Services, clock: SteppedClock
) -> None:
    await create(operator)
    first = await operator.delete("/v1/endpoints/acme/chat", headers=idempotent("d"))
    await end(await claim(services, clock), services, clock, state=OperationState.FAILED)
    second = await operator.delete("/v1/endpoints/acme/chat", headers=idempotent("e"))
    assert second.status_code == 202
    assert second.json()["id"] != first.json()["id"]


async def test_a_tenant_whose_projects_are_being_made_is_waited_for(
    operator: httpx2.AsyncClient, asked_tenant: str, services: Services
) -> None:
    answer = await create(operator)
    assert (answer.status_code, answer.json()["reason"]) == (503, "TenantNotReady")
    assert "tenantry operation wait op-" in answer.json()["hint"]
    assert await services.store.endpoints.list() == []


async def test_a_text_that_postgresql_does_not_take_is_not_looked_for(
    operator: httpx2.AsyncClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for: list[str] = []

    async def find(*names: str) -> None:
        looked_for.extend(names)

    monkeypatch.setattr(services.store.tenants, "find", find)
    monkeypatch.setattr(services.store.endpoints, "find", find)
    answer = await operator.post("/v1/plan", json=REQUEST | {"tenant": "a\0b", "name": "c\0d"})
    assert answer.status_code == 422
    assert looked_for == []

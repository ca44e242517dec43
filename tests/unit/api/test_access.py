"""Who may call what, and what strangers learn."""

from __future__ import annotations

import httpx2
import pytest

from provisioner.api.services import Services
from tests.unit.api.callers import every_route
from tests.unit.api.conftest import GATEWAY_KEY, OPERATOR_KEY, REQUEST, Wakes, idempotent

DOORS = [("GET", "/internal/snapshots")]
NO_KEYS: list[bytes | None] = [
    None,
    b"Bearer",
    b"Basic b3BlcmF0b3I6",
    b"Bearer wrong",
    b"Bearer " + b"x" * 5000,
    b"Bearer tnt-" + b"a" * 43,
    b"Bearer operator key",
]


@pytest.mark.parametrize("authorization", NO_KEYS)
async def test_strangers_learn_nothing(
    stranger: httpx2.AsyncClient, services: Services, acme: str, authorization: bytes | None
) -> None:
    """Ledger: LIF-11, TEN-01."""
    headers = [(b"Idempotency-Key", b"a"), *([(b"Authorization", authorization)] if authorization else [])]
    routes = [(route.method, route.filled({"reference": "acme/chat"})) for route in every_route(services)]
    for method, path in (*routes, *DOORS):
        answer = await stranger.request(method, path, headers=headers, json=REQUEST)
        assert answer.status_code == 401, (method, path)
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert not {"acme", "dedicated", "tiny", "chat"} & set(answer.text.replace('"', " ").split())


async def test_an_unauthenticated_create_stores_and_wakes_nothing(
    stranger: httpx2.AsyncClient, services: Services, acme: str, wakes: Wakes
) -> None:
    """Ledger: LIF-11."""
    before = wakes.worker
    answer = await stranger.post("/v1/endpoints", json=REQUEST, headers=idempotent("a"))
    assert answer.status_code == 401
    assert [o.verb for o in await services.store.operations.list()] == ["tenant.create"]
    assert await services.store.endpoints.list() == []
    assert wakes.worker == before


async def test_the_two_credentials_are_apart(stranger: httpx2.AsyncClient) -> None:
    gateway, operator = {"Authorization": f"Bearer {GATEWAY_KEY}"}, {"Authorization": f"Bearer {OPERATOR_KEY}"}
    assert (await stranger.get("/v1/tenants", headers=gateway)).status_code == 401
    assert (await stranger.get("/internal/snapshots", headers=operator)).status_code == 401
    assert (await stranger.get("/v1/tenants", headers=operator)).status_code == 200


async def test_health_is_for_anybody(stranger: httpx2.AsyncClient) -> None:
    assert (await stranger.get("/healthz")).json() == {"status": "ok"}
    assert (await stranger.get("/readyz")).json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("sent", "is_kept"),
    [("trace-1.a_B", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("ä", False), ("", False)],
)
async def test_a_harmless_request_id_is_kept_and_another_replaced(
    stranger: httpx2.AsyncClient, sent: str, is_kept: bool
) -> None:
    answer = await stranger.get("/v1/tenants", headers={b"X-Request-ID": sent.encode()})
    echoed = answer.headers["X-Request-ID"]
    assert (echoed == sent) is is_kept
    assert echoed.startswith("req-") is not is_kept
    assert answer.json()["requestId"] == echoed


async def test_unknown_paths_and_methods_are_problems_too(operator: httpx2.AsyncClient) -> None:
    assert (await operator.get("/api/v2/nothing")).json()["reason"] == "NotFound"
    wrong = await operator.put("/v1/tenants")
    assert (wrong.status_code, wrong.json()["reason"]) == (405, "MethodNotAllowed")
    assert (await operator.get("/v1/operations/op-1?wait=31")).status_code == 422

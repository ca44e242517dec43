"""Who may call what, and what strangers learn."""

from __future__ import annotations

import re

import httpx2
import pytest

from provisioner.api.app import create_app
from provisioner.api.services import Services
from tests.unit.api.conftest import GATEWAY_KEY, OPERATOR_KEY, REQUEST, Wakes, idempotent

ROUTES = [
    ("GET", "/v1/tiers"),
    ("GET", "/v1/tiers/dedicated"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/prefill?model=tiny"),
    ("GET", "/v1/models/acme/speech"),
    ("POST", "/v1/plan"),
    ("GET", "/v1/tenants"),
    ("POST", "/v1/tenants"),
    ("GET", "/v1/endpoints"),
    ("POST", "/v1/endpoints"),
    ("GET", "/v1/endpoints/acme/chat"),
    ("DELETE", "/v1/endpoints/acme/chat"),
    ("GET", "/v1/fleet"),
    ("GET", "/v1/operations"),
    ("GET", "/v1/operations/op-1"),
    ("POST", "/v1/operations/op-1:cancel"),
    ("GET", "/v1/keys"),
    ("POST", "/v1/keys"),
    ("DELETE", "/v1/keys/key-1"),
    ("GET", "/v1/audit"),
    ("GET", "/v1/audit/export"),
    ("GET", "/internal/snapshots"),
]


def test_every_route_is_in_the_list_above(services: Services) -> None:
    listed = {(method, path.partition("?")[0]) for method, path in ROUTES}
    for path, methods in create_app(services).openapi()["paths"].items():
        pattern = re.sub(r"\{[^}]*\}", ".+", path)
        for method in methods:
            is_listed = any(m == method.upper() and re.fullmatch(pattern, p) for m, p in listed)
            assert is_listed, f"{method} {path}"


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("Bearer", 401),
        ("Basic b3BlcmF0b3I6", 401),
        ("Bearer wrong", 401),
        (f"Bearer {'x' * 5000}", 401),
        ("Bearer tnt-" + "a" * 43, 401),
        ("Bearer operator key", 401),
        (b"Bearer \xff\xfe", 401),
        ("Bearer a\0b", 401),
    ],
)
async def test_strangers_learn_nothing(
    stranger: httpx2.AsyncClient, acme: str, method: str, path: str, authorization: str | bytes | None, status: int
) -> None:
    """Ledger: LIF-11, TEN-01."""
    headers = [(b"Idempotency-Key", b"a")]
    if authorization:
        sent = authorization if isinstance(authorization, bytes) else authorization.encode()
        headers.append((b"Authorization", sent))
    answer = await stranger.request(method, path, headers=headers, json=REQUEST)
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert not {"acme", "dedicated", "tiny", "op-", "key-1"} & set(answer.text.replace('"', " ").split())
    assert (answer.headers.get("WWW-Authenticate") == "Bearer") is (status == 401)


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

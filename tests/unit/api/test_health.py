"""What a process without the API answers: probes, and nothing else."""

from __future__ import annotations

import httpx2
import pytest

from provisioner.api.app import create_health_app
from provisioner.api.services import Services
from provisioner.domain.errors import RetryableError


@pytest.fixture
def other(services: Services) -> httpx2.AsyncClient:
    """A client of a process without the API."""
    transport = httpx2.ASGITransport(app=create_health_app(services.store, ids=services.ids))
    return httpx2.AsyncClient(transport=transport, base_url="http://worker")


async def test_process_without_the_api_answers_probes_only(other: httpx2.AsyncClient) -> None:
    assert (await other.get("/healthz")).json() == {"status": "ok"}
    assert (await other.get("/readyz")).json() == {"status": "ok"}
    for path in ("/v1/endpoints", "/internal/snapshots", "/docs", "/openapi.json"):
        assert (await other.get(path)).status_code == 404, path


async def test_process_is_not_ready_without_its_database(
    other: httpx2.AsyncClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> int:
        raise RetryableError("reading the database: away", reason="DatabaseAway")

    monkeypatch.setattr(services.store.snapshots, "version", away)
    assert (await other.get("/readyz")).status_code == 503
    assert (await other.get("/healthz")).status_code == 200

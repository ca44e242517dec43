"""What runs, as the API tells it and previews read it."""

from __future__ import annotations

import httpx2

from provisioner.preview.fleet import read_fleet
from tests.unit.api.conftest import REQUEST, idempotent


async def test_fleet_holds_each_endpoints_request_and_the_version_it_pins(
    operator: httpx2.AsyncClient, acme: str
) -> None:
    created = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("one"))
    answer = await operator.get("/v1/fleet")
    assert answer.status_code == 200
    [endpoint] = answer.json()["endpoints"]
    assert endpoint["id"] == created.json()["subject"]
    assert endpoint["templateVersion"] == "1.0.0"
    assert endpoint["replicas"] == 0
    assert {name: endpoint["request"][name] for name in REQUEST} == REQUEST
    assert endpoint["request"]["traffic"] == {}


async def test_previews_read_the_fleet_as_the_api_tells_it(operator: httpx2.AsyncClient, acme: str) -> None:
    await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("one"))
    [endpoint] = read_fleet((await operator.get("/v1/fleet")).content, file="fleet.json").endpoints
    assert (endpoint.tenant, endpoint.request["model"], endpoint.template_version) == ("acme", "tiny", "1.0.0")


async def test_an_endpoint_that_is_being_deleted_runs_no_more(operator: httpx2.AsyncClient, acme: str) -> None:
    created = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("one"))
    endpoint = created.json()["subject"]
    await operator.delete(f"/v1/endpoints/{endpoint}", headers=idempotent("two"))
    assert (await operator.get("/v1/fleet")).json()["endpoints"] == []

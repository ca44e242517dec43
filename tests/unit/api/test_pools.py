"""Pools and the endpoints on them over REST: who makes one, what needs one, what is shown and refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx2

from provisioner.api.services import Services
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.ids import EndpointId
from tests.store.examples import SteppedClock
from tests.unit.api.conftest import REQUEST, claim, end, idempotent

POOL = EndpointId("pool-shared-local")


async def make(operator: httpx2.AsyncClient, path: str, body: dict[str, Any], key: str) -> httpx2.Response:
    return await operator.post(path, json=body, headers=idempotent(key))


async def finished(services: Services, clock: SteppedClock, endpoint: EndpointId | None = None, **runtime: Any) -> None:
    """A worker ends what is due; an endpoint is Ready by it, and runs as `runtime` says."""
    operation = await claim(services, clock)
    assert operation.lease is not None
    if endpoint is not None:
        row: Endpoint = await services.store.endpoints.get(endpoint)
        plan = replace(row.plan, runtime=replace(row.plan.runtime, **runtime))
        ready = replace(row, phase=Phase.READY, plan=plan)
        await services.store.endpoints.save(ready, operation=operation.id, fence=operation.lease.fence)
    else:
        tenant = await services.store.tenants.find(operation.subject)
        assert tenant is not None
        ready_tenant = replace(tenant, ready=True)
        await services.store.tenants.save(ready_tenant, operation=operation.id, fence=operation.lease.fence)
    await end(operation, services, clock)


async def test_a_pool_is_an_endpoint_of_the_providers_and_serves_others(
    operator: httpx2.AsyncClient, services: Services, clock: SteppedClock
) -> None:
    """Ledger: TEN-02, LIF-03"""
    for tenant in ("pool", "acme"):
        assert (await make(operator, "/v1/tenants", {"name": tenant, "tiers": ["shared"]}, tenant)).status_code == 202
        await finished(services, clock)
    asked = {**REQUEST, "tier": "shared"}
    early = (await make(operator, "/v1/endpoints", asked, "early")).json()
    assert [(found["reason"], found["field"]) for found in early["findings"]] == [("PoolNotFound", "model")]

    made = await make(operator, "/v1/endpoints", {**asked, "tenant": "pool", "name": "tiny"}, "publish")
    assert (made.status_code, made.json().get("subject")) == (202, POOL), made.text
    await finished(services, clock, POOL, revision="fff000", max_replicas=7)
    twice = await make(operator, "/v1/endpoints", {**asked, "tenant": "pool", "name": "other"}, "twice")
    assert (twice.status_code, twice.json()["reason"]) == (409, "PoolExists"), twice.text

    alias = (await make(operator, "/v1/endpoints", asked, "alias")).json()["subject"]
    await finished(services, clock, EndpointId(alias))
    for shown in (
        (await operator.get("/v1/endpoints/acme/chat")).json(),
        (await operator.get("/v1/endpoints?tenant=acme")).json()["items"][0],
    ):
        assert (shown["identifiers"]["tenantCluster"], shown["identifiers"]["revision"]) == (POOL, "fff000")
        assert (shown["id"], shown["scaling"]["maxReplicas"]) == (alias, 7)

    answer = await make(operator, "/v1/endpoints/acme/chat:scale", {"maxReplicas": 1}, "scale")
    assert (answer.status_code, answer.json()["reason"]) == (422, "PoolHasReplicas")
    answer = await make(operator, "/v1/endpoints/acme/chat:restart", {}, "restart")
    assert (answer.status_code, answer.json()["reason"]) == (422, "PoolHasReplicas")
    answer = await make(operator, "/v1/endpoints/acme/chat:update", {"model": "tiny", "scaling": {}}, "update")
    assert {(found["reason"], found["field"]) for found in answer.json()["findings"]} == {
        ("PoolServesAsPublished", "model"),
        ("PoolServesAsPublished", "scaling"),
    }
    answer = await operator.delete(f"/v1/endpoints/{POOL}", headers=idempotent("delete"))
    assert (answer.status_code, answer.json()["reason"]) == (409, "PoolInUse")
    assert "acme/chat" in answer.json()["detail"]

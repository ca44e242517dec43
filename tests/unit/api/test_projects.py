"""Projects over REST: what a tenant may use of each tier, as creating the tenant renders it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.access import AccessRole
from provisioner.rendering.pack import compile_pack
from tests.unit.api.application import application
from tests.unit.api.callers import caller
from tests.unit.api.conftest import OPERATOR_KEY, idempotent


@pytest.fixture
def transport(services: Services) -> httpx2.ASGITransport:
    """The application with the small catalog's pack."""
    pack = compile_pack(services.catalog, services.site)
    return httpx2.ASGITransport(application(replace(services, project=pack.project)))


@pytest.fixture
async def tenants(operator: httpx2.AsyncClient, acme: str) -> AsyncIterator[list[str]]:
    """Tenants acme, acme-eu and zeta, of which acme is ready."""
    for name in ("acme-eu", "zeta"):
        body = {"name": name, "tiers": ["shared", "dedicated"]}
        assert (await operator.post("/v1/tenants", json=body, headers=idempotent(name))).status_code == 202
    yield ["acme-dedicated", *(f"{name}-{tier}" for name in ("acme-eu", "zeta") for tier in ("dedicated", "shared"))]


async def test_a_project_tells_quotas_node_types_and_templates(
    operator: httpx2.AsyncClient, tenants: list[str]
) -> None:
    """Ledger: TEN-06."""
    assert (await operator.get("/v1/projects/acme-dedicated")).json() == {
        "name": "acme-dedicated",
        "tenant": "acme",
        "tier": "dedicated",
        "offered": True,
        "ready": True,
        "controlPlanes": ["control-plane"],
        "allowedTemplates": ["tenantry-dedicated"],
        "allowedNodeTypes": ["laptop.gpu", "cloud.big", "cloud.small"],
        "quotas": {"nodeclaims": "20", "virtualclusterinstances": "10"},
    }
    of_nested = (await operator.get("/v1/projects/acme-eu-shared")).json()
    assert (of_nested["tenant"], of_nested["tier"], of_nested["ready"]) == ("acme-eu", "shared", False)
    assert of_nested["allowedNodeTypes"] == []


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_projects_are_listed_page_by_page(operator: httpx2.AsyncClient, tenants: list[str], limit: int) -> None:
    """Ledger: TEN-06."""
    seen, cursor = [], ""
    while True:
        page = (await operator.get(f"/v1/projects?limit={limit}{cursor}")).json()
        assert len(page["items"]) <= limit
        seen += [project["name"] for project in page["items"]]
        if page["nextCursor"] is None:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert seen == tenants
    of_zeta = (await operator.get("/v1/projects?tenant=zeta")).json()["items"]
    assert [project["name"] for project in of_zeta] == ["zeta-dedicated", "zeta-shared"]


async def test_a_tier_that_is_offered_no_more_says_so(
    services: Services, operator: httpx2.AsyncClient, tenants: list[str]
) -> None:
    tiers = {"shared": services.catalog.tiers["shared"]}
    fewer = replace(services, catalog=replace(services.catalog, tiers=tiers))
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    bare = httpx2.AsyncClient(
        transport=httpx2.ASGITransport(application(fewer)), base_url="http://api.example.com", headers=headers
    )
    async with bare as client:
        answer = (await client.get("/v1/projects/acme-dedicated")).json()
    assert (answer["offered"], answer["quotas"], answer["allowedNodeTypes"]) == (False, {}, None)


async def test_projects_of_other_tenants_are_not_there(
    services: Services, transport: httpx2.ASGITransport, tenants: list[str]
) -> None:
    """Ledger: SEC-01."""
    async with await caller(services, transport, "bound", AccessRole.OPERATOR, tenant="zeta") as client:
        names = [project["name"] for project in (await client.get("/v1/projects")).json()["items"]]
        assert names == ["zeta-dedicated", "zeta-shared"]
        assert (await client.get("/v1/projects?tenant=acme")).status_code == 404
        known, none = await client.get("/v1/projects/acme-dedicated"), await client.get("/v1/projects/acme-nothing")
        assert known.status_code == none.status_code == 404
        assert known.json()["detail"].replace("dedicated", "nothing") == none.json()["detail"]
    for name in ("acme", "-", "acme-", "acme-gold", "x" * 500):
        async with await caller(services, transport, f"viewer{len(name)}", AccessRole.VIEWER) as client:
            assert (await client.get(f"/v1/projects/{name}")).status_code == 404

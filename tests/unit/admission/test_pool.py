"""What is asked for in a tier of pools: the pool itself by its operator, an alias on it by everybody else."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.admission import forecast_endpoint, plan_endpoint
from provisioner.admission.admit import parse_request
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from tests.unit.catalog.packs import small_catalog, small_site

ASKED: dict[str, Any] = {
    "name": "chat",
    "tenant": "acme",
    "model": "tiny",
    "region": "local",
    "tier": "shared",
    "scaling": {"minReplicas": 1, "maxReplicas": 1},
}


def planned(**changes: Any) -> EndpointPlan:
    request = parse_request(ASKED | changes)
    return plan_endpoint(request, catalog=small_catalog(), site=small_site(), endpoint_id=EndpointId("ep-new"))


def test_the_providers_tenant_asks_for_the_pool_that_everybody_elses_endpoint_is_on() -> None:
    """Ledger: TEN-02"""
    pool, alias = planned(tenant="pool", serving={"contextSize": 512}), planned()
    assert (pool.endpoint, pool.is_alias, pool.owns_tenant_cluster) == (pool.pool, False, True)
    assert (alias.endpoint, alias.is_alias, alias.owns_tenant_cluster) == ("ep-new", True, False)
    assert alias.placement == pool.placement
    assert pool.address.gateway == alias.address.gateway == ("gateways", "public")
    assert not pool.orders_nodes and planned(tier="dedicated").orders_nodes


def test_a_plan_says_which_pool_serves_a_request() -> None:
    """Ledger: TEN-13"""
    found = forecast_endpoint(ASKED, catalog=small_catalog(), site=small_site())
    told = {finding.reason: finding for finding in found.findings}
    assert "`pool-shared-local`" in told["ServedByPool"].message
    of_pool = forecast_endpoint({**ASKED, "tenant": "pool"}, catalog=small_catalog(), site=small_site())
    assert "ServedByPool" not in {finding.reason for finding in of_pool.findings}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"serving": {"contextSize": 512}}, "PoolServesAsPublished"),
        ({"tenant": "pool", "tier": "dedicated"}, "ReservedName"),
        ({"tenant": "pool", "serving": {"image": f"example.com/own@sha256:{'0' * 64}"}}, "CustomCodeNotAllowed"),
    ],
)
def test_what_no_pool_takes_is_refused(changes: dict[str, Any], reason: str) -> None:
    """Ledger: TEN-03"""
    with pytest.raises(RejectedError) as refused:
        planned(**changes)
    assert reason in {finding.reason for finding in refused.value.findings}

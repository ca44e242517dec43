"""Which node type an endpoint gets, and when there is none."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from provisioner.admission import forecast_endpoint, plan_endpoint
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.quantity import parse_quantity
from provisioner.catalog.site import NodeTypeOffer, Site
from provisioner.catalog.tier import Accelerator
from provisioner.domain.endpoint import EndpointRequest, Scaling
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Severity
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import CapacityPlan
from tests.unit.catalog.packs import site_with, small_catalog, small_site

REQUEST = EndpointRequest(
    name="chat",
    tenant="acme",
    model="tiny",
    region="local",
    tier="dedicated",
    scaling=Scaling(min_replicas=1, max_replicas=3),
)


def node(name: str, **changes: Any) -> NodeTypeOffer:
    """A node type with one GPU of 24 GB that fits the tiny model."""
    fields = {"gpus": 1, "gpu_memory_bytes": 24 * 10**9, "cpu": "8", "memory": "32Gi", "properties": {}}
    return NodeTypeOffer(name=name, **{**fields, **changes})


def site_of(*nodes: NodeTypeOffer) -> Site:
    provider = small_site().providers[0].model_copy(update={"node_types": nodes})
    return site_with(providers=(provider,))


def tier_with(**changes: Any) -> Catalog:
    """The small catalog with the dedicated tier changed."""
    catalog = small_catalog()
    dedicated = catalog.tiers["dedicated"].model_copy(update=changes)
    return replace(catalog, tiers={**catalog.tiers, "dedicated": dedicated})


def capacity_of(site: Site, *, catalog: Catalog | None = None) -> CapacityPlan:
    plan = plan_endpoint(REQUEST, catalog=catalog or small_catalog(), site=site, endpoint_id=EndpointId("ep-a"))
    return plan.capacity


def refusal(site: Site, *, catalog: Catalog | None = None) -> tuple[str, str]:
    with pytest.raises(RejectedError) as caught:
        capacity_of(site, catalog=catalog)
    (finding,) = caught.value.findings
    return finding.reason, finding.message


def test_the_cheapest_for_all_replicas_is_taken_not_the_cheapest_node() -> None:
    one_each = node("one", cost=2)
    three_each = node("three", gpus=3, cost=5)
    chosen = capacity_of(site_of(one_each, three_each))
    assert (chosen.node_type, chosen.nodes) == ("laptop.three", 1)


def test_of_equal_cost_fewer_gpus_then_the_name_decide() -> None:
    assert capacity_of(site_of(node("b"), node("a"), node("c", gpus=8))).node_type == "laptop.a"


def test_replicas_share_a_node_only_as_far_as_cpu_and_memory_go() -> None:
    assert capacity_of(site_of(node("wide", gpus=8, cpu="2"))).nodes == 2
    assert capacity_of(site_of(node("wide", gpus=8, memory="1500Mi"))).nodes == 3
    assert refusal(site_of(node("narrow", cpu="500m")))[0] == "NodesTooSmall"


def test_node_that_replicas_would_take_whole_is_warned_of() -> None:
    raw: dict[str, Any] = {"name": "chat", "tenant": "acme", "model": "tiny", "region": "local", "tier": "dedicated"}
    raw |= {"scaling": {"minReplicas": 1, "maxReplicas": 3}}
    for offer, told in ((node("wide", gpus=2, cpu="2"), ["2 x 1 of 2 CPU"]), (node("wide", gpus=2, cpu="2500m"), [])):
        found = forecast_endpoint(raw, catalog=small_catalog(), site=site_of(offer)).findings
        tight = [finding for finding in found if finding.reason == "NodeIsTight"]
        assert [finding.severity for finding in tight] == [Severity.WARNING] * len(told)
        assert all(words in finding.message for words, finding in zip(told, tight, strict=True))


def test_only_node_types_with_the_tiers_accelerator_and_properties_count() -> None:
    catalog = tier_with(accelerator=Accelerator(resource="nvidia.com/gpu", properties={"gpu": "h100"}))
    fitting = node("right", cost=9, properties={"gpu": "h100", "zone": "a"})
    others = (node("wrong", properties={"gpu": "l4"}), node("none"), node("amd", gpu_resource="amd.com/gpu"))
    assert capacity_of(site_of(*others, fitting), catalog=catalog).node_type == "laptop.right"
    reason, message = refusal(site_of(*others), catalog=catalog)
    assert reason == "NoNodeType"
    assert message.endswith("with: nvidia.com/gpu, gpu=h100")


def test_a_node_type_that_has_too_few_nodes_is_passed_over() -> None:
    scarce, plenty = node("scarce", max_capacity=2, cost=1), node("plenty", max_capacity=3, cost=9)
    assert capacity_of(site_of(scarce, plenty)).node_type == "laptop.plenty"
    assert refusal(site_of(scarce))[0] == "NotEnoughNodes"


def test_memory_is_told_with_its_arithmetic_and_the_context_that_fits() -> None:
    reason, message = refusal(site_of(node("little", gpu_memory_bytes=3 * 10**8)))
    assert reason == "ContextDoesNotFit"
    assert "weights 0.3 GB / 1 GPUs + cache 2 x 18 layers x 1 heads x 256 x 2 B x 4096 tokens" in message
    assert "`laptop.little` gives 0.3 GB x 0.9 = 0.3 GB; the longest context that fits is " in message


def test_a_model_whose_weights_do_not_fit_is_too_big() -> None:
    assert refusal(site_of(node("least", gpu_memory_bytes=10**8)))[0] == "ModelTooBig"


def test_more_nodes_than_the_projects_quota_are_refused() -> None:
    assert capacity_of(site_of(node("one")), catalog=tier_with(quota={"nodeclaims": "3"})).nodes == 3
    assert refusal(site_of(node("one")), catalog=tier_with(quota={"nodeclaims": "2"}))[0] == "QuotaTooSmall"


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("500m", Decimal("0.5")),
        ("8", Decimal(8)),
        ("1.5", Decimal("1.5")),
        ("512Mi", Decimal(512 * 2**20)),
        ("1G", Decimal(10**9)),
        ("2k", Decimal(2000)),
        ("0", Decimal(0)),
    ],
)
def test_quantities_are_read_as_kubernetes_reads_them(text: str, amount: Decimal) -> None:
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("text", ["", "1.2345", "01", "-1", "1e3", "5 Gi", "Gi"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="reading quantity"):
        parse_quantity(text)

"""From pools to claims, and from claims to node types."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.embedded.controllers.nodes.devices import resource_slice
from provisioner.embedded.controllers.nodes.pools import (
    EMPTY_SINCE,
    dynamic_claims,
    is_due,
    requests_of,
    static_claims,
)
from provisioner.embedded.controllers.nodes.selection import choose_node_type, cost_of, matches, quantity
from provisioner.embedded.controllers.platform.config import Disruption, Pool, Requirement
from provisioner.platform.nodes import count_devices

Json = dict[str, Any]
_GPU_TYPE = [{"key": "vcluster.com/node-type", "operator": "In", "values": ["laptop.gpu"]}]


def _type(name: str, resources: Json | None = None, *, cost: int | None = None, total: int = 8) -> Json:
    spec: Json = {"providerRef": name.partition(".")[0], "resources": resources or {"cpu": "4", "memory": "8Gi"}}
    if cost is not None:
        spec["cost"] = cost
    return {"metadata": {"name": name}, "spec": spec, "status": {"capacity": {"total": total, "claimed": 0}}}


def _claim(**spec: Any) -> Json:
    return {"metadata": {"name": "c"}, "spec": {"providerRef": "laptop", **spec}}


def test_cheapest_type_that_matches_is_chosen() -> None:
    types = [_type("laptop.big", cost=9), _type("laptop.small", cost=2), _type("other.free", cost=1)]
    assert choose_node_type(_claim(), types, {}) == "laptop.small"


def test_type_without_room_is_passed_over() -> None:
    types = [_type("laptop.big", cost=9), _type("laptop.small", cost=2, total=1)]
    assert choose_node_type(_claim(), types, {"laptop.small": 1}) == "laptop.big"
    assert choose_node_type(_claim(), types, {"laptop.small": 1, "laptop.big": 8}) is None


def test_type_with_gpus_is_considered_only_when_asked_for() -> None:
    gpu = _type("laptop.gpu", {"cpu": "4", "nvidia.com/gpu": "1"}, cost=1)
    plain = _type("laptop.plain", cost=5)
    assert choose_node_type(_claim(), [gpu, plain], {}) == "laptop.plain"
    assert choose_node_type(_claim(desiredCapacity={"nvidia.com/gpu": "1"}), [gpu, plain], {}) == "laptop.gpu"
    assert choose_node_type(_claim(requirements=_GPU_TYPE), [gpu, plain], {}) == "laptop.gpu"


def test_type_must_fit_the_desired_capacity() -> None:
    types = [_type("laptop.small", {"cpu": "2"}, cost=1), _type("laptop.big", {"cpu": "8000m"}, cost=5)]
    assert choose_node_type(_claim(desiredCapacity={"cpu": "3"}), types, {}) == "laptop.big"
    assert choose_node_type(_claim(desiredCapacity={"cpu": "9"}), types, {}) is None


def test_cost_left_out_is_counted_from_resources() -> None:
    node_type = _type("laptop.gpu", {"cpu": "4", "memory": "10G", "nvidia.com/gpu": "2"})
    assert cost_of(node_type) == 4 * 10 + 10 * 2 + 2 * 10_000


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "values": ["b"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["b"]}, True),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "rack", "operator": "Exists"}, False),
        ({"key": "rack", "operator": "DoesNotExist"}, True),
        ({"key": "gpus", "operator": "Gt", "values": ["3"]}, True),
        ({"key": "gpus", "operator": "Lt", "values": ["4"]}, False),
        ({"key": "zone", "operator": "Gt", "values": ["3"]}, False),
    ],
)
def test_requirement_is_held_against_properties(requirement: Json, holds: bool) -> None:
    assert matches([requirement], {"zone": "a", "gpus": "4"}) is holds


@pytest.mark.parametrize(
    ("text", "value"), [("500m", 0.5), ("16Gi", 16 * 2**30), ("1k", 1000), (3, 3), ("1.5", 1.5), ("2M", 2_000_000)]
)
def test_quantity_is_read_as_kubernetes_does(text: str | int, value: float) -> None:
    assert float(quantity(text)) == value


@pytest.mark.parametrize("text", ["", "many", "1Qi", "Gi", "1 Gi"])
def test_text_that_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="reading quantity"):
        quantity(text)


@given(st.integers(min_value=0, max_value=20), st.integers(min_value=0, max_value=20))
def test_static_pool_keeps_the_claims_that_both_sizes_have(before: int, after: int) -> None:
    names = [
        {claim["metadata"]["name"] for claim in static_claims("ep", "laptop", Pool(name="gpu", quantity=count))}
        for count in (before, after)
    ]
    assert len(names[0]) == before
    assert len(names[0] & names[1]) == min(before, after)


def test_static_pool_that_shrinks_gives_back_what_is_empty() -> None:
    def names(quantity: int, busy: set[str | None]) -> list[str]:
        pool, present = Pool(name="gpu", quantity=quantity), ["ep-gpu-0", "ep-gpu-1", "ep-gpu-2"]
        claims = static_claims("ep", "laptop", pool, present=present, busy=busy)
        return [claim["metadata"]["name"] for claim in claims]

    assert names(1, {"ep-gpu-2", None}) == ["ep-gpu-2"]
    assert names(2, {"ep-gpu-1"}) == ["ep-gpu-1", "ep-gpu-0"]
    assert names(4, {"ep-gpu-1"}) == ["ep-gpu-1", "ep-gpu-0", "ep-gpu-2", "ep-gpu-3"]


def test_claim_says_what_its_pool_says() -> None:
    pool = Pool(
        name="gpu",
        quantity=1,
        profile="tenantry-dedicated",
        node_labels={"tier": "dedicated"},
        taints=({"key": "gpu", "effect": "NoSchedule"},),
        node_type_selector=(Requirement(name="vcluster.com/node-type", value="laptop.gpu"),),
    )
    (claim,) = static_claims("ep-one", "laptop", pool)
    assert claim["metadata"] == {
        "name": "ep-one-gpu-0",
        "labels": {"tier": "dedicated", "karpenter.sh/nodepool": "gpu"},
    }
    assert claim["spec"] == {
        "providerRef": "laptop",
        "vClusterRef": "ep-one",
        "controlPlane": False,
        "requirements": _GPU_TYPE,
        "taints": [{"key": "gpu", "effect": "NoSchedule"}],
        "desiredCapacity": {},
        "profileRef": "tenantry-dedicated",
    }


def _pod(uid: str, *, node: str | None = None, gpus: str = "1") -> Json:
    pod: Json = {
        "metadata": {"uid": uid},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}, "requests": {"cpu": "500m"}}}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    }
    if node:
        pod["spec"]["nodeName"] = node
    return pod


def test_dynamic_pool_claims_a_node_for_each_pod_that_waits_for_one() -> None:
    pool = Pool(name="burst")
    claims = dynamic_claims("ep", "laptop", pool, pods=[_pod("a"), _pod("b"), _pod("c", node="n")], present=[])
    assert len(claims) == 2
    assert claims[0]["spec"]["desiredCapacity"] == {"nvidia.com/gpu": "1", "cpu": "500m"}
    assert dynamic_claims("ep", "laptop", pool, pods=[_pod("a"), _pod("b")], present=claims) == []


@pytest.mark.parametrize("limits", [{"nodes": "2"}, {"nvidia.com/gpu": "5"}])
def test_dynamic_pool_stops_at_its_limits(limits: dict[str, str]) -> None:
    pods = [_pod(str(number), gpus="2") for number in range(4)]
    assert len(dynamic_claims("ep", "laptop", Pool(name="burst", limits=limits), pods=pods, present=[])) == 2


def test_requests_of_all_containers_are_summed() -> None:
    pod = _pod("a")
    pod["spec"]["containers"] *= 3
    assert requests_of(pod) == {"nvidia.com/gpu": "3", "cpu": "1500m"}


@pytest.mark.parametrize(
    ("after", "due"), [("1m", False), ("30s", True), ("1h2m", False), ("0s", True), ("Never", False)]
)
def test_empty_node_is_given_back_after_a_while(after: str, due: bool) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    mark = (now - timedelta(seconds=40)).isoformat()
    claim: Json = {"metadata": {"annotations": {EMPTY_SINCE: mark}}}
    assert is_due(claim, Pool(name="burst", disruption=Disruption(consolidate_after=after)), now) is due
    assert not is_due({"metadata": {}}, Pool(name="burst"), now)


def _node(gpus: str | None, **labels: str) -> Json:
    capacity = {"cpu": "4"} if gpus is None else {"cpu": "4", "nvidia.com/gpu": gpus}
    return {"metadata": {"name": "node-0", "labels": labels}, "status": {"capacity": capacity}}


def test_node_publishes_its_gpus_as_devices() -> None:
    found = resource_slice(_node("2"))
    assert found is not None
    assert count_devices([found], driver="gpu.nvidia.com", mig_profile=None) == 2
    assert count_devices([found], driver="gpu.nvidia.com", mig_profile="3g.40gb") == 0
    assert count_devices([found], driver="gpu.amd.com", mig_profile=None) == 0
    assert found["spec"]["nodeName"] == "node-0"


def test_node_with_a_mig_layout_publishes_parts_of_its_gpus() -> None:
    found = resource_slice(_node("2", **{"nvidia.com/mig.config": "all-3g.40gb"}))
    assert found is not None
    assert count_devices([found], driver="gpu.nvidia.com", mig_profile="3g.40gb") == 4
    assert len({device["name"] for device in found["spec"]["devices"]}) == 4


def test_node_without_gpus_publishes_nothing() -> None:
    assert resource_slice(_node(None)) is None

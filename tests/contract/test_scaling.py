"""Who keeps the number of replicas, and what it looks at."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.contract.runtimes import OPTIONS, PAIRS, Case, changed, optional, shipped
from tests.contract.scaling import replicas_wanted
from tests.unit.rendering.examples import catalog

SCALERS = ("ScaledObject", "HorizontalPodAutoscaler")
ALL = [shipped(*pair) for pair in PAIRS] + [optional(name) for name in OPTIONS]
UP_TO_EIGHT = {"scaling": {"minReplicas": 1, "maxReplicas": 8}}


def scaled(case: Case) -> dict[str, Any]:
    [found] = case.of_kind("ScaledObject")
    return found


def queries(case: Case) -> dict[str, str]:
    return {trigger["name"]: trigger["metadata"]["query"] for trigger in scaled(case)["spec"]["triggers"]}


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.plan.tier}-{case.plan.runtime.revision}")
def test_one_scaler_and_nobody_else_sets_replicas(case: Case) -> None:
    [scaler] = [found for kind in SCALERS for found in case.of_kind(kind)]
    target = scaler["spec"]["scaleTargetRef"]
    workload = case.workload
    assert (target["apiVersion"], target["kind"]) == (workload["apiVersion"], workload["kind"])
    assert target["name"] == workload["metadata"]["name"]
    assert "replicas" not in workload["spec"]
    [template] = [
        found
        for found in case.pack.tier_objects(case.plan.tier)
        if found["kind"] == "ArgoCDApplicationTemplate" and "runtime" in found["metadata"]["name"]
    ]
    left_alone = {
        (entry["kind"], pointer)
        for entry in template["spec"]["template"]["spec"]["ignoreDifferences"]
        for pointer in entry["jsonPointers"]
    }
    assert (workload["kind"], "/spec/replicas") in left_alone
    behavior = scaler["spec"].get("behavior") or scaler["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 300


def test_every_signal_has_a_query_of_the_replicas_own() -> None:
    """Ledger: AUT-01, AUT-02."""
    case = optional("every-signal")
    found = queries(case)
    assert found.keys() == set(OPTIONS["every-signal"][1]["signals"])
    for signal, metric in {
        "queue-depth": "vllm:num_requests_waiting",
        "running-requests": "vllm:num_requests_running",
        "time-to-first-token": "vllm:time_to_first_token_seconds_bucket",
        "tokens-per-second": "vllm:generation_tokens_total",
        "gpu-utilization": "DCGM_FI_DEV_GPU_UTIL",
        "gpu-memory": "DCGM_FI_DEV_FB_USED",
    }.items():
        assert f"{metric}{{" in found[signal]
        pattern = re.search(r'pod=~"([^"]*)"', found[signal])
        assert pattern is not None
        for ordinal in range(case.plan.runtime.max_replicas):
            assert re.fullmatch(pattern[1], f"{case.plan.workload}-{ordinal}")
        assert not re.fullmatch(pattern[1], "ep-other-abcdef-0")
    thresholds = {t["name"]: t["metadata"]["threshold"] for t in scaled(case)["spec"]["triggers"]}
    assert thresholds["queue-depth"] == "5"
    assert thresholds["running-requests"] == "6"  # of the 8 that a replica answers at the same time


def test_workers_of_a_replica_count_for_its_gpus_and_not_for_its_requests() -> None:
    found = queries(changed("multinode", signals=("queue-depth", "gpu-utilization")))
    patterns = {name: re.search(r'pod=~"([^"]*)"', query) for name, query in found.items()}
    workload = changed("multinode").plan.workload
    for signal, matches in {"queue-depth": False, "gpu-utilization": True}.items():
        pattern = patterns[signal]
        assert pattern is not None
        assert bool(re.fullmatch(pattern[1], f"{workload}-0-1")) is matches
        assert re.fullmatch(pattern[1], f"{workload}-0")


@pytest.mark.parametrize("runtime", [runtime for tier, runtime in PAIRS if tier == "dedicated"])
def test_engine_without_a_queue_is_scaled_by_its_gpus(runtime: str) -> None:
    [name] = queries(shipped("dedicated", runtime))
    knows = "requests_waiting" in catalog().runtimes[runtime].metrics
    assert name == ("queue-depth" if knows else "gpu-utilization")


def test_parts_of_a_gpu_are_measured_by_what_exists_for_parts() -> None:
    [query] = queries(changed("partitioned", signals=("gpu-utilization",))).values()
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" in query
    assert "DCGM_FI_DEV_GPU_UTIL" not in query


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ({}, 1),
        ({"vllm:num_requests_waiting": 5}, 1),
        ({"vllm:num_requests_waiting": 11}, 3),
        ({"DCGM_FI_DEV_GPU_UTIL": 95}, 4),
        ({"vllm:num_requests_waiting": 11, "DCGM_FI_DEV_GPU_UTIL": 95}, 4),
        ({"vllm:num_requests_waiting": 1000}, 8),
    ],
)
def test_combined_signal_scales_up_when_either_is_breached(answers: dict[str, float], wanted: int) -> None:
    """Ledger: AUT-03."""
    request = {**UP_TO_EIGHT, "serving": {"autoscalingSignal": "combined"}}
    case = changed("dedicated", request=request)
    assert list(queries(case)) == ["queue-depth", "gpu-utilization"]
    assert replicas_wanted(scaled(case), answers, now=3) == wanted


@pytest.mark.parametrize(("least", "most"), [(1, 1), (2, 5), (3, 8)])
@pytest.mark.parametrize("autoscaling", ["keda", "hpa"])
def test_bounds_of_the_request_are_the_scalers(autoscaling: str, least: int, most: int) -> None:
    """Ledger: AUT-04."""
    request = {"scaling": {"minReplicas": least, "maxReplicas": most}}
    case = changed("dedicated", request=request, autoscaling=autoscaling)
    [scaler] = [found["spec"] for kind in SCALERS for found in case.of_kind(kind)]
    bounds = ("minReplicaCount", "maxReplicaCount") if autoscaling == "keda" else ("minReplicas", "maxReplicas")
    assert tuple(scaler[bound] for bound in bounds) == (least, most)


def test_endpoint_that_may_sleep_is_woken_by_what_waits_at_our_gateway() -> None:
    request = {
        "scaling": {"minReplicas": 0, "maxReplicas": 4},
        "serving": {"autoscalingSignal": "gateway-queue"},
    }
    case = changed("dedicated", request=request)
    spec = scaled(case)["spec"]
    assert (spec["idleReplicaCount"], spec["minReplicaCount"]) == (0, 1)
    assert spec["initialCooldownPeriod"] > 600
    assert spec["triggers"][0]["metadata"]["serverAddress"] == "https://metrics.example.com"
    assert replicas_wanted(scaled(case), {}, now=1) == 0
    assert replicas_wanted(scaled(case), {"tenantry_gateway_demand": 1}, now=0) == 1
    assert "idleReplicaCount" not in scaled(changed("dedicated"))["spec"]


def test_metrics_of_the_pods_are_ones_that_the_adapter_has_rules_for() -> None:
    signals = tuple(signal for signal in OPTIONS["every-signal"][1]["signals"] if signal != "gateway-queue")
    stack = tuple("prometheus-adapter" if name == "keda" else name for name in catalog().tiers["dedicated"].stack)
    case = changed("dedicated", autoscaling="hpa", signals=signals, stack=stack)
    [scaler] = case.of_kind("HorizontalPodAutoscaler")
    asked = [metric["pods"]["metric"]["name"] for metric in scaler["spec"]["metrics"]]
    [adapter] = [
        source
        for found in case.pack.tier_objects("dedicated")
        for source in found["spec"].get("template", {}).get("spec", {}).get("sources", [])
        if source["chart"] == "prometheus-adapter"
    ]
    rules = {rule["name"]["as"]: rule["seriesQuery"] for rule in adapter["helm"]["valuesObject"]["rules"]["custom"]}
    assert set(asked) == rules.keys()
    for runtime in catalog().runtimes.values():
        for name in ("requests_waiting", "requests_running", "generated_tokens"):
            metric = runtime.metrics.get(name)
            assert metric is None or any(metric in series for series in rules.values())

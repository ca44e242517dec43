"""What `tenantry plan` decides: assumptions of a request, GPUs, memory, roll-out, versions, features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.admission import admit_endpoint, preview_id
from provisioner.admission.manifests import ManifestJudge
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.site import StorageSettings
from provisioner.catalog.tier import Autoscaling, Storage
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Severity
from provisioner.domain.plan import DeviceClaim
from provisioner.rendering.pack import compile_pack
from tests.unit.admission.forecasts import BIG, CATALOG, GOOD, SITE, forecast, rules, with_serving


def test_every_shipped_model_can_be_planned_somewhere_in_the_example_site() -> None:
    for model in CATALOG.models.values():
        profile = "prod" if "prod" in model.profiles else "dev"
        found = rules({**GOOD, "model": model.id, "profile": profile})
        assert found <= {("image-not-pinned", "model")}, model.id
        assert not found or model.master.image == "parakeet"  # its image has no public digest


@pytest.mark.parametrize("tier", sorted(CATALOG.tiers))
def test_the_example_of_every_tier_can_be_planned(tier: str) -> None:
    """Ledger: TEN-13."""
    made = forecast({**CATALOG.tiers[tier].example, "profile": "dev"}, site=SITE)
    assert [finding for finding in made.findings if finding.severity is Severity.ERROR] == []
    assert made.plan is not None
    assert made.plan.tier == tier


@pytest.mark.parametrize(
    ("serving", "rule", "field"),
    [
        ({"gpus": 0.5}, "wrong-type", "serving.gpus"),
        ({"gpus": "1"}, "wrong-type", "serving.gpus"),
        ({"gpus": 0}, "too-few-gpus", "serving.gpus"),
        ({"gpus": 16}, "too-many-gpus", "serving.gpus"),
        ({"tensorParallelSize": 5}, "heads-not-divisible", "serving.tensorParallelSize"),
        ({"gpus": 4, "tensorParallelSize": 8}, "parallelism-mismatch", "serving.gpus"),
        ({"maxModelLen": 10**6}, "context-too-long", "serving.maxModelLen"),
        ({"tensorParallelSize": 4, "gpuMemoryUtilization": 0.75}, "context-does-not-fit", "serving.maxModelLen"),
        ({"tensorParallelSize": 1}, "model-too-big", "model"),
        ({"extraArgs": ["--host", "::1"]}, "flag-owned", "serving.extraArgs[0]"),
        ({"extraArgs": ["--port=1"]}, "flag-owned", "serving.extraArgs[0]"),
        ({"extraArgs": ["--por=1"]}, "flag-owned", "serving.extraArgs[0]"),
        ({"extraArgs": ["--tensor_parallel_size", "8"]}, "flag-owned", "serving.extraArgs[0]"),
        ({"runtime": "parakeet"}, "model-not-served", "serving.runtime"),
        ({"runtime": "mistralrs"}, "weights-not-named", "serving.runtime"),
        ({"image": "https://example.com/v1"}, "hosted-model", "serving.image"),
        ({"adapters": [{"name": "a", "source": "acme/a"}]}, "custom-code-not-allowed", "serving.adapters"),
        ({"autoscalingSignal": "moon"}, "invalid-value", "serving.autoscalingSignal"),
        ({"tensorParallelSize": "1"}, "invalid-parameter", "serving.tensorParallelSize"),
    ],
)
def test_what_cannot_work_is_refused_where_it_stands(serving: dict[str, Any], rule: str, field: str) -> None:
    """Ledger: GPU-01, RUN-03, RUN-10, TEN-03."""
    assert (rule, field) in rules(with_serving(BIG, **serving))


@pytest.mark.parametrize("arguments", [["--kv-cache-dtype", "fp8_e5m2"], ["--kv_cache_dtype=fp8"]])
def test_context_that_fits_a_cache_of_eight_bits_is_not_refused(arguments: list[str]) -> None:
    tight = {"tensorParallelSize": 4, "gpuMemoryUtilization": 0.75}
    assert ("context-does-not-fit", "serving.maxModelLen") in rules(with_serving(BIG, **tight))
    assert rules(with_serving(BIG, **tight, extraArgs=arguments)) == set()
    wide = ["--kv-cache-dtype", "bfloat16", "--enforce-eager"]
    assert ("context-does-not-fit", "serving.maxModelLen") in rules(with_serving(BIG, **tight, extraArgs=wide))


def test_signals_of_gpus_are_measured_on_own_nodes_only() -> None:
    pool = {**GOOD, "tenant": "pool", "tier": "shared"}
    asked = with_serving(pool, autoscalingSignal="gpu-utilization")
    assert ("signal-not-published", "serving.autoscalingSignal") in rules(asked)
    assert rules(with_serving(autoscalingSignal="gpu-utilization")) == set()
    speech = {**pool, "model": "nvidia/parakeet-tdt-0.6b-v3", "profile": "dev"}
    never = ("never-scales", "scaling.maxReplicas")
    assert never in rules(speech, severity=Severity.WARNING)
    assert never not in rules({**speech, "tier": "dedicated", "tenant": "acme"}, severity=Severity.WARNING)
    assert never not in rules(pool, severity=Severity.WARNING)


def test_images_of_engines_hold_no_weights() -> None:
    def is_told(known: Catalog) -> bool:
        found = forecast(GOOD, catalog=known).findings
        return ("weights-not-in-image", "model") in [(finding.rule, finding.field) for finding in found]

    tier = CATALOG.tiers["dedicated"].model_copy(update={"storage": Storage.IMAGE})
    baked = replace(CATALOG, tiers={"dedicated": tier})
    assert is_told(baked)
    assert not is_told(CATALOG)
    model = CATALOG.models[GOOD["model"]]
    image = f"registry.example.com/acme/chat@sha256:{'a' * 64}"
    own = model.model_copy(update={"master": model.master.model_copy(update={"image": image})})
    assert not is_told(replace(baked, models={model.id: own}))


def test_custom_images_and_adapters_need_own_nodes_and_a_sandbox() -> None:
    """Ledger: TEN-03."""
    image = f"registry.example.com/acme/vllm:1@sha256:{'a' * 64}"
    brought = with_serving(image=image, adapters=[{"name": "support", "source": "acme/support"}])
    assert rules({**brought, "tier": "isolated"}) == set()
    for tier in ("shared", "dedicated"):
        assert ("custom-code-not-allowed", "serving.image") in rules({**brought, "tier": tier})


@pytest.mark.parametrize(
    ("source", "refused", "warned"),
    [
        ("acme/sql", False, True),
        ("acme/sql@main", False, True),
        ("acme/sql@refs/pr/1", False, True),
        (f"acme/sql@{'c' * 40}", False, False),
        ("/adapters/sql", False, False),
        ("/adapters/../etc", True, False),
        ("acme/../../Qwen/Qwen3-14B", True, False),
        ("acme/sql@../other", True, False),
        ("s3://bucket/sql", True, False),
        ("acme/sql@a@b", True, False),
    ],
)
def test_adapters_lie_where_they_are_said_to_and_stay_the_same(source: str, *, refused: bool, warned: bool) -> None:
    """Ledger: TEN-03."""
    asked = {**with_serving(adapters=[{"name": "sql", "source": source}]), "tier": "isolated"}
    field = "serving.adapters[0].source"
    assert (("invalid-value", field) in rules(asked)) == refused
    assert (("adapter-may-change", field) in rules(asked, severity=Severity.WARNING)) == warned
    assert (forecast(asked).plan is None) == refused


@pytest.mark.parametrize(("free", "mode"), [(0, None), (1, "parallel")])
def test_a_free_gpu_counts_for_all_of_its_parts(free: int, mode: str | None) -> None:
    """Ledger: CAP-02."""
    made = forecast({**GOOD, "tier": "partitioned", "capacity": {"kubevirt.vm-h100": free}})
    refused = {finding.rule for finding in made.findings if finding.severity is Severity.ERROR}
    assert refused == (set() if mode else {"not-enough-gpus"})
    assert made.plan is not None
    assert made.plan.rollout is not None
    assert made.plan.rollout.mode == (mode or "replace")
    assert "parts of GPUs" in made.plan.rollout.reason


def test_images_come_from_where_the_sites_policies_allow() -> None:
    """Ledger: RUN-10."""
    brought = {**with_serving(image=f"registry.example.com/acme/vllm@sha256:{'a' * 64}"), "tier": "isolated"}
    for allowed, expected in (
        ("registry.example.com", set()),
        ("registry.example.com/acme/", set()),
        ("registry.example.com/acme/vllm", set()),
        ("registry.example.com/acme/vll", {("registry-not-allowed", "serving.image")}),
        ("registry.example", {("registry-not-allowed", "serving.image")}),
    ):
        assert rules(brought, site=SITE.model_copy(update={"registries": (allowed,)})) == expected
    mirrored = SITE.model_copy(update={"registry": "mirror.example.com"})
    assert rules(brought, site=mirrored) == {("registry-not-allowed", "serving.image")}
    assert rules(GOOD, site=mirrored) == set()
    elsewhere = SITE.model_copy(update={"registries": ("registry.example.com",)})
    assert rules(GOOD, site=elsewhere) == {("registry-not-allowed", "model")}


def test_policies_take_the_images_that_admission_takes() -> None:
    pack = compile_pack(CATALOG, SITE)
    brought = {**with_serving(image=f"registry.example.com/acme/vllm@sha256:{'a' * 64}"), "tier": "isolated"}
    plan = forecast(brought).plan
    assert plan is not None
    assert ManifestJudge(pack).findings(plan) == ()
    named = SITE.model_copy(update={"registries": ("vllm",)})
    refused = {finding.rule for finding in ManifestJudge(compile_pack(CATALOG, named)).findings(plan)}
    assert refused == {"policy-image-registry"}


@pytest.mark.parametrize("version", ["1.34", "v1.34", "1.34.2", "v1.34.2"])
def test_a_version_may_be_written_as_kubectl_prints_it(version: str) -> None:
    assert rules({**GOOD, "kubernetesVersion": version, "platformVersion": "4.12.1"}) == set()
    old = version.replace("34", "30")
    assert rules({**GOOD, "kubernetesVersion": old}) == {("kubernetes-not-supported", "kubernetesVersion")}


def test_an_unknown_node_type_is_told_beside_an_amount_that_is_none() -> None:
    found = rules({**GOOD, "capacity": {"metal3.gpu-h100": -1, "nowhere": 3}})
    assert found == {("invalid-value", "capacity.metal3.gpu-h100"), ("unknown-node-type", "capacity.nowhere")}


def test_an_undigested_image_is_refused_in_prod_only() -> None:
    """Ledger: RUN-12, RUN-04."""
    brought = {**with_serving(image="registry.example.com/acme/vllm:latest"), "tier": "isolated"}
    assert rules(brought) == {("image-not-pinned", "serving.image")}
    assert rules({**brought, "profile": "dev"}) == set()


def test_a_retired_image_is_neither_option_nor_fallback() -> None:
    """Ledger: RUN-11."""
    site = SITE.model_copy(update={"retired_images": ("vllm/vllm-openai",)})
    assert ("image-retired", "model") in rules(GOOD, site=site)


def test_a_sovereign_site_runs_one_engine_and_takes_nothing_hosted() -> None:
    """Ledger: RUN-10."""
    site = SITE.model_copy(update={"sovereign": True})
    assert ("runtime-not-allowed", "model") in rules(GOOD, site=site)
    assert rules({**GOOD, "model": "Qwen3-14B"}, site=site) == set()
    hosted = {**GOOD, "model": "Qwen3-14B", "serving": {"image": "https://models.example.com/v1"}, "tier": "isolated"}
    assert ("hosted-model", "serving.image") in rules(hosted, site=site)


def test_sleeping_needs_a_signal_that_exists_without_replicas() -> None:
    """Ledger: AUT-04."""
    asleep = {**GOOD, "scaling": {"minReplicas": 0, "maxReplicas": 1}}
    assert rules(asleep) == {("cannot-wake", "scaling.minReplicas")}
    assert rules({**asleep, "serving": {"autoscalingSignal": "gateway-queue"}}) == set()


def test_what_the_site_does_not_name_is_found_beside_the_plan() -> None:
    bare = SITE.model_copy(update={"metrics_url": None, "storage": StorageSettings()})
    made = forecast(with_serving(autoscalingSignal="gateway-queue"), site=bare)
    [found] = made.findings
    assert (found.rule, found.field) == ("site-incomplete", "serving.autoscalingSignal")
    assert "`metricsUrl`" in found.message
    assert "site.yaml" in str(found.hint)
    assert made.plan is not None
    assert not made.renders
    assert rules({**GOOD, "tier": "isolated"}, site=bare) == {("site-incomplete", "tier")}


def test_what_the_site_does_not_name_is_refused_before_anything_is_stored() -> None:
    bare = SITE.model_copy(update={"metrics_url": None})
    raw = with_serving(autoscalingSignal="gateway-queue")
    with pytest.raises(RejectedError) as caught:
        admit_endpoint(raw, catalog=CATALOG, site=bare, endpoint_id=preview_id(raw))
    assert [finding.rule for finding in caught.value.findings] == ["site-incomplete"]


def test_a_horizontal_pod_autoscaler_neither_sleeps_nor_looks_at_the_gateway() -> None:
    """Ledger: AUT-04."""
    tier = CATALOG.tiers["dedicated"].model_copy(update={"autoscaling": Autoscaling.HPA})
    catalog = replace(CATALOG, tiers={**CATALOG.tiers, "dedicated": tier})
    by_gateway = with_serving(autoscalingSignal="gateway-queue")
    asleep = {**by_gateway, "scaling": {"minReplicas": 0, "maxReplicas": 1}}
    assert [finding.rule for finding in forecast(by_gateway, catalog=catalog).findings] == ["signal-not-scaled"]
    assert [finding.rule for finding in forecast(asleep, catalog=catalog).findings] == ["cannot-wake"]


def test_gpus_of_a_tier_that_claims_devices_are_devices_of_its_class() -> None:
    """Ledger: CAP-02, GPU-02."""
    whole = forecast(GOOD).plan
    parts = forecast({**GOOD, "tier": "partitioned"}).plan
    assert whole is not None
    assert parts is not None
    assert (whole.capacity.gpu_resource, whole.capacity.claim) == ("nvidia.com/gpu", None)
    claim = DeviceClaim(device_class="tenantry-partitioned", driver="gpu.nvidia.com", mig_profile="3g.40gb")
    assert (parts.capacity.gpu_resource, parts.capacity.claim) == (None, claim)
    assert (parts.capacity.gpus_per_replica, parts.capacity.gpus_total) == (1, 2)


@pytest.mark.parametrize(("free", "mode"), [(0, "replace"), (8, "replace"), (15, "replace"), (16, "parallel")])
def test_a_roll_out_is_parallel_only_where_a_second_set_finds_gpus(free: int, mode: str) -> None:
    made = forecast({**BIG, "capacity": {"metal3.gpu-h100": free}})
    assert made.plan is not None
    assert made.plan.capacity.node_type == "metal3.gpu-h100"
    assert made.plan.rollout is not None
    assert (made.plan.rollout.mode, made.plan.rollout.gap_seconds > 0) == (mode, mode == "replace")


def test_too_few_free_gpus_are_told_with_the_plan() -> None:
    """Ledger: CAP-01."""
    raw = {**BIG, "capacity": {"metal3.gpu-h100": 7}}
    assert rules(raw) == {("not-enough-gpus", "capacity.metal3.gpu-h100")}
    assert forecast(raw).plan is not None
    assert rules({**BIG, "capacity": {"metal3.gpu-h10": 7}}) == {("unknown-node-type", "capacity.metal3.gpu-h10")}


def test_device_claims_need_a_kubernetes_that_serves_them() -> None:
    """Ledger: GPU-02."""
    raw = {**GOOD, "tier": "partitioned"}
    assert rules({**raw, "kubernetesVersion": "1.33"}) == {("kubernetes-too-old", "kubernetesVersion")}
    assert rules({**raw, "kubernetesVersion": "1.34"}) == set()
    assert rules({**GOOD, "kubernetesVersion": "1.30"}) == {("kubernetes-not-supported", "kubernetesVersion")}
    assert rules({**GOOD, "platformVersion": "4.10"}) == {("platform-too-old", "platformVersion")}


def test_a_tier_on_vnode_is_flagged_when_kubernetes_goes_beyond_it() -> None:
    """Ledger: DAY-08."""
    raw = {**GOOD, "tier": "isolated"}
    assert rules({**raw, "kubernetesVersion": "1.36"}) == set()
    assert rules({**raw, "kubernetesVersion": "1.37"}) == {("vnode-not-compatible", "kubernetesVersion")}


def test_licensed_features_of_a_tier_are_listed() -> None:
    """Ledger: TEN-14, as far as planning goes."""
    assert {"auto-nodes-metal3", "ha-mode", "vcp-distro-private-nodes"} <= set(forecast(BIG).features)
    assert "vnode-runtime" in forecast({**GOOD, "tier": "isolated"}).features
    assert "ha-mode" not in forecast({**GOOD, "profile": "dev"}).features


def test_a_replica_beyond_one_node_spans_nodes_in_a_tier_that_allows_it() -> None:
    """Ledger: CAP-07. 16 GPUs on nodes of 8 are two pods, 4 are one."""
    raw = {**GOOD, "model": "Qwen3-VL-235B-A22B-Thinking-FP8", "tier": "multinode"}
    wide, narrow = forecast(with_serving(raw, gpus=16)).plan, forecast(with_serving(raw, gpus=8)).plan
    assert wide is not None
    assert narrow is not None
    assert (wide.capacity.nodes_per_replica, wide.runtime.serving["pipelineParallelSize"]) == (2, 2)
    assert narrow.capacity.nodes_per_replica == 1


def test_a_quota_denial_has_the_platforms_words() -> None:
    """Ledger: TEN-11."""
    tier = CATALOG.tiers["dedicated"].model_copy(update={"quota": {"nodeclaims": "1"}})
    catalog = replace(CATALOG, tiers={**CATALOG.tiers, "dedicated": tier})
    [finding] = forecast(GOOD, catalog=catalog).findings
    assert "project nodeclaims limit of 1 would be exceeded" in finding.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [*GOOD, "team", "serving", "profile", "kubernetesVersion", "platformVersion", "capacity"]
SERVING = ["gpus", "extraArgs", "runtime", "image", "adapters", "autoscalingSignal", "maxModelLen", "maxNumSeqs"]


@settings(max_examples=150, deadline=None)
@given(
    changes=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4),
    serving=st.dictionaries(st.sampled_from([*SERVING, "tensorParallelSize"]), JSON, max_size=3),
)
def test_whatever_is_asked_gets_findings_or_a_plan(changes: dict[str, Any], serving: dict[str, Any]) -> None:
    raw = {**GOOD, "serving": serving, **changes}
    made = forecast(raw)
    assert made.plan is not None or made.findings
    assert forecast(raw) == made
    assert all(finding.hint and finding.message for finding in made.findings)


@pytest.mark.parametrize(
    ("slots", "gateways", "message"),
    [
        (None, 3, None),
        (2, 1, None),
        (4, 3, "planning endpoint: the requests of tier `dedicated` wait in each gateway's own queue: 3"),
        (2, 3, "planning endpoint: tier `dedicated` has fewer slots than gateways: 2 < 3"),
    ],
)
def test_several_gateways_with_a_queue_are_warned_of(slots: int | None, gateways: int, message: str | None) -> None:
    """Ledger: ADM-15."""
    tier = CATALOG.tiers["dedicated"]
    bounded = tier.model_copy(update={"limits": tier.limits.model_copy(update={"concurrent_requests": slots})})
    assert SITE.installation is not None
    installation = SITE.installation.model_copy(update={"gateways": gateways})
    made = forecast(
        GOOD,
        catalog=replace(CATALOG, tiers={**CATALOG.tiers, "dedicated": bounded}),
        site=SITE.model_copy(update={"installation": installation}),
    )
    warnings = [one.message for one in made.findings if one.reason == "QueuePerGateway"]
    assert warnings == ([] if message is None else [message])
    assert made.plan is not None

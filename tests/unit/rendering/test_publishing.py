"""What stands on the control plane cluster: tiers, projects, tenant cluster instances, applications, the site's own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from provisioner.admission import admit_endpoint
from provisioner.catalog.loader import load_catalog
from provisioner.catalog.pack import models_root
from provisioner.catalog.site import Site
from provisioner.catalog.tier import NodePools, Scheduling, Sequencing, Tenancy, Tier
from provisioner.domain.errors import InvariantError, RejectedError
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.pack import Pack, compile_pack
from tests.contract.schemas import filled
from tests.unit.rendering.examples import (
    ENDPOINT,
    catalog,
    example_pack,
    example_plan,
    example_site,
    pack,
    plan,
)

Object = dict[str, Any]


def pack_with(tier: str, *, site: Site | None = None, **options: Any) -> Pack:
    """The shipped pack with some options of one tier changed, as a provider's overlay does."""
    changed: Tier = catalog().tiers[tier].model_copy(update=options)
    tiers = {**catalog().tiers, tier: changed}
    return compile_pack(dataclasses.replace(catalog(), tiers=tiers), site or example_site())


def template_of(found: Pack, tier: str) -> Object:
    [template] = [made for made in found.tier_objects(tier) if made["kind"] == "VirtualClusterTemplate"]
    return template


def values_of(found: Pack, tier: str) -> Object:
    """The vcluster.yaml of a tier, its holes filled with the names of their parameters."""
    version = template_of(found, tier)["spec"]["versions"][-1]
    parameters = {
        parameter["variable"]: "1" if parameter["type"] == "number" else parameter["variable"]
        for parameter in version["parameters"]
    }
    return dict(filled(version["template"]["helmRelease"]["values"], parameters))


def test_tier_maps_to_template_version_parameters_node_type_and_quota() -> None:
    """Ledger: TEN-06, TEN-13."""
    planned, tier = plan(), catalog().tiers["dedicated"]
    instance, project = pack().instance(planned), pack().project(planned.tenant, planned.tier)
    assert instance["metadata"]["namespace"] == f"p-{project['metadata']['name']}"
    assert instance["spec"]["templateRef"] == {"name": "tenantry-dedicated", "version": tier.version}
    assert filled(instance["spec"]["parameters"], {}) == {
        "burstNodes": planned.capacity.burst_nodes,
        "endpoint": ENDPOINT,
        "namespace": "inference",
        "nodeType": "cloud.gpu-1",
        "nodes": planned.capacity.nodes,
        "provider": "cloud",
        "tenant": "acme",
    }
    assert project["spec"]["quotas"]["project"] == tier.quota
    assert project["spec"]["allowedTemplates"][0]["name"] == "tenantry-dedicated"
    assert project["spec"]["allowedNodeTypes"] == [{"name": "cloud.gpu-1"}, {"name": "cloud.gpu-8"}]


def test_one_plan_makes_tenant_cluster_capacity_quota_and_route() -> None:
    """Ledger: TEN-04 (what is rendered for it)."""
    planned = plan()
    [version] = template_of(pack(), "dedicated")["spec"]["versions"]
    parameters = filled(pack().instance(planned)["spec"]["parameters"], {})
    values = filled(version["template"]["helmRelease"]["values"], {key: str(text) for key, text in parameters.items()})
    [provider] = values["privateNodes"]["autoNodes"]
    assert provider["provider"] == "cloud"
    assert provider["static"][0]["quantity"] == planned.capacity.nodes
    assert provider["static"][0]["nodeTypeSelector"][0]["values"] == ["cloud.gpu-1"]
    assert [found["name"] for found in values["deploy"]["argoCD"]["applications"]] == [
        f"{ENDPOINT}-gpu-stack",
        f"{ENDPOINT}-runtime",
    ]
    route = pack().customer_route(planned)
    assert route["metadata"]["name"] == ENDPOINT
    assert route["spec"]["hostnames"] == ["chat.acme.example.com"]


def test_production_runs_the_tenants_control_plane_threefold_and_development_alone() -> None:
    """Ledger: TEN-15."""
    prod = values_of(example_pack(), "dedicated")["controlPlane"]
    assert prod["statefulSet"]["highAvailability"]["replicas"] == 3
    assert prod["backingStore"]["etcd"]["embedded"]["enabled"] is True
    dev = values_of(pack(), "dedicated")["controlPlane"]
    assert dev["statefulSet"]["highAvailability"]["replicas"] == 1
    assert "backingStore" not in dev


def test_isolated_tier_is_highly_available_in_every_profile() -> None:
    for found in (example_pack(), pack()):
        plane = values_of(found, "isolated")["controlPlane"]
        assert plane["statefulSet"]["highAvailability"]["replicas"] == 3
        assert plane["backingStore"]["etcd"]["embedded"]["enabled"] is True


@pytest.mark.parametrize(
    ("options", "sign"),
    [
        ({"tenancy": Tenancy.CUSTOMER}, "customer"),
        ({}, "endpoint"),
        ({"isolation": "vnode"}, "vnode"),
        (None, "pool"),
    ],
)
def test_four_tenancy_models_differ_in_what_is_documented(options: Object | None, sign: str) -> None:
    """Ledger: TEN-02. A tenant cluster per customer, private nodes per endpoint, vNode, a shared pool."""
    if options is None:
        values, parameters = values_of(example_pack(), "shared"), template_of(example_pack(), "shared")
        assert "privateNodes" not in values
        assert values["deploy"]["argoCD"]["applications"][1]["template"]["parameters"]["path"] == "endpoints/pool"
    else:
        found = pack_with("dedicated", **options)
        values, parameters = values_of(found, "dedicated"), template_of(found, "dedicated")
        assert values["privateNodes"]["enabled"] is True
    names = {parameter["variable"] for parameter in parameters["spec"]["versions"][0]["parameters"]}
    assert ("endpoint" in names) is (sign in ("endpoint", "vnode"))
    assert ("pool" in names) is (sign == "pool")
    text = parameters["spec"]["versions"][0]["template"]["objects"]
    assert ('runtimeClass: "vnode"' in text) is (sign == "vnode")


@pytest.mark.parametrize(
    ("tier", "options", "tenant", "kinds"),
    [
        ("shared", {}, "acme", ["HTTPRoute"]),
        ("shared", {}, "pool", ["Project", "VirtualClusterInstance", "HTTPRoute"]),
        ("dedicated", {}, "acme", ["Project", "VirtualClusterInstance", "HTTPRoute"]),
        (
            "dedicated",
            {"tenancy": Tenancy.CUSTOMER},
            "acme",
            ["Project", "VirtualClusterInstance", "ArgoCDApplication", "HTTPRoute"],
        ),
    ],
)
def test_what_creating_an_endpoint_applies_follows_from_who_shares_a_tenant_cluster(
    tier: str, options: Object, tenant: str, kinds: list[str]
) -> None:
    """Ledger: TEN-02, TEN-04, TEN-13"""
    found = pack_with(tier, **options)
    raw = {**catalog().tiers[tier].example, "tenant": tenant}
    _, planned = admit_endpoint(raw, catalog=found.catalog, site=example_site(), endpoint_id=ENDPOINT)
    assert [made["kind"] for part in found.placed(planned) for made in part.objects] == kinds


def test_customers_tenant_cluster_is_told_of_no_endpoint_and_of_every_provider() -> None:
    found = pack_with("dedicated", tenancy=Tenancy.CUSTOMER)
    values = values_of(found, "dedicated")
    pools = values["privateNodes"]["autoNodes"]
    assert [pool["provider"] for pool in pools] == ["metal3", "aws", "kubevirt"]
    assert [len(pool.get("static", ())) for pool in pools] == [0, 1, 0]
    names = [one["name"] for pool in pools for one in (*pool.get("static", ()), *pool["dynamic"])]
    assert len(names) == len(set(names))
    applications = [made["name"] for made in values["deploy"]["argoCD"]["applications"]]
    assert applications == ["tenant-gpu-stack", "tenant-tenant"]
    instance = found.customer_instance("acme", "dedicated", control_plane="eu-central-1")
    assert instance["metadata"]["name"] == "acme"
    assert filled(instance["spec"]["parameters"], {}) == {"namespace": "inference", "tenant": "acme"}
    planned = dataclasses.replace(example_plan(), tenancy="customer")
    application = found.application(planned)
    assert application["spec"]["parameters"]["path"] == f"endpoints/{ENDPOINT}"
    assert application["spec"]["templateRef"]["name"] in {
        made["metadata"]["name"] for made in found.tier_objects("dedicated")
    }
    with pytest.raises(InvariantError):
        found.instance(planned)


def test_dynamic_pool_empties_out_and_keeps_what_serves() -> None:
    [provider] = values_of(example_pack(), "dedicated")["privateNodes"]["autoNodes"]
    [burst] = provider["dynamic"]
    assert burst["limits"] == {"nodes": "1"}
    assert burst["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert burst["expireAfter"] == "Never"
    assert burst["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert "taints" not in provider["static"][0]


def test_stack_orders_the_components_before_the_runtime() -> None:
    found = pack_with("dedicated", sequencing=Sequencing.STACK)
    deploy = values_of(found, "dedicated")["deploy"]
    assert "argoCD" not in deploy
    [stack] = [made for made in found.tier_objects("dedicated") if made["kind"] == "StackTemplate"]
    assert deploy["stacks"][0]["templateRef"]["name"] == stack["metadata"]["name"]
    first, second = stack["spec"]["tasks"]
    assert second["dependsOn"] == [first["name"]]
    declared = {parameter["variable"] for parameter in stack["spec"]["parameters"]}
    assert declared == set(deploy["stacks"][0]["parameters"])


def test_stack_needs_a_chart_that_knows_stacks() -> None:
    old = example_site().model_copy(update={"chart_version": "0.36.1"})
    with pytest.raises(RejectedError) as refused:
        pack_with("dedicated", site=old, sequencing=Sequencing.STACK).tier_objects("dedicated")
    assert refused.value.reason == "ChartTooOld"


def test_shared_tier_with_claims_syncs_the_classes_that_it_publishes() -> None:
    """Ledger: GPU-04."""
    accelerator = catalog().tiers["partitioned"].accelerator
    found = pack_with("shared", scheduling=Scheduling.DRA, node_pools=NodePools.STATIC, accelerator=accelerator)
    sync = values_of(found, "shared")["sync"]
    assert sync["fromHost"]["deviceClasses"] == {
        "enabled": True,
        "selector": {"matchLabels": {"tenantry.io/tier": "shared"}},
    }
    assert sync["toHost"]["resourceClaims"] == {"enabled": True}
    assert sync["toHost"]["resourceClaimTemplates"] == {"enabled": True}
    [device_class] = [made for made in found.tier_objects("shared") if made["kind"] == "DeviceClass"]
    assert device_class["metadata"]["labels"]["tenantry.io/tier"] == "shared"


def test_connector_is_named_once_and_every_template_follows() -> None:
    """Ledger: ARG-01."""
    renamed = example_site().model_copy(update={"connector": "argocd-second"})
    found = compile_pack(catalog(), renamed)
    for tier in catalog().tiers:
        assert values_of(found, tier)["integrations"]["argoCD"] == {"enabled": True, "connector": "argocd-second"}
    assert "argocd-second" in [made["metadata"]["name"] for made in compile_pack(catalog(), renamed).platform_objects()]


def test_pack_contains_the_baseline_of_both_clusters() -> None:
    """Ledger: SEC-02 (what the pack contains)."""
    found = {(made["kind"], made["metadata"]["name"]): made for made in example_pack().platform_objects()}
    namespace = found["Namespace", "tenantry"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert found["ServiceAccount", "default"]["automountServiceAccountToken"] is False
    assert found["NetworkPolicy", "default-deny"]["spec"]["podSelector"] == {}
    values = values_of(example_pack(), "dedicated")
    assert values["privateNodes"]["kubelet"]["config"]["readOnlyPort"] == 0
    assert values["controlPlane"]["distro"]["k8s"]["apiServer"]["extraArgs"] == ["--profiling=false"]


def test_published_versions_come_with_the_new_one(root: Path) -> None:
    before = load_catalog(root, models=models_root())
    [first] = template_of(compile_pack(before, example_site(), root=root), "dedicated")["spec"]["versions"]
    folder = root / "templates" / "dedicated"
    (folder / "versions").mkdir()
    (folder / "versions" / "1.0.0.yaml").write_text(canonical_yaml(first))
    text = (folder / "tier.yaml").read_text()
    (folder / "tier.yaml").write_text(text.replace("version: 1.0.0", "version: 1.10.0"))
    after = compile_pack(load_catalog(root, models=models_root()), example_site(), root=root)
    versions = template_of(after, "dedicated")["spec"]["versions"]
    assert [entry["version"] for entry in versions] == ["1.0.0", "1.10.0"]
    assert versions[0] == first


def test_published_version_is_not_edited(root: Path) -> None:
    folder = root / "templates" / "dedicated"
    before = compile_pack(load_catalog(root, models=models_root()), example_site(), root=root)
    [first] = template_of(before, "dedicated")["spec"]["versions"]
    (folder / "versions").mkdir()
    (folder / "versions" / "1.0.0.yaml").write_text(canonical_yaml({**first, "parameters": []}))
    with pytest.raises(RejectedError) as refused:
        compile_pack(load_catalog(root, models=models_root()), example_site(), root=root).tier_objects("dedicated")
    assert refused.value.reason == "VersionPublished"
    assert "it differs from the published version: 1.0.0: in `parameters" in refused.value.message
    (folder / "versions" / "1.0.0.yaml").write_text("version: 2.0.0\n")
    with pytest.raises(RejectedError) as misnamed:
        compile_pack(load_catalog(root, models=models_root()), example_site(), root=root).tier_objects("dedicated")
    assert misnamed.value.reason == "InvalidVersion"


def test_names_of_what_is_never_changed_in_place_carry_the_version() -> None:
    for tier in catalog().tiers.values():
        for made in example_pack().tier_objects(tier.name):
            if made["kind"] in ("ArgoCDApplicationTemplate", "StackTemplate"):
                assert made["metadata"]["name"].endswith(tier.version.replace(".", "-"))


def test_objects_stay_far_below_what_etcd_takes() -> None:
    for tier in catalog().tiers:
        size = len(canonical_yaml(template_of(example_pack(), tier)))
        assert size < 300_000, f"{tier}: {size}"


def test_policies_reach_the_tenant_cluster_with_what_they_are_told() -> None:
    version = template_of(example_pack(), "dedicated")["spec"]["versions"][0]
    text = version["template"]["objects"].replace("{{ .Values.tenant }}", "acme")
    found = [made for made in YAML(typ="safe", pure=True).load_all(text) if made]
    policies = {made["metadata"]["name"] for made in found if made["kind"] == "ValidatingAdmissionPolicy"}
    bound = {made["spec"]["policyName"] for made in found if made["kind"] == "ValidatingAdmissionPolicyBinding"}
    assert policies == bound == {f"{name}.tenantry.io" for name in catalog().tiers["dedicated"].policies}
    [told] = [made for made in found if made["kind"] == "ConfigMap"]
    assert told["data"]["tenant"] == "acme"
    assert told["data"]["domain"] == "acme.tenants.example.com"
    assert "vllm/vllm-openai" in told["data"]["registries"].splitlines()

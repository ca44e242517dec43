"""Every tier of the pack: what it publishes is valid, whole and safe. A new tier is tested without writing a test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from ruamel.yaml import YAML

from provisioner.catalog.component import Component
from provisioner.catalog.tier import NodeMode, Scheduling, Tenancy
from tests.contract.schemas import (
    KUBERNETES_VERSIONS,
    VCLUSTER_SCHEMAS,
    faults_of_builtin,
    faults_of_custom,
    faults_of_vcluster_values,
    filled,
    is_builtin,
    schemas_folder,
)
from tests.unit.rendering.examples import catalog, example_pack, example_plan, example_site, pack

TIERS = sorted(catalog().tiers)
PRIVATE = [name for name in TIERS if catalog().tiers[name].node_mode is NodeMode.PRIVATE]
Objects = list[dict[str, Any]]


@cache
def published(tier: str) -> Objects:
    """What a tier publishes and what one endpoint of it adds on the control plane cluster."""
    planned, found = example_plan(tier), example_pack()
    objects = [*found.tier_objects(tier), found.project(planned.tenant, tier), found.customer_route(planned)]
    if catalog().tiers[tier].tenancy is not Tenancy.CUSTOMER:
        objects.append(found.instance(planned))
    return objects


def of_kind(tier: str, kind: str) -> Objects:
    return [found for found in published(tier) if found["kind"] == kind]


@cache
def template_of(tier: str) -> dict[str, Any]:
    [found] = of_kind(tier, "VirtualClusterTemplate")
    [version] = found["spec"]["versions"]
    assert version["version"] == catalog().tiers[tier].version
    return dict(version)


def parameters_of(declared: Objects) -> dict[str, str]:
    """A value for every declared parameter."""
    return {parameter["variable"]: "1" if parameter["type"] == "number" else "x" for parameter in declared}


def holes(value: Any) -> set[str]:
    return set(re.findall(r"\{\{ \.Values\.(\w+) \}\}", json.dumps(value)))


def values_of(tier: str) -> dict[str, Any]:
    """The tenant cluster's vcluster.yaml with its holes filled."""
    version = template_of(tier)
    parameters = parameters_of(version["parameters"])
    return dict(filled(version["template"]["helmRelease"]["values"], parameters))


@cache
def tenant_objects(tier: str) -> Objects:
    """What the Platform puts into the tenant cluster, holes filled."""
    version = template_of(tier)
    text = version["template"]["objects"]
    for name, value in parameters_of(version["parameters"]).items():
        text = text.replace(f"{{{{ .Values.{name} }}}}", value)
    return [found for found in YAML(typ="safe", pure=True).load_all(text) if found]


@pytest.mark.parametrize("tier", TIERS)
def test_objects_keep_to_the_strict_schemas(tier: str) -> None:
    schemas_folder()
    for found in published(tier):
        assert (faults_of_builtin if is_builtin(found) else faults_of_custom)(found) == [], found["metadata"]["name"]


@pytest.mark.parametrize("schema", VCLUSTER_SCHEMAS)
@pytest.mark.parametrize("tier", TIERS)
def test_values_of_the_tenant_cluster_keep_to_the_charts_schema(tier: str, schema: str) -> None:
    assert faults_of_vcluster_values(values_of(tier), schema=schema) == []


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize("tier", TIERS)
def test_objects_in_the_tenant_cluster_keep_to_the_strict_schemas(tier: str, version: str) -> None:
    for found in tenant_objects(tier):
        assert faults_of_builtin(found, version=version) == [], found["metadata"]["name"]


@pytest.mark.parametrize("tier", TIERS)
def test_applications_are_ones_that_argo_cd_takes(tier: str) -> None:
    for template in of_kind(tier, "ArgoCDApplicationTemplate"):
        spec = template["spec"]["template"]["spec"]
        destination = {**spec["destination"], "name": "tenant-cluster"}
        application = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": "application"},
            "spec": {**spec, "destination": destination},
        }
        assert faults_of_custom(application) == []
        assert destination["namespace"]
        assert "CreateNamespace=true" in spec["syncPolicy"]["syncOptions"]


@pytest.mark.parametrize("tier", TIERS)
def test_every_hole_has_a_parameter_and_every_parameter_a_hole(tier: str) -> None:
    """Ledger: ARG-03."""
    version = template_of(tier)
    assert holes(version["template"]) == {parameter["variable"] for parameter in version["parameters"]}
    for template in of_kind(tier, "ArgoCDApplicationTemplate"):
        spec = template["spec"]
        assert holes(spec["template"]) == {parameter["variable"] for parameter in spec.get("parameters", [])}


@pytest.mark.parametrize("tier", [name for name in TIERS if catalog().tiers[name].tenancy is not Tenancy.CUSTOMER])
def test_instance_gives_every_parameter_that_the_template_declares(tier: str) -> None:
    declared = {parameter["variable"] for parameter in template_of(tier)["parameters"]}
    assert set(filled(example_pack().instance(example_plan(tier))["spec"]["parameters"], {})) == declared


@pytest.mark.parametrize("tier", TIERS)
def test_applications_name_templates_that_are_published_and_give_their_parameters(tier: str) -> None:
    """Ledger: ARG-02."""
    templates = {found["metadata"]["name"]: found["spec"] for found in of_kind(tier, "ArgoCDApplicationTemplate")}
    applications = values_of(tier)["deploy"]["argoCD"]["applications"]
    assert {application["template"]["name"] for application in applications} == set(templates)
    for application in applications:
        declared = {found["variable"] for found in templates[application["template"]["name"]].get("parameters", [])}
        assert set(application["template"].get("parameters", {})) == declared
        assert "target" not in application


@pytest.mark.parametrize("tier", TIERS)
def test_application_names_are_unique_and_carry_the_tenant_cluster(tier: str) -> None:
    """Ledger: ARG-08 (what is rendered for it)."""
    names = [application["name"] for application in values_of(tier)["deploy"]["argoCD"]["applications"]]
    assert len(names) == len(set(names))
    assert all(name.startswith("x-") for name in names)


@pytest.mark.parametrize("tier", TIERS)
def test_node_mode_decides_what_the_tenant_cluster_switches_on(tier: str) -> None:
    """Ledger: TEN-07."""
    values, private = values_of(tier), tier in PRIVATE
    assert values["integrations"]["argoCD"] == {"enabled": True, "connector": "argocd-main"}
    assert ("sync" in values) is not private
    assert values.get("privateNodes", {}).get("enabled", False) is private
    if private:
        [provider] = values["privateNodes"]["autoNodes"]
        for pool in (*provider["static"], *provider.get("dynamic", ())):
            assert pool["nodeTypeSelector"] == [
                {"property": "vcluster.com/node-type", "operator": "In", "values": ["x"]}
            ]
        assert values["deploy"]["cni"]["flannel"]["enabled"] is False
        assert values["controlPlane"]["service"]["spec"]["type"] == "LoadBalancer"
        assert any(component.enforces_network_policy for component in components_of(tier))
    else:
        assert values["sync"]["toHost"]["networkPolicies"] == {"enabled": True}
        assert values["sync"]["toHost"]["pods"]["rewriteHosts"] == {"enabled": False}


@pytest.mark.parametrize("tier", TIERS)
def test_imported_gateway_comes_with_the_sync_that_imports_it(tier: str) -> None:
    """Ledger: ROU-02 (what the tenant cluster switches on)."""
    gateways = values_of(tier).get("sync", {}).get("fromHost", {}).get("gateways")
    imported = catalog().tiers[tier].routing == "imported-gateway"
    assert (gateways is not None) is imported
    if imported:
        assert set(gateways["mappings"]["byName"].values()) == {"gateways/public"}
        [override] = gateways["allowedRoutes"]["overrides"]
        assert override["allowedHostnames"] == ["*.x.tenants.example.com"]


@pytest.mark.parametrize("tier", TIERS)
def test_ranges_of_a_tenant_cluster_do_not_overlap(tier: str) -> None:
    from ipaddress import ip_network

    networking = values_of(tier).get("networking")
    assert (networking is not None) is (tier in PRIVATE)
    if networking:
        assert not ip_network(networking["podCIDR"]).overlaps(ip_network(networking["serviceCIDR"]))


@pytest.mark.parametrize("tier", TIERS)
def test_production_takes_snapshots_and_three_replicas(tier: str) -> None:
    """Ledger: TEN-15, SEC-02 (the baseline's part about state)."""
    values = values_of(tier)
    assert values["controlPlane"]["statefulSet"]["highAvailability"]["replicas"] >= 3
    assert values["controlPlane"]["advanced"]["podDisruptionBudget"] == {"enabled": True, "maxUnavailable": 1}
    spread = values["controlPlane"]["statefulSet"]["scheduling"]["topologySpreadConstraints"]
    assert [rule["topologyKey"] for rule in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert values["snapshots"]["auto"]["retention"]["period"] > 0
    assert values["snapshots"]["auto"]["storage"]["type"] == "s3"


@pytest.mark.parametrize("tier", TIERS)
def test_project_fences_templates_node_types_and_quota(tier: str) -> None:
    """Ledger: TEN-06, TEN-10 (the Project's side), CAP-01 (node types by property)."""
    [project] = [found for found in of_kind(tier, "Project") if found["metadata"]["name"].endswith(tier)]
    described = catalog().tiers[tier]
    assert project["spec"]["quotas"]["project"] == described.quota
    assert [found["name"] for found in project["spec"]["allowedTemplates"]] == [f"tenantry-{tier}"]
    allowed = [found["name"] for found in project["spec"]["allowedNodeTypes"]]
    expected = sorted(example_site().offered_to(described)) if tier in PRIVATE else []
    assert sorted(allowed) == expected
    assert all("*" not in name for name in allowed)


@pytest.mark.parametrize("tier", TIERS)
def test_nodes_profile_is_allowed_in_the_project_and_named_by_every_pool(tier: str) -> None:
    profiles = {found["metadata"]["name"] for found in of_kind(tier, "NodeProfile")}
    [project] = [found for found in of_kind(tier, "Project") if found["metadata"]["name"].endswith(tier)]
    assert {found["name"] for found in project["spec"]["allowedNodeProfiles"]} == profiles
    for provider in values_of(tier).get("privateNodes", {}).get("autoNodes", ()):
        assert {pool["profile"] for pool in (*provider["static"], *provider.get("dynamic", ()))} == profiles


def components_of(tier: str) -> list[Component]:
    return [catalog().components[name] for name in catalog().tiers[tier].stack]


def stack_sources(tier: str) -> Iterator[dict[str, Any]]:
    for found in of_kind(tier, "ArgoCDApplicationTemplate"):
        yield from found["spec"]["template"]["spec"].get("sources", [])


@pytest.mark.parametrize("tier", TIERS)
def test_every_component_of_the_stack_is_one_source_with_a_pinned_version(tier: str) -> None:
    """Ledger: GPU-06."""
    sources = list(stack_sources(tier))
    assert len(sources) == len(catalog().tiers[tier].stack)
    for source in sources:
        assert re.fullmatch(r"v?\d+\.\d+\.\d+", source["targetRevision"]), source["chart"]
        assert len(source["helm"]["releaseName"]) <= 53


@pytest.mark.parametrize("tier", PRIVATE)
def test_nothing_of_the_stack_waits_for_a_pod_before_the_network_is_there(tier: str) -> None:
    """Argo CD runs a chart's pre-install and pre-upgrade Jobs before it applies anything of an Application. The CNI is
    part of this one: such a Job would wait for a node that waits for the CNI. These are the charts that have one."""
    values = {source["chart"]: source["helm"].get("valuesObject", {}) for source in stack_sources(tier)}
    prometheus = values["kube-prometheus-stack"]["prometheusOperator"]
    assert prometheus == {"admissionWebhooks": {"enabled": False}, "tls": {"enabled": False}}
    # No rule for such a webhook to judge, and a bound on what stands beside the model servers.
    assert values["kube-prometheus-stack"]["defaultRules"] == {"create": False}
    kept = values["kube-prometheus-stack"]["prometheus"]["prometheusSpec"]
    assert (kept["retention"], kept["retentionSize"], kept["resources"]["limits"]) == ("2d", "4GB", {"memory": "4Gi"})
    assert values["gateway-helm"]["certgen"]["job"]["annotations"] == {"argocd.argoproj.io/hook": "Sync"}
    assert values["gpu-operator"]["operator"] == {"upgradeCRD": False}


@pytest.mark.parametrize("tier", PRIVATE)
def test_pods_start_whether_or_not_the_scheduler_of_the_stack_answers(tier: str) -> None:
    """Kueue's chart asks it about every pod of every namespace but two, and refuses those that it cannot ask about."""
    values = {source["chart"]: source["helm"].get("valuesObject", {}) for source in stack_sources(tier)}
    told = YAML(typ="safe").load(values["kueue"]["managerConfig"]["controllerManagerConfigYaml"])
    assert told["managedJobsNamespaceSelector"] == {"matchLabels": {"tenantry.io/queued": "true"}}


@pytest.mark.parametrize("tier", PRIVATE)
def test_pack_of_a_tenant_cluster_covers_operator_scheduler_gateway_metrics_and_secrets(tier: str) -> None:
    """Ledger: ARG-10. The model server, the sixth, is the runtime's own Application."""
    roles = {component.role for component in components_of(tier)}
    assert {"operator", "scheduler", "gateway", "metrics", "secrets"} <= roles
    assert catalog().tiers[tier].runtimes


@pytest.mark.parametrize("tier", TIERS)
def test_gpus_are_handed_out_and_measured_by_exactly_one_component(tier: str) -> None:
    """Ledger: GPU-03."""
    provided = [name for component in components_of(tier) for name in component.provides]
    private, dra = tier in PRIVATE, catalog().tiers[tier].scheduling is Scheduling.DRA
    assert provided.count("dcgm-exporter") == private
    assert provided.count("dra-driver") == (private and dra)
    sources = {source["chart"]: source["helm"].get("valuesObject", {}) for source in stack_sources(tier)}
    if private:
        plugin = sources["gpu-operator"].get("devicePlugin", {}).get("enabled", True)
        assert plugin is not dra
    assert "sync" not in values_of(tier) or not private


@pytest.mark.parametrize("tier", TIERS)
def test_nothing_that_places_across_tenant_clusters_is_published(tier: str) -> None:
    """Ledger: GPU-05. Each tenant cluster's own scheduler decides; a tier publishes descriptions only."""
    kinds = {found["kind"] for found in example_pack().tier_objects(tier)}
    assert kinds <= {
        "ArgoCDApplicationTemplate",
        "DeviceClass",
        "NodeProfile",
        "NodeProvider",
        "StackTemplate",
        "VirtualClusterTemplate",
    }
    assert not values_of(tier).get("sync", {}).get("toHost", {}).get("pods", {}).get("hybridScheduling")


@pytest.mark.parametrize("tier", TIERS)
def test_example_of_the_tier_is_admitted_in_its_region(tier: str) -> None:
    planned = example_plan(tier)
    assert planned.tier == tier
    assert planned.region == "eu-central-1"


@pytest.mark.parametrize("tier", TIERS)
def test_published_text_reads_the_same_in_yaml_1_1_and_1_2(tier: str) -> None:
    import yaml

    version = template_of(tier)
    texts = [version["template"]["objects"], version["template"]["helmRelease"]["values"]]
    for text in texts:
        for name, value in parameters_of(version["parameters"]).items():
            text = text.replace(f"{{{{ .Values.{name} }}}}", value)
        old = [found for found in yaml.safe_load_all(text) if found]
        assert old == [found for found in YAML(typ="safe", pure=True).load_all(text) if found]


def test_every_component_names_a_chart_of_versions_yaml_and_has_a_source() -> None:
    from provisioner.catalog.pack import pack_root

    for name, component in catalog().components.items():
        assert component.chart in catalog().versions.charts
        assert (pack_root() / "applications" / "stack" / name / "source.yaml.j2").is_file()
    assert set(catalog().versions.charts) == {"vcluster", *(made.chart for made in catalog().components.values())}


def test_small_site_of_profile_dev_publishes_the_tiers_that_it_can() -> None:
    for tier in TIERS:
        assert pack().tier_objects(tier)

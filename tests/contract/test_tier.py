"""Every tier of the pack: what it publishes is valid, whole and safe. A new tier is tested without writing a test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.schemas import (
    faults_of_builtin,
    faults_of_custom,
    faults_of_vcluster_values,
    filled,
    is_builtin,
    schemas_folder,
)
from tests.unit.rendering.examples import catalog, pack, plan

TIERS = sorted(catalog().tiers)
Objects = list[dict[str, Any]]


def published(tier: str) -> Objects:
    """What a tier publishes and what one endpoint of it adds on the control plane cluster."""
    planned = plan(tier)
    objects = [*pack().tier_objects(tier), pack().project(planned.tenant, tier), pack().customer_route(planned)]
    return [*objects, pack().instance(planned)] if catalog().tiers[tier].instance else objects


def of_kind(tier: str, kind: str) -> Objects:
    return [found for found in published(tier) if found["kind"] == kind]


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


@pytest.mark.parametrize("tier", TIERS)
def test_objects_keep_to_the_strict_schemas(tier: str) -> None:
    schemas_folder()
    for found in published(tier):
        assert (faults_of_builtin if is_builtin(found) else faults_of_custom)(found) == [], found["metadata"]["name"]


@pytest.mark.parametrize("tier", TIERS)
def test_values_of_the_tenant_cluster_keep_to_the_charts_schema(tier: str) -> None:
    assert faults_of_vcluster_values(values_of(tier)) == []


@pytest.mark.parametrize("tier", TIERS)
def test_objects_in_the_tenant_cluster_keep_to_the_strict_schemas(tier: str) -> None:
    version = template_of(tier)
    found = filled(version["template"]["objects"], parameters_of(version["parameters"]))
    assert faults_of_builtin(found) == []


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
    version = template_of(tier)
    assert holes(version["template"]) == {parameter["variable"] for parameter in version["parameters"]}
    for template in of_kind(tier, "ArgoCDApplicationTemplate"):
        spec = template["spec"]
        assert holes(spec["template"]) == {parameter["variable"] for parameter in spec.get("parameters", [])}


@pytest.mark.parametrize("tier", [tier for tier in TIERS if catalog().tiers[tier].instance])
def test_instance_gives_every_parameter_that_the_template_declares(tier: str) -> None:
    declared = {parameter["variable"] for parameter in template_of(tier)["parameters"]}
    assert set(filled(pack().instance(plan(tier))["spec"]["parameters"], {})) == declared


@pytest.mark.parametrize("tier", TIERS)
def test_applications_name_templates_that_are_published_and_give_their_parameters(tier: str) -> None:
    templates = {found["metadata"]["name"]: found["spec"] for found in of_kind(tier, "ArgoCDApplicationTemplate")}
    applications = values_of(tier)["deploy"]["argoCD"]["applications"]
    assert {application["template"]["name"] for application in applications} == set(templates)
    for application in applications:
        declared = {found["variable"] for found in templates[application["template"]["name"]].get("parameters", [])}
        assert set(application["template"].get("parameters", {})) == declared
        assert "target" not in application


@pytest.mark.parametrize("tier", TIERS)
def test_node_mode_decides_what_the_tenant_cluster_switches_on(tier: str) -> None:
    values, private = values_of(tier), catalog().tiers[tier].node_mode == "private"
    assert values["integrations"]["argoCD"] == {"enabled": True, "connector": "argocd-main"}
    assert ("sync" in values) is not private
    assert values.get("privateNodes", {}).get("enabled", False) is private
    if private:
        assert values["deploy"]["cni"]["flannel"]["enabled"] is False
        assert "cilium" in catalog().tiers[tier].stack


def stack_sources(tier: str) -> Iterator[dict[str, Any]]:
    for found in of_kind(tier, "ArgoCDApplicationTemplate"):
        yield from found["spec"]["template"]["spec"].get("sources", [])


@pytest.mark.parametrize("tier", TIERS)
def test_every_component_of_the_stack_is_one_source_with_a_pinned_version(tier: str) -> None:
    sources = list(stack_sources(tier))
    assert len(sources) == len(catalog().tiers[tier].stack)
    for source in sources:
        assert re.fullmatch(r"v?\d+\.\d+\.\d+", source["targetRevision"]), source["chart"]

"""Every runtime on every tier that may run it: what is delivered is valid, whole and safe."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import provisioner
from tests.contract.schemas import (
    documents,
    faults_in_crd,
    faults_of_builtin,
    faults_of_custom,
    is_builtin,
    schemas_folder,
)
from tests.unit.rendering.examples import catalog, model_for, pack, plan

EMBEDDED = Path(provisioner.__file__).parent / "embedded" / "apiserver" / "crds"
PAIRS = [
    (tier.name, runtime)
    for tier in sorted(catalog().tiers.values(), key=lambda tier: tier.name)
    for runtime in sorted(tier.runtimes)
]
Objects = tuple[dict[str, Any], ...]


@cache
def delivered(tier: str, runtime: str) -> Objects:
    """Everything that is delivered for the smallest model of the runtime."""
    planned = plan(tier, model=model_for(runtime))
    return tuple(value for _, value in documents(pack().runtime_tree(planned)))


@cache
def embedded_crds() -> Objects:
    """The custom kinds that the embedded plane serves."""
    reader = YAML(typ="safe")
    return tuple(crd for path in sorted(EMBEDDED.glob("*.yaml")) for crd in reader.load(path.read_text())["items"])


def one(objects: Objects, kind: str) -> dict[str, Any]:
    [found] = [value for value in objects if value["kind"] == kind]
    return found


def pod_of(objects: Objects) -> dict[str, Any]:
    spec: dict[str, Any] = one(objects, "StatefulSet")["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_built_in_objects_keep_to_the_strict_schemas(tier: str, runtime: str) -> None:
    for value in filter(is_builtin, delivered(tier, runtime)):
        assert faults_of_builtin(value) == [], value["metadata"]["name"]


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_custom_objects_keep_to_the_public_schemas(tier: str, runtime: str) -> None:
    schemas_folder()
    for value in delivered(tier, runtime):
        if not is_builtin(value):
            assert faults_of_custom(value) == [], value["metadata"]["name"]


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_custom_objects_are_ones_that_the_embedded_plane_serves(tier: str, runtime: str) -> None:
    for value in delivered(tier, runtime):
        if not is_builtin(value):
            assert faults_in_crd(embedded_crds(), value) == [], value["metadata"]["name"]


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_every_object_says_whose_it_is(tier: str, runtime: str) -> None:
    for value in delivered(tier, runtime):
        labels = value["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "tenantry"
        assert labels["tenantry.io/tier"] == tier
        assert labels["tenantry.io/tenant"] == "acme"
        assert value["kind"] == "Namespace" or labels["tenantry.io/endpoint"] == "ep-demo234567"


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_pod_keeps_to_the_restricted_security_standard(tier: str, runtime: str) -> None:
    pod = pod_of(delivered(tier, runtime))
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(pod)
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
    assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= {"emptyDir", "configMap"}


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_server_has_probes_limits_and_gpus(tier: str, runtime: str) -> None:
    [container] = pod_of(delivered(tier, runtime))["containers"]
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
    assert {"memory", "nvidia.com/gpu"} <= set(container["resources"]["limits"])
    assert {"cpu", "memory", "nvidia.com/gpu"} <= set(container["resources"]["requests"])


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_image_is_the_one_of_versions_yaml_behind_the_mirror(tier: str, runtime: str) -> None:
    [container] = pod_of(delivered(tier, runtime))["containers"]
    images = {f"registry.example.com/{image}" for image in catalog().versions.images.values()}
    assert container["image"] in images


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_network_is_closed_but_for_what_is_named(tier: str, runtime: str) -> None:
    policies = [value["spec"] for value in delivered(tier, runtime) if value["kind"] == "NetworkPolicy"]
    closed = [spec for spec in policies if not spec.get("ingress") and not spec.get("egress")]
    assert [(spec["podSelector"], sorted(spec["policyTypes"])) for spec in closed] == [({}, ["Egress", "Ingress"])]
    port = catalog().runtimes[runtime].port
    opened_in = {allowed["port"] for spec in policies for rule in spec.get("ingress", []) for allowed in rule["ports"]}
    assert opened_in == {port}
    opened_out = {
        (allowed["protocol"], allowed["port"])
        for spec in policies
        for rule in spec.get("egress", [])
        for allowed in rule["ports"]
    }
    assert {("UDP", 53), ("TCP", 53)} <= opened_out
    assert (("TCP", 443) in opened_out) is (catalog().runtimes[runtime].options["model_source"] == "hub")


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_scaler_asks_for_the_runtimes_own_metric(tier: str, runtime: str) -> None:
    [trigger] = one(delivered(tier, runtime), "ScaledObject")["spec"]["triggers"]
    metric = catalog().runtimes[runtime].metrics.get("requests_waiting", "DCGM_FI_DEV_GPU_UTIL")
    assert metric in trigger["metadata"]["query"]


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_names_fit_where_they_go(tier: str, runtime: str) -> None:
    for value in delivered(tier, runtime):
        name = value["metadata"]["name"]
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name)
        assert value["kind"] != "StatefulSet" or len(name) <= 52


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_nothing_is_left_for_the_platform_to_fill(tier: str, runtime: str) -> None:
    assert "{{" not in json.dumps(delivered(tier, runtime))

"""What an installation stands up: valid, closed, unprivileged, and such that every process would truly start."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ruamel.yaml import YAML

from provisioner.catalog.loader import load_site
from provisioner.gateway.config import Limits
from provisioner.gateway.operator.counters import GAUGES, METRICS
from provisioner.gateway.usage.measures import MEASURED
from provisioner.lint.rules.engines._metric_names import KNOWN
from provisioner.platform.publish import PRUNED
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.pack import compile_pack
from provisioner.settings import VARIABLES, gateway
from provisioner.wiring.serving import GRACE_SECONDS
from tests.contract.network import Network, Peer, matches, outside
from tests.contract.policy_samples import policies
from tests.contract.schemas import (
    KUBERNETES_VERSIONS,
    faults_in_crd,
    faults_of_builtin,
    faults_of_custom,
    is_builtin,
    schemas_folder,
)
from tests.contract.test_runtime import embedded_crds
from tests.lint.worlds import lint, told
from tests.unit.rendering.examples import catalog
from tests.unit.rendering.installations import CASES, Object, objects_of, site_of, site_with

every_case = pytest.mark.parametrize("case", CASES)


def of_kind(kind: str, case: str = "reference") -> dict[str, Object]:
    return {made["metadata"]["name"]: made for made in objects_of(case) if made["kind"] == kind}


def pods(case: str) -> dict[str, Object]:
    return {name: made["spec"]["template"]["spec"] for name, made in of_kind("Deployment", case).items()}


def container(name: str, case: str = "reference") -> Object:
    [found] = pods(case)[name]["containers"]
    return dict(found)


def environment(name: str, case: str = "reference") -> dict[str, Any]:
    return {item["name"]: item.get("value") for item in container(name, case)["env"]}


@every_case
def test_built_in_objects_keep_to_the_strict_schemas(case: str) -> None:
    for made in filter(is_builtin, objects_of(case)):
        for version in KUBERNETES_VERSIONS:
            assert faults_of_builtin(made, version=version) == [], (made["metadata"]["name"], version)


@every_case
def test_custom_objects_keep_to_the_public_schemas(case: str) -> None:
    schemas_folder()
    for made in objects_of(case):
        assert is_builtin(made) or faults_of_custom(made) == [], made["metadata"]["name"]


@every_case
def test_custom_objects_are_ones_that_the_embedded_plane_serves(case: str) -> None:
    for made in objects_of(case):
        assert is_builtin(made) or faults_in_crd(embedded_crds(), made) == [], made["metadata"]["name"]


@every_case
def test_nothing_is_found_in_what_is_applied(case: str, tmp_path: Path) -> None:
    (tmp_path / "platform.yaml").write_text("---\n".join(map(canonical_yaml, objects_of(case))))
    found = lint(tmp_path)
    assert not found, told(found)


def test_lent_listener_asks_for_our_certificate_whatever_the_controller_reads() -> None:
    """Envoy Gateway reads it of a policy of its own, and of nothing else."""
    [gateway] = of_kind("Gateway").values()
    [per_port] = gateway["spec"]["tls"]["frontend"]["perPort"]
    [lent] = [found for found in gateway["spec"]["listeners"] if found["port"] == per_port["port"]]
    [policy] = of_kind("ClientTrafficPolicy").values()
    [target] = policy["spec"]["targetRefs"]
    assert (target["name"], target["sectionName"]) == (gateway["metadata"]["name"], lent["name"])
    assert policy["spec"]["tls"]["clientValidation"] == per_port["tls"]["validation"]


@every_case
def test_readers_of_both_versions_of_yaml_see_the_same(case: str) -> None:
    for made in objects_of(case):
        text = canonical_yaml(made)
        assert yaml.safe_load(text) == YAML(typ="safe", pure=True).load(text) == made


@every_case
def test_our_own_policies_let_everything_through_that_they_are_bound_to(case: str) -> None:
    bound = {
        made["spec"]["policyName"].partition(".")[0]
        for made in of_kind("ValidatingAdmissionPolicyBinding", case).values()
        if made["spec"]["matchResources"]["namespaceSelector"]["matchLabels"] == {"tenantry.io/policies": "own"}
    }
    closed = of_kind("NetworkPolicy", case)["default-deny"]
    assert len(bound) == (9 if case == "dev" else 10)
    for policy in policies():
        for made in objects_of(case):
            if policy.name in bound and made["metadata"].get("namespace") == "tenantry":
                assert policy.denials(made, params=closed if policy.param_kind else None) == ()


SYNCED = {
    "endpoint": {"vcluster.loft.sh/managed-by": "pool", "vcluster.loft.sh/namespace": "inference"},
    "own-namespace": {"vcluster.loft.sh/managed-by": "pool", "vcluster.loft.sh/namespace": "default"},
    "stack": {"vcluster.loft.sh/managed-by": "pool", "vcluster.loft.sh/namespace": "tenantry-stack"},
    "names": {"vcluster.loft.sh/managed-by": "pool", "vcluster.loft.sh/namespace": "kube-system"},
    "control-plane": {"app": "vcluster", "release": "pool"},
}
"""Labels of pods in the namespace of a tenant cluster on shared nodes: those that it syncs say from where."""


def test_policies_are_bound_to_our_own_namespace_and_to_pods_of_tenants_on_shared_nodes_only() -> None:
    for binding in of_kind("ValidatingAdmissionPolicyBinding").values():
        match = binding["spec"]["matchResources"]
        scope = match["namespaceSelector"]["matchLabels"]["tenantry.io/policies"]
        assert ("objectSelector" in match) is (scope == "shared-nodes")
        if scope == "shared-nodes":
            judged = {where for where, labels in SYNCED.items() if matches(match["objectSelector"], labels)}
            assert judged == {"endpoint", "own-namespace"}
        assert binding["spec"]["validationActions"] == ["Deny", "Audit"]
    assert of_kind("Namespace")["tenantry"]["metadata"]["labels"]["tenantry.io/policies"] == "own"


@every_case
def test_pods_run_without_rights_tokens_or_a_writable_root(case: str) -> None:
    """Ledger: SEC-02 (our own processes)."""
    for pod in pods(case).values():
        [found] = pod["containers"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert found["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert found["securityContext"]["readOnlyRootFilesystem"] is True
        assert {"cpu", "memory"} <= found["resources"]["requests"].keys()
        assert "memory" in found["resources"]["limits"]
    accounts = of_kind("ServiceAccount", case).values()
    assert all(account["automountServiceAccountToken"] is False for account in accounts)
    assert not of_kind("ClusterRoleBinding", case)


@every_case
def test_every_process_is_told_variables_that_are_read_and_files_that_are_mounted(case: str) -> None:
    for name, pod in pods(case).items():
        [found] = pod["containers"]
        folders = [mount["mountPath"] for mount in found["volumeMounts"]]
        assert {mount["name"] for mount in found["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        for item in found["env"]:
            assert item["name"] in {*VARIABLES, *gateway.VARIABLES, "HOME"}, (name, item)
            for path in re.findall(r"/(?:etc|var)/tenantry\S*|/var/lib/\S+", item.get("value") or ""):
                assert any(path == folder or path.startswith(f"{folder}/") for folder in folders), (name, path)


@every_case
def test_every_secret_and_file_that_pods_name_is_made_with_them(case: str) -> None:
    made = {(found["kind"], found["metadata"]["name"]): found for found in objects_of(case)}
    issued = {found["spec"]["secretName"] for found in of_kind("Certificate", case).values()}
    for pod in pods(case).values():
        for volume in pod["volumes"]:
            if "secret" in volume and not volume["secret"].get("optional"):
                assert volume["secret"]["secretName"] in issued or ("Secret", volume["secret"]["secretName"]) in made
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in made
        for item in pod["containers"][0]["env"]:
            if "valueFrom" in item:
                reference = item["valueFrom"]["secretKeyRef"]
                assert reference["key"] in made["Secret", reference["name"]]["stringData"]


def test_each_process_holds_what_it_needs_and_no_more() -> None:
    """Ledger: SEC-01 (only who makes tenants holds the key that makes projects)."""
    held = {
        name: {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
        for name, pod in pods("reference").items()
    }
    assert held == {
        "tenantry-api": {"tenantry-operator-key", "tenantry-gateway-key"},
        "tenantry-worker": {"tenantry-runtime", "tenantry-delivery", "tenantry-control-plane-client"},
        "tenantry-tenants": {"tenantry-runtime", "tenantry-bootstrap"},
        "tenantry-reconciler": {"tenantry-runtime"},
        "tenantry-gateway": {"tenantry-gateway-key", "tenantry-gateway-client", "tenantry-gateway-secrets"},
    }
    assert "TENANTRY_DATABASE_URL" not in environment("tenantry-gateway")


def test_gateways_and_the_api_are_given_the_same_key_from_the_same_secret() -> None:
    """Ledger: ADM-14."""
    for name in ("tenantry-api", "tenantry-gateway"):
        folder = str(Path(environment(name)["TENANTRY_GATEWAY_KEY_FILE"]).parent)
        [mount] = [mount for mount in container(name)["volumeMounts"] if mount["mountPath"] == folder]
        [volume] = [volume for volume in pods("reference")[name]["volumes"] if volume["name"] == mount["name"]]
        assert volume["secret"]["secretName"] == "tenantry-gateway-key"


def test_keys_users_can_provision_and_cannot_administer() -> None:
    """Ledger: SEC-01."""
    users = of_kind("User")
    assert {name: user["spec"]["clusterRoles"] for name, user in users.items()} == {
        "tenantry-bootstrap": [{"name": "tenantry-bootstrap"}],
        "tenantry-runtime": [{"name": "tenantry-runtime"}],
    }
    for role in of_kind("ClusterRole").values():
        for rule in role["rules"]:
            assert "*" not in (*rule["resources"], *rule["verbs"], *rule["apiGroups"])
            assert not {"clusters", "roles", "secrets", "teams", "users"} & set(rule["resources"])
    bootstrap = of_kind("ClusterRole")["tenantry-bootstrap"]["rules"]
    removed = {resource for rule in bootstrap if "delete" in rule["verbs"] for resource in rule["resources"]}
    assert removed == {"projects", *(kind.plural for kind in PRUNED)}
    runtime = of_kind("ClusterRole")["tenantry-runtime"]["rules"]
    assert {verb for rule in runtime for verb in rule["verbs"]} == {"get"}
    assert all(key["spec"]["ttl"] > 0 for key in of_kind("OwnedAccessKey").values())


@every_case
def test_pods_are_given_longer_to_end_than_their_process_takes(case: str) -> None:
    for name, pod in pods(case).items():
        pause = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        takes = Limits().drain_seconds if name == "tenantry-gateway" else GRACE_SECONDS
        assert pod["terminationGracePeriodSeconds"] > pause + takes


def test_production_stands_on_several_pods_of_each_process_and_may_be_drained() -> None:
    """Ledger: TEN-15, DAY-07 (what is rendered for it)."""
    scaled = {
        made["spec"]["scaleTargetRef"]["name"]: made["spec"] for made in of_kind("HorizontalPodAutoscaler").values()
    }
    assert scaled.keys() == {"tenantry-api", "tenantry-worker"}
    for name, made in of_kind("Deployment").items():
        replicas = scaled[name]["minReplicas"] if name in scaled else made["spec"]["replicas"]
        assert ("replicas" in made["spec"]) is not (name in scaled), "two would set the number"
        assert replicas >= 2
        assert of_kind("PodDisruptionBudget")[name]["spec"]["maxUnavailable"] == 1
    values = yaml.safe_load(of_kind("Secret")["tenantry-platform-values"]["stringData"]["values.yaml"])
    assert values["replicaCount"] == 3
    assert values["config"]["audit"]["enabled"] is True


def test_development_stands_on_one_of_each() -> None:
    """Ledger: TEN-15."""
    assert all(made["spec"]["replicas"] == 1 for made in of_kind("Deployment", "dev").values())
    assert not of_kind("HorizontalPodAutoscaler", "dev")
    assert not of_kind("PodDisruptionBudget", "dev")


@every_case
def test_processes_read_the_site_that_was_rendered(case: str, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(of_kind("ConfigMap", case)["tenantry-site"]["data"]["site.yaml"])
    assert load_site(tmp_path / "site.yaml") == site_of(case)


OURS = ("tenantry-api", "tenantry-worker", "tenantry-tenants", "tenantry-reconciler", "tenantry-gateway")
SERVER, TO_REPLICAS = OURS[:4], ("tenantry-worker", "tenantry-gateway")
OTHERS = {
    "dns": Peer("kube-system", {"k8s-app": "kube-dns"}),
    "database": outside("203.0.113.50"),
    "platform": outside("203.0.113.40"),
    "git": outside("203.0.113.70"),
    "tenant": outside("203.0.113.130"),
    "entrance": Peer("envoy-gateway-system"),
    "metrics": Peer("monitoring"),
    "product": Peer("product"),
    "stranger": Peer("default"),
    "node": outside("169.254.169.254"),
    "internet": outside("192.0.2.9"),
}
PORTS = (53, 80, 443, 5432, 6443, 8080, 8400, 8443, 9090, 10443)
MEANT = {
    *((name, "dns", 53) for name in OURS),
    *((name, "database", 5432) for name in SERVER),
    *((name, "platform", 443) for name in SERVER[1:]),
    ("tenantry-worker", "git", 443),
    *((name, "tenant", port) for name in TO_REPLICAS for port in (443, 8443)),
    # Tenants' Gateways beside ours, and the public one: its Service's port and its pods'.
    *((name, "entrance", 8443) for name in TO_REPLICAS),
    *(("tenantry-worker", "entrance", port) for port in (443, 10443)),
    ("tenantry-gateway", "tenantry-api", 8400),
    ("product", "tenantry-api", 8400),
    ("entrance", "tenantry-gateway", 8080),
    ("metrics", "tenantry-gateway", 9090),
    *(("metrics", name, 8400) for name in SERVER),
}


def test_exactly_the_flows_that_are_meant_get_through() -> None:
    network = Network.of(objects_of("reference"))
    ours = {
        name: Peer("tenantry", made["spec"]["template"]["metadata"]["labels"])
        for name, made in of_kind("Deployment").items()
    }
    assert tuple(ours) == OURS
    everybody = {**ours, **OTHERS}
    through = {
        (source, target, port)
        for source in everybody
        for target in everybody
        if source != target and not (source in OTHERS and target in OTHERS)
        for port in PORTS
        if network.lets(everybody[source], everybody[target], port)
    }
    assert through == MEANT


def test_names_are_resolved_on_nodes_where_the_site_says_so() -> None:
    ours = Peer("tenantry", {"app.kubernetes.io/name": "tenantry-worker"})
    on_nodes = site_with({"nameServerRanges": ["169.254.20.10/32"]})
    for site, reached in ((site_with({}), False), (on_nodes, True)):
        network = Network.of(compile_pack(catalog(), site).platform_objects())
        assert network.lets(ours, Peer("kube-system", {"k8s-app": "node-local-dns"}), 53, "UDP")
        assert network.lets(ours, outside("169.254.20.10"), 53, "UDP") is reached
        assert not network.lets(ours, outside("169.254.20.10"), 80)


def queries() -> Iterable[str]:
    for name, made in of_kind("ConfigMap").items():
        if name.startswith("tenantry-dashboard-"):
            [text] = made["data"].values()
            for panel in json.loads(text)["panels"]:
                yield from (target["expr"] for target in panel["targets"])


def test_dashboards_ask_for_metrics_that_exist() -> None:
    asked = " ".join(queries())
    ours = set(re.findall(r"\btenantry_gateway_\w+", asked))
    assert ours
    assert ours <= {metric.name for metric in (*METRICS, *GAUGES)}
    measured = {re.sub(r"_(bucket|sum)$", "", name) for name in re.findall(r"\bgen_ai_(?:server|client)_\w+", asked)}
    assert measured
    assert measured <= {metric.name for metric in MEASURED}
    engines = {re.sub(r"_(total|bucket)$", "", name) for name in re.findall(r"vllm:(\w+)", asked)}
    assert engines
    assert engines <= KNOWN["vllm"]


def test_monitor_finds_the_gateways_port_and_nobody_else_is_let_in() -> None:
    [endpoint] = of_kind("ServiceMonitor")["tenantry-gateway"]["spec"]["endpoints"]
    [port] = of_kind("Service")["tenantry-gateway-admin"]["spec"]["ports"]
    assert (endpoint["port"], port["targetPort"]) == (port["name"], "admin")
    assert environment("tenantry-gateway")["ADMIN_ADDR"] == ":9090"


def test_new_secrets_are_new_keys_and_restart_whoever_holds_them() -> None:
    before, after = (
        {
            (found["kind"], found["metadata"]["name"]): found
            for found in compile_pack(catalog(), site_with({"installation": {"credentials": name}})).platform_objects()
        }
        for name in ("first", "second")
    )
    gone = {("OwnedAccessKey", f"{user}-first") for user in ("tenantry-bootstrap", "tenantry-runtime")}
    assert before.keys() - after.keys() == gone
    for key, made in after.items():
        if key[0] == "Deployment":
            assert made["spec"]["template"]["metadata"] != before[key]["spec"]["template"]["metadata"]

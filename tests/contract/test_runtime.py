"""Every runtime on every tier that may run it, and every option of a tier: what is delivered is valid and safe."""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ruamel.yaml import YAML

import provisioner
from provisioner.catalog.tier import Scheduling
from provisioner.lint.engine import lint_paths
from tests.contract.runtimes import (
    AGENT,
    OPTIONS,
    PAIRS,
    Case,
    Object,
    changed,
    full_site,
    optional,
    pod_templates,
    shipped,
)
from tests.contract.schemas import (
    KUBERNETES_VERSIONS,
    faults_in_crd,
    faults_of_builtin,
    faults_of_custom,
    filled_in_whole_lists,
    is_builtin,
    schemas_folder,
)
from tests.unit.rendering.examples import catalog

EMBEDDED = Path(provisioner.__file__).parent / "embedded" / "apiserver" / "crds"
DRA_SINCE = "1.34"
DRA_KINDS = {"DeviceClass", "ResourceClaimTemplate"}
ONCE = {"Namespace", "ResourceQuota", "Gateway", "GatewayClass", "ClusterIssuer", "Certificate", "DeviceClass"}
CASES = [pytest.param("tier", *pair, id="-".join(pair)) for pair in PAIRS] + [
    pytest.param("option", name, runtime, id=f"{name}-{runtime}")
    for name, (tier, _) in OPTIONS.items()
    for runtime in ("vllm", "mistralrs", "parakeet")
    if runtime in catalog().tiers[tier].runtimes
]
every_case = pytest.mark.parametrize(("how", "name", "runtime"), CASES)


def case(how: str, name: str, runtime: str) -> Case:
    return shipped(name, runtime) if how == "tier" else optional(name, runtime)


@cache
def embedded_crds() -> tuple[Object, ...]:
    """The custom kinds that the embedded plane serves."""
    reader = YAML(typ="safe")
    return tuple(crd for path in sorted(EMBEDDED.glob("*.yaml")) for crd in reader.load(path.read_text())["items"])


@every_case
def test_built_in_objects_keep_to_the_strict_schemas(how: str, name: str, runtime: str) -> None:
    found = case(how, name, runtime)
    for value in filter(is_builtin, found.objects):
        for version in KUBERNETES_VERSIONS:
            if value["kind"] in DRA_KINDS and version < DRA_SINCE:
                continue
            assert faults_of_builtin(value, version=version) == [], (value["metadata"]["name"], version)
    for value in found.objects:
        for number, template in enumerate(pod_templates(value)):
            pod = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(template)}
            assert faults_of_builtin(pod) == [], (value["kind"], number)


@every_case
def test_custom_objects_keep_to_the_public_schemas(how: str, name: str, runtime: str) -> None:
    schemas_folder()
    for value in case(how, name, runtime).objects:
        if not is_builtin(value):
            assert faults_of_custom(value) == [], value["metadata"]["name"]


@every_case
def test_argo_cd_finds_what_it_applied(how: str, name: str, runtime: str) -> None:
    schemas_folder()
    found = case(how, name, runtime)
    for value in found.objects:
        assert filled_in_whole_lists(value) == [], value["metadata"]["name"]
    for claim in found.workload["spec"].get("volumeClaimTemplates", ()):
        # github.com/argoproj/argo-cd/issues/11143
        assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")
    if found.workload["kind"] == "LeaderWorkerSet":
        texts = [pod["spec"]["containers"][0]["resources"]["limits"].values() for pod in found.pods.values()]
        assert {type(quantity) for quantities in texts for quantity in quantities} == {str}


@pytest.mark.parametrize("runtime", ["mistralrs", "parakeet", "vllm"])
def test_custom_objects_of_the_laptops_tier_are_ones_that_the_embedded_plane_serves(runtime: str) -> None:
    gateway = full_site().gateway.model_copy(update={"tenant_controller": None})
    for value in changed("dedicated", runtime, site=full_site().model_copy(update={"gateway": gateway})).objects:
        if not is_builtin(value):
            assert faults_in_crd(embedded_crds(), value) == [], value["metadata"]["name"]


@every_case
def test_readers_of_both_versions_of_yaml_see_the_same(how: str, name: str, runtime: str) -> None:
    for path, text in case(how, name, runtime).tree.items():
        newer = YAML(typ="safe", pure=True).load(text.decode())
        assert yaml.safe_load(text) == newer == json.loads(json.dumps(newer)), path


@every_case
def test_policies_of_the_tier_let_in_what_is_delivered(how: str, name: str, runtime: str) -> None:
    assert case(how, name, runtime).denials() == []


@every_case
def test_linter_has_nothing_to_say(how: str, name: str, runtime: str, tmp_path: Path) -> None:
    for path, text in case(how, name, runtime).tree.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
    findings = lint_paths([tmp_path], catalog=catalog(), kubernetes=(1, 36))
    assert [(finding.reason, finding.object, finding.message) for finding in findings] == []


@every_case
def test_every_object_says_whose_it_is(how: str, name: str, runtime: str) -> None:
    found = case(how, name, runtime)
    for value in found.objects:
        labels = value["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "tenantry"
        assert labels["tenantry.io/tier"] == found.plan.tier
        if value["kind"] != "DeviceClass":
            assert labels["tenantry.io/tenant"] == found.plan.placement.parameters["tenant"]
        if value["kind"] in ("StatefulSet", "LeaderWorkerSet", "Service", "HTTPRoute", "Job", "ScaledObject"):
            assert labels["tenantry.io/endpoint"] == found.plan.serving_id


@every_case
def test_pods_keep_to_the_restricted_security_standard(how: str, name: str, runtime: str) -> None:
    for role, template in case(how, name, runtime).pods.items():
        pod = template["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {"hostNetwork", "hostPID", "hostIPC", "priorityClassName"}.isdisjoint(pod)
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert "@sha256:" in container["image"]
            if container["name"] != "agent":  # Its user is in no image's list: PyTorch asks for a name as it starts.
                assert {"HOME", "USER"} <= {entry["name"] for entry in container["env"]}
        kinds = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
        assert kinds <= {"emptyDir", "persistentVolumeClaim", "ephemeral", "projected"}, role


@every_case
def test_what_has_no_gpu_limit_is_given_none_by_its_image(how: str, name: str, runtime: str) -> None:
    for template in case(how, name, runtime).pods.values():
        for container in [*template["spec"]["containers"], *template["spec"].get("initContainers", [])]:
            if container["name"] in ("weights", "warm-up", "agent"):
                assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]


@every_case
def test_server_has_probes_limits_and_gpus(how: str, name: str, runtime: str) -> None:
    """Ledger: CAP-02, GPU-01, GPU-02."""
    found = case(how, name, runtime)
    server = found.server
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(server)
    resources, capacity = server["resources"], found.plan.capacity
    assert {"cpu", "memory"} <= set(resources["requests"])
    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    if found.tier.scheduling is Scheduling.DEVICE_PLUGIN:
        wanted = capacity.gpus_per_replica // capacity.nodes_per_replica
        assert resources["limits"]["nvidia.com/gpu"] == resources["requests"]["nvidia.com/gpu"]
        assert int(resources["limits"]["nvidia.com/gpu"]) == wanted
        assert "claims" not in resources
        return
    assert resources["claims"] == [{"name": "gpu"}]
    assert not any(key.startswith("nvidia.com/") for key in resources["limits"])
    [template] = found.of_kind("ResourceClaimTemplate")
    [request] = template["spec"]["spec"]["devices"]["requests"]
    assert template["apiVersion"] == "resource.k8s.io/v1"
    assert request["exactly"]["deviceClassName"] == found.of_kind("DeviceClass")[0]["metadata"]["name"]
    [claim] = found.pods["server"]["spec"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    [device_class] = found.of_kind("DeviceClass")
    partition = found.tier.accelerator.partition
    assert partition is not None
    assert partition.profile in device_class["spec"]["selectors"][0]["cel"]["expression"]


def test_amd_tier_asks_for_amds_resource() -> None:
    """Ledger: GPU-01."""
    site = shipped("dedicated", "vllm").site
    offer = site.providers[1].node_types[0].model_copy(update={"gpu_resource": "amd.com/gpu", "name": "gpu-mi300x"})
    provider = site.providers[1].model_copy(update={"node_types": (offer,)})
    amd = site.model_copy(update={"providers": (site.providers[0], provider, site.providers[2])})
    found = changed("dedicated", site=amd, accelerator={"resource": "amd.com/gpu"}, policies=())
    assert found.server["resources"]["limits"]["amd.com/gpu"] == 1
    assert found.pods["server"]["spec"]["tolerations"][0]["key"] == "amd.com/gpu"


def test_each_replica_has_pods_with_its_own_gpus() -> None:
    """Ledger: CAP-06, CAP-07."""
    model = "Qwen3-VL-235B-A22B-Thinking-FP8"
    two = {"model": "MiniMax-M2.5", "scaling": {"minReplicas": 3, "maxReplicas": 3}}
    on_one = changed("multinode", request={**two, "serving": {"gpus": 8}})
    assert on_one.workload["kind"] == "StatefulSet"
    assert on_one.server["resources"]["limits"]["nvidia.com/gpu"] == 8
    assert on_one.of_kind("ScaledObject")[0]["spec"]["minReplicaCount"] == 3
    assert on_one.plan.capacity.gpus_total == 24
    on_two = changed("multinode", request={"model": model, "serving": {"gpus": 16}})
    assert on_two.workload["spec"]["leaderWorkerTemplate"]["size"] == 2
    assert on_two.server["resources"]["limits"]["nvidia.com/gpu"] == "8"


def test_only_the_first_pod_of_a_replica_that_spans_nodes_serves() -> None:
    """Ledger: CAP-08."""
    found = shipped("multinode", "vllm")
    services = found.of_kind("Service")
    assert len(services) == found.plan.runtime.max_replicas
    for ordinal, service in enumerate(services):
        assert service["spec"]["selector"] == {
            "leaderworkerset.sigs.k8s.io/name": found.plan.workload,
            "leaderworkerset.sigs.k8s.io/group-index": str(ordinal),
            "leaderworkerset.sigs.k8s.io/worker-index": "0",
        }
    assert found.workload["spec"]["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"
    worker = found.pods["worker"]["spec"]["containers"][0]
    assert {"ports", "startupProbe", "livenessProbe", "args"}.isdisjoint(worker)
    [monitor] = found.of_kind("PodMonitor")
    assert monitor["spec"]["selector"]["matchLabels"]["tenantry.io/role"] == "server"


def test_replica_that_spans_nodes_has_ray_rdma_and_nccl_and_others_have_none() -> None:
    """Ledger: CAP-09."""
    found = shipped("multinode", "vllm")
    for role in ("server", "worker"):
        [container] = found.pods[role]["spec"]["containers"]
        names = {variable["name"] for variable in container["env"]}
        assert {"NCCL_SOCKET_IFNAME", "NCCL_NET", "VLLM_HOST_IP"} <= names
        assert container["resources"]["limits"]["rdma/ib"] == "1"
        assert "ray start" in container["command"][2]
    assert found.server["args"][-2:] == ["--distributed-executor-backend", "ray"]
    single = changed("multinode", request={"model": "MiniMax-M2.5", "serving": {"gpus": 8}})
    text = json.dumps(single.objects)
    assert not any(word in text for word in ("NCCL", "rdma/", "ray start", "leaderworkerset", "distributed-executor"))


@every_case
def test_shared_memory_is_part_of_what_the_pod_may_take(how: str, name: str, runtime: str) -> None:
    found = case(how, name, runtime)
    sizes = [
        volume["emptyDir"]["sizeLimit"]
        for volume in found.pods["server"]["spec"]["volumes"]
        if volume.get("emptyDir", {}).get("medium") == "Memory"
    ]
    wanted = catalog().runtimes[runtime].shared_memory_per_gpu is not None
    assert len(sizes) == int(wanted)
    for size in sizes:
        assert 1 <= int(size.removesuffix("Mi")) * 4 <= int(found.server["resources"]["limits"]["memory"][:-2]) * 1024


@every_case
def test_agent_alone_holds_a_token_for_the_leases_of_its_revision(how: str, name: str, runtime: str) -> None:
    """Ledger: RUN-04."""
    found = case(how, name, runtime)
    containers = {container["name"]: container for container in found.pods["server"]["spec"]["containers"]}
    if not found.site.agent_image:
        assert list(containers) == ["server"]
        assert found.of_kind("Role") == []
        return
    assert containers["agent"]["image"] == AGENT != containers["server"]["image"]
    holders = [
        container["name"]
        for template in found.pods.values()
        for container in [*template["spec"]["containers"], *template["spec"].get("initContainers", [])]
        if any(mount["name"] == "agent-token" for mount in container["volumeMounts"])
    ]
    assert holders == ["agent"]
    [token] = [volume for volume in found.pods["server"]["spec"]["volumes"] if volume["name"] == "agent-token"]
    assert token["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"] == 600
    [role] = found.of_kind("Role")
    [rule] = role["rules"]
    assert rule["verbs"] == ["get", "update", "patch"]
    assert rule["resourceNames"] == [f"{found.plan.workload}-{at}" for at in range(found.plan.runtime.max_replicas)]
    [binding] = found.of_kind("RoleBinding")
    assert binding["subjects"][0]["name"] == found.pods["server"]["spec"]["serviceAccountName"]


@every_case
def test_names_fit_where_they_go(how: str, name: str, runtime: str) -> None:
    found = case(how, name, runtime)
    for value in found.objects:
        text = value["metadata"]["name"]
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text)
        assert value["kind"] not in ("StatefulSet", "LeaderWorkerSet") or len(text) <= 52
    names = [(v["kind"], v["metadata"].get("namespace"), v["metadata"]["name"]) for v in found.objects]
    assert len(set(names)) == len(names)


@every_case
def test_nothing_is_left_for_the_platform_to_fill(how: str, name: str, runtime: str) -> None:
    assert "{{" not in json.dumps(case(how, name, runtime).objects)


@every_case
def test_order_in_argo_cd_follows_what_needs_what(how: str, name: str, runtime: str) -> None:
    """Ledger: ARG-05."""
    waves = {"Namespace": -2, "NetworkPolicy": -2, "ResourceQuota": -2, "ServiceAccount": -1, "Job": 0}
    waves |= dict.fromkeys(("StatefulSet", "LeaderWorkerSet", "Service", "Gateway", "HTTPRoute", "Ingress"), 1)
    # Not later than the workload: Argo CD would not come to them before the weights are loaded.
    waves |= dict.fromkeys(("ScaledObject", "HorizontalPodAutoscaler", "PodMonitor", "PodDisruptionBudget"), 1)
    waves |= {"Certificate": 1, "ClusterIssuer": 1, "PersistentVolumeClaim": 0}
    for value in case(how, name, runtime).objects:
        annotations = value["metadata"].get("annotations", {})
        if value["kind"] in waves:
            assert annotations["argocd.argoproj.io/sync-wave"] == str(waves[value["kind"]]), value["kind"]
        if not is_builtin(value):
            assert annotations["argocd.argoproj.io/sync-options"] == "SkipDryRunOnMissingResource=true"


@pytest.mark.parametrize("kind", ["Namespace", "ResourceQuota"])
@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_what_bounds_the_namespace_is_never_pruned(tier: str, runtime: str, kind: str) -> None:
    [found] = shipped(tier, runtime).of_kind(kind)
    assert found["metadata"]["annotations"]["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false"


def test_customers_endpoints_share_what_their_tenant_cluster_holds_once() -> None:
    found = optional("customer")
    shared = {path for path in found.tree if path.startswith("tenants/acme/")}
    own = {path for path in found.tree if path.startswith(f"{found.plan.delivery_path}/")}
    assert shared | own == set(found.tree)
    kinds = {path: value["kind"] for path, value in zip(found.tree, found.objects, strict=True)}
    assert ONCE - {"DeviceClass"} <= {kinds[path] for path in shared}
    assert ONCE.isdisjoint({kinds[path] for path in own})
    selector = found.pods["server"]["spec"]["nodeSelector"]
    assert selector == {"vcluster.com/node-type": found.plan.capacity.node_type}


def test_replica_in_a_virtual_machine_is_alone_on_it() -> None:
    """Ledger: RUN-08."""
    pod = optional("virtual-machines").pods["server"]["spec"]
    assert pod["nodeSelector"] == {"tenantry.io/isolation": "kubevirt"}
    [term] = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert "runtimeClassName" not in pod


@pytest.mark.parametrize("runtime", ["mistralrs", "vllm"])
def test_isolated_pods_run_in_the_sandbox(runtime: str) -> None:
    """Ledger: SEC-06, RUN-08."""
    for role, template in shipped("isolated", runtime).pods.items():
        assert template["spec"]["runtimeClassName"] == "vnode", role
    assert "runtimeClassName" not in shipped("dedicated", runtime).pods["server"]["spec"]


def test_adapters_and_extra_arguments_come_last() -> None:
    serving: dict[str, Any] = {
        "adapters": [{"name": "support", "source": "acme/support@v1"}, {"name": "own", "source": "/models/own"}],
        "extraArgs": ["--seed", "7"],
    }
    found = changed("isolated", request={"serving": serving}, storage="pvc")
    tail = ["--enable-lora", "--lora-modules", "support=/models/acme/support/v1", "own=/models/own", "--seed", "7"]
    assert found.server["args"][-6:] == tail
    [weights] = found.pods["server"]["spec"]["initContainers"]
    assert weights["args"][3:] == ["acme/support", "v1", "/models/acme/support/v1"]


@pytest.mark.parametrize("runtime", sorted(catalog().runtimes))
def test_flags_are_written_once_and_owned(runtime: str) -> None:
    found = catalog().runtimes[runtime]
    told = [*found.arguments, *(p.flag for p in found.parameters.values() if p.flag), *found.owned_flags]
    flags = [text for text in told if text.startswith("-")]
    assert sorted(set(flags)) == sorted(flags)

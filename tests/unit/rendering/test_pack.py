"""What a plan becomes: names and flows that other rooms rely on."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from provisioner.domain.errors import InvariantError, NotFoundError, RejectedError
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.arguments import server_arguments
from provisioner.rendering.digest import digest_tree
from provisioner.rendering.pack import compile_pack
from provisioner.rendering.values import startup_failures, storage_gib
from tests.contract.schemas import documents
from tests.unit.rendering.examples import ENDPOINT, catalog, model_for, pack, plan, site

Objects = dict[tuple[str, str], dict[str, Any]]


def objects(planned: EndpointPlan) -> Objects:
    """Kind and name -> object of everything that is delivered."""
    return {(found["kind"], found["metadata"]["name"]): found for _, found in documents(pack().runtime_tree(planned))}


def server(planned: EndpointPlan) -> dict[str, Any]:
    [container] = objects(planned)["StatefulSet", planned.workload]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def arguments_after(planned: EndpointPlan, flag: str) -> str:
    given: list[str] = server(planned)["args"]
    return given[given.index(flag) + 1]


def test_model_id_alone_is_enough_to_run_its_runtime() -> None:
    """Ledger: RUN-09."""
    planned = plan(model="Qwen2-VL-2B-Instruct")
    master = catalog().models["Qwen2-VL-2B-Instruct"].master
    assert planned.runtime.runtime == master.runtime == "vllm"
    assert server(planned)["image"].endswith(catalog().versions.images["vllm"])
    pin = "895c3a49bc3fa70a340399125c650a463535e71c"
    path = f"/models/Qwen/Qwen2-VL-2B-Instruct/{pin[:12]}"
    assert server(planned)["args"][0] == path
    assert pod(planned)["initContainers"][0]["args"] == ["Qwen/Qwen2-VL-2B-Instruct", pin, path]
    assert arguments_after(planned, "--served-model-name") == master.served_name
    assert arguments_after(planned, "--max-model-len") == str(master.serving["maxModelLen"])


def test_override_lands_in_the_arguments_and_the_master_stays() -> None:
    """Ledger: CAT-03."""
    master = catalog().models["gemma-3-270m"].master
    before = master.model_dump()
    planned = plan(serving={"maxModelLen": 4096})
    assert arguments_after(planned, "--ctx-size") == "8192"
    assert (
        arguments_after(plan(), "--ctx-size")
        == str(master.serving["maxModelLen"] * master.serving["maxNumSeqs"])
        == "4096"
    )
    assert master.model_dump() == before
    assert planned.workload != plan().workload


def test_same_plan_twice_gives_the_same_bytes() -> None:
    """Ledger: TEN-13."""
    again = compile_pack(catalog(), site())
    assert digest_tree(again.runtime_tree(plan())) == digest_tree(pack().runtime_tree(plan()))
    assert again.tier_objects("dedicated") == pack().tier_objects("dedicated")
    assert again.instance(plan()) == pack().instance(plan())


def test_every_ordinal_has_a_name_of_its_own_on_the_tenants_gateway() -> None:
    planned = plan(scaling={"minReplicas": 1, "maxReplicas": 3})
    found = objects(planned)
    for ordinal in range(3):
        host = planned.replica_host(ordinal)
        name = host.partition(".")[0]
        route, service = found["HTTPRoute", name], found["Service", name]
        assert route["spec"]["hostnames"] == [host]
        assert {rule["backendRefs"][0]["name"] for rule in route["spec"]["rules"]} == {name}
        paths = {match["path"]["value"] for rule in route["spec"]["rules"] for match in rule["matches"]}
        assert paths == {"/v1/", "/health", "/metrics"}
        assert service["spec"]["selector"] == {"statefulset.kubernetes.io/pod-name": f"{planned.workload}-{ordinal}"}
    assert ("HTTPRoute", f"r3-{planned.runtime.revision}-{ENDPOINT}") not in found
    [listener] = found["Gateway", "tenant"]["spec"]["listeners"]
    assert listener["hostname"] == "*.acme.tenants.example.com"
    assert found["Certificate", "tenant-tls"]["spec"]["dnsNames"] == [listener["hostname"]]


def test_replicas_belong_to_the_scaler() -> None:
    planned = plan(scaling={"minReplicas": 2, "maxReplicas": 4})
    found = objects(planned)
    assert "replicas" not in found["StatefulSet", planned.workload]["spec"]
    scaler = found["ScaledObject", planned.workload]["spec"]
    assert (scaler["minReplicaCount"], scaler["maxReplicaCount"]) == (2, 4)


def test_tenants_gateway_demands_a_certificate_of_our_own_authority() -> None:
    found = objects(plan())
    [reference] = found["Gateway", "tenant"]["spec"]["tls"]["frontend"]["default"]["validation"]["caCertificateRefs"]
    assert found["ConfigMap", reference["name"]]["data"]["ca.crt"] == site().gateway.client_ca


def test_model_that_left_the_catalog_is_still_rendered_from_the_plan() -> None:
    without = compile_pack(dataclasses.replace(catalog(), models={}), site())
    assert without.runtime_tree(plan()) == pack().runtime_tree(plan())


def test_runtime_adds_only_what_differs() -> None:
    plain, shared_memory = plan(), plan(model="Qwen2-VL-2B-Instruct")
    volumes = {volume["name"] for volume in pod(shared_memory)["volumes"]}
    assert volumes - {volume["name"] for volume in pod(plain)["volumes"]} == {"shared-memory"}


def pod(planned: EndpointPlan) -> dict[str, Any]:
    spec: dict[str, Any] = objects(planned)["StatefulSet", planned.workload]["spec"]["template"]["spec"]
    return spec


def test_start_is_given_more_time_for_more_weights() -> None:
    assert startup_failures(0) == 60
    assert startup_failures(240 * 10**9) == 300
    assert storage_gib(4 * 2**30) == 6


def test_flag_of_a_boolean_stands_alone_or_not_at_all() -> None:
    planned, runtime = plan(model="Qwen2-VL-2B-Instruct").runtime, catalog().runtimes["vllm"]

    def given(**serving: object) -> tuple[str, ...]:
        return server_arguments(dataclasses.replace(planned, serving=serving), runtime)

    assert given(trustRemoteCode=True, dtype="auto")[-3:] == ("--dtype", "auto", "--trust-remote-code")
    assert "--trust-remote-code" not in given(trustRemoteCode=False)
    with pytest.raises(InvariantError, match="unknown serving parameter: `nonsense`"):
        given(nonsense=1)


def test_placeholder_that_nobody_knows_is_refused_with_the_nearest_name() -> None:
    planned, runtime = plan().runtime, catalog().runtimes["llama-cpp"]
    wrong = runtime.model_copy(update={"arguments": ("--model", "{sorce}")})
    with pytest.raises(RejectedError) as caught:
        server_arguments(planned, wrong)
    assert "did you mean `source`?" in str(caught.value.hint)


def test_unknown_names_are_told_with_what_is_known() -> None:
    with pytest.raises(NotFoundError) as caught:
        pack().tier_objects("dedicatd")
    assert "did you mean `dedicated`?" in str(caught.value.hint)


def test_pool_has_no_tenant_cluster_of_its_own_per_endpoint() -> None:
    planned = plan("shared")
    kinds = {kind for kind, _ in objects(planned)}
    assert {"StatefulSet", "Service", "HTTPRoute"} <= kinds
    assert not {"Gateway", "Certificate"} & kinds


def test_isolation_by_vnode_is_a_runtime_class_of_the_pod() -> None:
    tier = catalog().tiers["dedicated"].model_copy(update={"isolation": "vnode"})
    other = compile_pack(dataclasses.replace(catalog(), tiers={"dedicated": tier}), site())
    [pod_spec] = [
        value["spec"]["template"]["spec"]
        for _, value in documents(other.runtime_tree(plan()))
        if value["kind"] == "StatefulSet"
    ]
    assert pod_spec["runtimeClassName"] == "vnode"
    assert "runtimeClassName" not in pod(plan())


@pytest.mark.parametrize("runtime", sorted(catalog().runtimes))
def test_digest_names_every_byte(runtime: str) -> None:
    tree = pack().runtime_tree(plan(model=model_for(runtime)))
    path = min(tree)
    assert digest_tree(dict(reversed(tree.items()))) == digest_tree(tree)
    assert digest_tree({**tree, path: tree[path] + b"\n"}) != digest_tree(tree)
    assert digest_tree({name: text for name, text in tree.items() if name != path}) != digest_tree(tree)


def test_changing_the_bounds_changes_the_scaler_and_no_pod() -> None:
    """Ledger: AUT-04, AUT-05."""
    few, many = (plan(scaling={"minReplicas": 1, "maxReplicas": most}) for most in (2, 3))
    before, after = (pack().runtime_tree(planned) for planned in (few, many))
    assert few.workload == many.workload
    changed = {name for name in before if before[name] != after[name]}
    assert {name.split(".")[-3] for name in changed} == {"scaledobject", "resourcequota"}
    assert {name.split(".")[-3] for name in after.keys() - before.keys()} <= {"service", "httproute", "networkpolicy"}

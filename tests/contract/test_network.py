"""Who may talk to whom, as the rendered network policies have it: flows that must pass, and flows that must not."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.contract.network import Network, Peer, around_workloads, outside
from tests.contract.runtimes import OPTIONS, PAIRS, Case, changed, full_site, optional, shipped
from tests.unit.rendering.examples import catalog

HUB, BUCKET, MIRROR = outside("151.101.1.1"), outside("10.20.0.5"), outside("203.0.113.5")
API_SERVER, STRANGER, OUR_GATEWAY = outside("192.0.2.3"), outside("192.0.2.200"), outside("198.51.100.7")
PROXY = Peer(
    "tenantry-stack", {"app.kubernetes.io/component": "proxy", "app.kubernetes.io/managed-by": "envoy-gateway"}
)
PROMETHEUS = Peer("tenantry-stack", {"app.kubernetes.io/name": "prometheus"})
DNS = Peer("kube-system", {"k8s-app": "vcluster-kube-dns"})
"""What a tenant cluster brings: behind port 53 of its Service it listens on 1053."""
METADATA = outside("169.254.169.254")
TENANT_NAMESPACES = ("inference", "kube-system", "tenantry-stack")
PRIVATE = [pair for pair in PAIRS if pair[0] != "shared"]
ANY_PORT = (22, 80, 443, 8000, 8080, 9090, 10250)


def pod(case: Case, role: str = "server", *, group: int = 0, worker: int = 0, **labels: str) -> Peer:
    """A pod of the plan's endpoint, as the cluster labels it."""
    given = dict(case.pods[role]["metadata"]["labels"])
    if case.workload["kind"] == "LeaderWorkerSet" and role != "warm-up":
        given |= {
            "leaderworkerset.sigs.k8s.io/name": case.plan.workload,
            "leaderworkerset.sigs.k8s.io/group-index": str(group),
            "leaderworkerset.sigs.k8s.io/worker-index": str(worker),
        }
    return Peer("inference", {**given, **labels})


def network(case: Case) -> Network:
    return Network.of(case.objects)


def port(case: Case) -> int:
    return catalog().runtimes[case.plan.runtime.runtime].port


@pytest.mark.parametrize(("tier", "runtime"), PRIVATE)
def test_requests_come_through_the_tenants_gateway_only(tier: str, runtime: str) -> None:
    """Ledger: TEN-08."""
    case = shipped(tier, runtime)
    net, server = network(case), pod(case)
    assert net.lets(PROXY, server, port(case))
    for stranger in (
        Peer("tenantry-stack", {"app.kubernetes.io/name": "external-secrets"}),
        Peer("default", {"app": "anything"}),
        Peer("inference", {"app": "anything"}),
        STRANGER,
        OUR_GATEWAY,
    ):
        assert not net.lets(stranger, server, port(case)), stranger
    assert not any(net.lets(PROXY, server, other) for other in ANY_PORT if other != port(case))


def values_of(case: Case, tier: str) -> dict[str, Any]:
    """What `vcluster.yaml` of a tier says about network policies."""
    [template] = [found for found in case.pack.tier_objects(tier) if found["kind"] == "VirtualClusterTemplate"]
    text = template["spec"]["versions"][0]["template"]["helmRelease"]["values"]
    values = yaml.safe_load(re.sub(r"\{\{.*?\}\}", "1", text))
    return dict(values["policies"]["networkPolicy"])


@pytest.mark.parametrize("name", ["ingress", "shared-gateway-of-its-own"])
def test_on_shared_nodes_no_policy_of_the_tenant_cluster_lets_anybody_in(name: str) -> None:
    case = optional(name)
    for caller in (PROXY, STRANGER, OUR_GATEWAY, Peer("tenantry"), Peer("other-tenants-namespace"), pod(case)):
        assert not any(network(case).lets(caller, pod(case), at) for at in (*ANY_PORT, port(case)))


@pytest.mark.parametrize(
    ("name", "entrance"),
    [
        ("ingress", "haproxy-controller"),
        ("shared-gateway-of-its-own", "envoy-gateway-system"),
        ("shared", "envoy-gateway-system"),
    ],
)
def test_on_shared_nodes_proxies_come_in_and_only_what_is_named_goes_out(name: str, entrance: str) -> None:
    """Ledger: TEN-08. The chart's policy beside ours: what policies allow adds up."""
    case = shipped("shared", "vllm") if name == "shared" else optional(name)
    net = Network.of((*case.objects, *around_workloads(values_of(case, "shared")["workload"], TENANT_NAMESPACES)))
    server, at = pod(case), port(case)
    assert net.lets(Peer(entrance, {"app": "proxy"}), server, at)
    for stranger in (Peer("tenantry"), Peer("other-tenants-namespace"), STRANGER):
        assert not net.lets(stranger, server, at)
    assert net.lets(PROMETHEUS, server, at)
    assert net.lets(server, HUB, 443)
    for target in (HUB, METADATA, BUCKET):
        assert not any(net.lets(server, target, other) for other in ANY_PORT if (target, other) != (HUB, 443))
    secrets = Peer("tenantry-stack", {"app.kubernetes.io/name": "external-secrets"})
    scaler = Peer("tenantry-stack", {"app.kubernetes.io/name": "keda-operator"})
    for reader in (secrets, scaler):
        assert all(net.lets(reader, BUCKET, other) for other in (443, 8200))
        assert not net.lets(reader, METADATA, 80)
    assert not any(net.lets(PROMETHEUS, target, other) for target in (HUB, METADATA) for other in ANY_PORT)


def test_scalers_on_shared_nodes_reach_the_gateways_numbers() -> None:
    site = full_site().model_copy(update={"metrics_url": "http://metrics.example.com:9090"})
    case = changed("shared", site=site)
    net = Network.of((*case.objects, *around_workloads(values_of(case, "shared")["workload"], TENANT_NAMESPACES)))
    assert net.lets(Peer("tenantry-stack", {"app.kubernetes.io/name": "keda-operator"}), BUCKET, 9090)


@pytest.mark.parametrize("tier", ["dedicated", "shared"])
def test_control_planes_ask_name_servers_on_nodes(tier: str) -> None:
    """The chart's own policies know the pods of kube-dns only."""
    site = full_site().model_copy(update={"name_server_ranges": ("169.254.20.10/32", "10.96.0.10/32")})
    found = values_of(changed(tier, site=site), tier)
    rules = [*found["controlPlane"]["egress"], *found.get("workload", {}).get("egress", [])]
    assert len(rules) == (2 if tier == "shared" else 1)
    for rule in rules:
        assert [peer["ipBlock"]["cidr"] for peer in rule["to"]] == list(site.name_server_ranges)
        assert {(port["port"], port["protocol"]) for port in rule["ports"]} == {(53, "UDP"), (53, "TCP")}


def test_control_planes_reach_their_external_database() -> None:
    """The chart's own policy lets them out to ports 443, 6443 and 8443."""
    plane = {"replicas": 2, "backing_store": "external-database"}
    site = full_site().model_copy(update={"database_connector": "tenants"})
    case = changed("dedicated", site=site, control_plane={"dev": plane, "prod": plane})
    [rule] = values_of(case, "dedicated")["controlPlane"]["egress"]
    assert {(found["port"], found["protocol"]) for found in rule["ports"]} == {(3306, "TCP"), (5432, "TCP")}
    assert "to" not in rule
    assert values_of(changed("dedicated"), "dedicated") == {"enabled": True}


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_pods_of_two_endpoints_or_replicas_do_not_reach_each_other(tier: str, runtime: str) -> None:
    """Ledger: TEN-08."""
    case = shipped(tier, runtime)
    net, own = network(case), pod(case)
    other = Peer(
        "inference", {**own.labels, "tenantry.io/endpoint": "ep-other", "leaderworkerset.sigs.k8s.io/name": "x"}
    )
    replica = pod(case, group=1) if case.workload["kind"] == "LeaderWorkerSet" else own
    for at in ANY_PORT:
        assert not net.lets(own, other, at)
        assert not net.lets(other, own, at)
        assert not net.lets(own, replica, at)


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_everybody_resolves_names_over_both_protocols(tier: str, runtime: str) -> None:
    case = shipped(tier, runtime)
    for role in case.pods:
        for protocol in ("UDP", "TCP"):
            assert all(network(case).lets(pod(case, role), DNS, port, protocol) for port in (53, 1053))
            assert network(case).lets(pod(case, role), Peer("kube-system", {"k8s-app": "node-local-dns"}), 53, protocol)
        assert not network(case).lets(pod(case, role), Peer("kube-system", {"k8s-app": "metrics-server"}), 53)
        assert not network(case).lets(pod(case, role), outside("8.8.8.8"), 53, "UDP")


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_prometheus_scrapes_the_servers(tier: str, runtime: str) -> None:
    case = shipped(tier, runtime)
    assert network(case).lets(PROMETHEUS, pod(case), port(case))
    assert not network(case).lets(pod(case), PROMETHEUS, 9090)


FETCHES = {
    "pvc": {"server"},
    "nvme": {"server"},
    "shared-filesystem": {"warm-up"},
    "object-store": set(),
    "image": set(),
}
"""Which pods may fetch weights, by where weights lie."""


@pytest.mark.parametrize("runtime", ["mistralrs", "vllm"])
@pytest.mark.parametrize("storage", sorted(FETCHES))
def test_only_what_fetches_weights_gets_out(storage: str, runtime: str) -> None:
    case = optional(storage, runtime)
    for role in case.pods:
        assert network(case).lets(pod(case, role), HUB, 443) is (role in FETCHES[storage])
        assert not network(case).lets(pod(case, role), HUB, 80)
        for inside in (BUCKET, outside("169.254.169.254"), outside("172.20.0.1"), outside("192.168.1.1")):
            assert not network(case).lets(pod(case, role), inside, 443)


def test_tier_with_a_mirror_fetches_from_nowhere_else() -> None:
    case = optional("mirror")
    assert network(case).lets(pod(case), MIRROR, 443)
    assert not network(case).lets(pod(case), HUB, 443)
    nowhere = changed("dedicated", site=full_site().model_copy(update={"mirror_ranges": ()}), egress="mirror")
    assert not network(nowhere).lets(pod(nowhere), MIRROR, 443)
    assert not network(nowhere).lets(pod(nowhere), HUB, 443)


@pytest.mark.parametrize("runtime", ["mistralrs", "parakeet", "vllm"])
def test_custom_code_has_no_way_out(runtime: str) -> None:
    case = shipped("isolated", runtime)
    for role in case.pods:
        for target in (HUB, MIRROR, API_SERVER, STRANGER, BUCKET, PROXY, PROMETHEUS):
            assert not any(network(case).lets(pod(case, role), target, at) for at in ANY_PORT)


@pytest.mark.parametrize("tier", ["dedicated", "isolated", "multinode", "partitioned"])
def test_agent_reaches_its_api_server_and_nothing_else(tier: str) -> None:
    case = changed(tier)
    assert network(case).lets(pod(case), API_SERVER, 443)
    assert not network(case).lets(pod(case), STRANGER, 443) or case.plan.runtime.storage == "pvc"
    if "worker" in case.pods:
        assert not network(case).lets(pod(case, "worker", worker=1), API_SERVER, 443)
    unknown = changed(tier, site=full_site().model_copy(update={"api_server_ranges": ()}), storage="image")
    assert not network(unknown).lets(pod(unknown), API_SERVER, 443)


def test_pods_of_one_replica_talk_on_any_port_and_to_no_other_replica() -> None:
    case = changed("multinode", request={"scaling": {"minReplicas": 2, "maxReplicas": 2}})
    net = network(case)
    leader, worker = pod(case), pod(case, "worker", worker=1)
    elsewhere = pod(case, "worker", group=1, worker=1)
    for at in (*ANY_PORT, 6379, 49152):
        assert net.lets(leader, worker, at)
        assert net.lets(worker, leader, at)
        assert not net.lets(leader, elsewhere, at)
        assert not net.lets(elsewhere, worker, at)
    assert not net.lets(PROXY, worker, port(case))


@pytest.mark.parametrize("name", [name for name, (tier, _) in OPTIONS.items() if tier != "shared"])
def test_empty_list_of_sources_lets_nobody_reach_the_gateway(name: str) -> None:
    case = optional(name)
    proxy = Peer("tenantry-stack", dict(PROXY.labels))
    assert network(case).lets(OUR_GATEWAY, proxy, 10443)
    assert not network(case).lets(STRANGER, proxy, 10443)
    assert not network(case).lets(pod(case), proxy, 10443)
    tier, changes = OPTIONS[name]
    gateway = full_site().gateway.model_copy(update={"source_ranges": ()})
    closed = changed(tier, site=full_site().model_copy(update={"gateway": gateway}), **changes)
    assert not network(closed).lets(OUR_GATEWAY, proxy, 10443)


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_namespace_is_closed_before_anything_is_allowed(tier: str, runtime: str) -> None:
    """Ledger: TEN-08."""
    case = shipped(tier, runtime)
    stray = Peer("inference", {"app": "left-behind"})
    net = network(case)
    for at in ANY_PORT:
        assert not net.lets(stray, HUB, at)
        assert not net.lets(PROXY, stray, at)
    [closed] = [found for found in case.of_kind("NetworkPolicy") if found["metadata"]["name"] == "default-deny"]
    assert closed["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}

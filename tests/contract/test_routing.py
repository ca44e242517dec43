"""How a replica is reached: four ways, one name per replica, explicit timeouts, nothing across namespaces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.runtimes import OPTIONS, PAIRS, Case, changed, full_site, optional, shipped

CASES = [pytest.param(lambda pair=pair: shipped(*pair), id="-".join(pair)) for pair in PAIRS] + [
    pytest.param(lambda name=name: optional(name), id=name) for name in OPTIONS
]
ROUTES = ("HTTPRoute", "Ingress")


def routes(case: Case) -> list[dict[str, Any]]:
    return [found for kind in ROUTES for found in case.of_kind(kind)]


def host_of(route: dict[str, Any]) -> str:
    spec = route["spec"]
    return str(spec["hostnames"][0] if "hostnames" in spec else spec["rules"][0]["host"])


@pytest.mark.parametrize("make", CASES)
def test_workload_services_and_routes_come_together_and_of_one_kind(make: Any) -> None:
    """Ledger: ARG-06, ROU-01."""
    case = make()
    kinds = {kind for kind in ROUTES if case.of_kind(kind)}
    assert kinds == ({"Ingress"} if case.tier.routing == "ingress" else {"HTTPRoute"})
    services = {found["metadata"]["name"] for found in case.of_kind("Service")}
    found = routes(case)
    assert len(found) == case.plan.runtime.max_replicas
    for ordinal, route in enumerate(sorted(found, key=host_of)):
        assert host_of(route) == case.plan.replica_host(ordinal)
        assert host_of(route).partition(".")[2] == case.plan.address.tenant_domain
        assert set(backends(route)) <= services


@pytest.mark.parametrize("make", CASES)
def test_only_three_paths_lead_to_a_replica_and_each_has_a_deadline(make: Any) -> None:
    case = make()
    for route in case.of_kind("HTTPRoute"):
        paths = {match["path"]["value"] for rule in route["spec"]["rules"] for match in rule["matches"]}
        assert paths == {"/v1/", "/health", "/metrics"}
        assert all("request" in rule["timeouts"] for rule in route["spec"]["rules"])
    for ingress in case.of_kind("Ingress"):
        paths = {entry["path"] for rule in ingress["spec"]["rules"] for entry in rule["http"]["paths"]}
        assert paths == {"/v1/", "/health", "/metrics"}
        assert ingress["metadata"]["annotations"]["haproxy-ingress.github.io/timeout-server"] == "1h"


@pytest.mark.parametrize(
    ("tier", "options", "parent"),
    [
        ("dedicated", {}, {"name": "tenant"}),
        ("shared", {}, {"name": "public", "namespace": "gateways"}),
    ],
)
def test_route_attaches_to_the_tenants_gateway_or_to_one_that_is_lent(
    tier: str, options: dict[str, Any], parent: dict[str, str]
) -> None:
    """Ledger: ROU-02."""
    case = changed(tier, **options)
    whole = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "sectionName": "replicas", **parent}
    assert [route["spec"]["parentRefs"] for route in case.of_kind("HTTPRoute")] == [[whole]] * 2
    assert bool(case.of_kind("Gateway")) is (tier == "dedicated")


def test_listener_set_gives_each_replica_a_listener_of_its_own() -> None:
    case = optional("listener-set")
    [gateway] = case.of_kind("Gateway")
    assert gateway["spec"]["allowedListeners"] == {"namespaces": {"from": "Same"}}
    assert [listener["name"] for listener in gateway["spec"]["listeners"]] == ["base"]
    sets = {found["metadata"]["name"]: found for found in case.of_kind("ListenerSet")}
    for route in case.of_kind("HTTPRoute"):
        [parent] = route["spec"]["parentRefs"]
        assert parent["kind"] == "ListenerSet"
        [listener] = sets[parent["name"]]["spec"]["listeners"]
        assert listener["hostname"] == host_of(route)
        assert sets[parent["name"]]["spec"]["parentRef"] == {"name": gateway["metadata"]["name"]}
    [certificate] = case.of_kind("Certificate")
    covered = certificate["spec"]["dnsNames"]
    assert set(covered) == {f"*.{case.plan.address.tenant_domain}", case.plan.address.tenant_domain}


@pytest.mark.parametrize("name", ["pvc", "listener-set", "customer", "many-nodes-hpa"])
def test_gateway_on_own_nodes_asks_for_our_certificate(name: str) -> None:
    case = optional(name)
    [gateway] = case.of_kind("Gateway")
    [reference] = gateway["spec"]["tls"]["frontend"]["default"]["validation"]["caCertificateRefs"]
    [authority] = case.of_kind("ConfigMap")
    assert authority["metadata"]["name"] == reference["name"]
    assert authority["data"]["ca.crt"] == full_site().gateway.client_ca
    [issuer] = case.of_kind("ClusterIssuer")
    [certificate] = case.of_kind("Certificate")
    assert certificate["spec"]["issuerRef"]["name"] == issuer["metadata"]["name"]
    [gateway_class] = case.of_kind("GatewayClass")
    assert gateway["spec"]["gatewayClassName"] == gateway_class["metadata"]["name"]
    # Envoy Gateway reads it of a policy of its own, and of nothing else.
    assert gateway_class["spec"]["controllerName"] == "gateway.envoyproxy.io/gatewayclass-controller"
    [policy] = case.of_kind("ClientTrafficPolicy")
    target = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": gateway["metadata"]["name"]}
    assert policy["spec"] == {
        "targetRefs": [target],
        "tls": {"clientValidation": {"caCertificateRefs": [reference]}},
    }
    assert "optional" not in json.dumps(policy["spec"])


def test_gateway_of_another_controller_is_not_given_a_policy_that_it_does_not_know() -> None:
    site = full_site()
    other = site.gateway.model_copy(update={"tenant_controller": "example.com/gateways"})
    case = changed("dedicated", site=site.model_copy(update={"gateway": other}))
    assert case.of_kind("Gateway")
    assert case.of_kind("ClientTrafficPolicy") == []


@pytest.mark.parametrize("make", CASES)
def test_nothing_refers_to_another_namespace_that_would_need_a_grant(make: Any) -> None:
    case = make()
    for found in case.objects:
        if found["kind"] in (*ROUTES, "Gateway", "ListenerSet"):
            foreign = {value for value in namespaces(found["spec"]) if value != "inference"}
            assert foreign <= {"gateways"}, found["metadata"]["name"]
    assert case.of_kind("ReferenceGrant") == []


def backends(route: dict[str, Any]) -> Iterator[str]:
    for rule in route["spec"]["rules"]:
        if "backendRefs" in rule:
            yield from (backend["name"] for backend in rule["backendRefs"])
        else:
            yield from (entry["backend"]["service"]["name"] for entry in rule["http"]["paths"])


def namespaces(value: Any) -> Iterator[str]:
    """Every namespace that is named in references, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from namespaces(item)
    elif isinstance(value, dict):
        if isinstance(value.get("namespace"), str):
            yield value["namespace"]
        for item in value.values():
            yield from namespaces(item)

"""An installation's objects: secrets where they belong, and what a site must say first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from provisioner.catalog.checks import check_regions
from provisioner.domain.errors import RejectedError
from provisioner.rendering.pack import compile_pack
from provisioner.rendering.platform import GROUPS, HOLE, SECRETS
from tests.unit.rendering.examples import catalog, example_site, site
from tests.unit.rendering.installations import CASES, objects_of, site_of, site_with

GIVEN = {name: f'"{name}"\n: secret' for name in SECRETS}
"""Secrets as nasty as texts come."""
RUNTIME = "tenantry-runtime"


def name_of(made: dict[str, Any]) -> str:
    return str(made["metadata"]["name"])


def test_groups_come_in_the_order_in_which_they_have_to_exist() -> None:
    groups = compile_pack(catalog(), example_site()).platform_groups()
    assert tuple(groups) == GROUPS
    assert groups["namespaces"][0]["kind"] == "Namespace"


def test_every_secret_is_a_hole_until_it_is_given_and_stands_whole_in_its_place_then() -> None:
    pack = compile_pack(catalog(), site_of("several-regions"))
    holes = json.dumps(pack.platform_groups())
    whole = json.dumps(pack.platform_groups(secrets=GIVEN))
    assert HOLE in holes
    assert HOLE not in whole
    for value in GIVEN.values():
        inside_yaml, alone = json.dumps(json.dumps(value))[1:-1], json.dumps(value)
        assert inside_yaml in whole or alone in whole


def test_the_same_secret_is_given_to_both_sides_each_time() -> None:
    """Ledger: ADM-14."""
    pack = compile_pack(catalog(), example_site())
    first, second = (pack.platform_groups(secrets=GIVEN) for _ in range(2))
    assert first == second
    [key] = [
        found
        for found in first["platform"]
        if (found["kind"], found.get("spec", {}).get("user")) == ("OwnedAccessKey", RUNTIME)
    ]
    [held] = [found for found in first["connection"] if (found["kind"], name_of(found)) == ("Secret", RUNTIME)]
    assert json.dumps(key["spec"]["key"]) in held["stringData"]["kubeconfig"]


def test_a_site_that_says_nothing_of_an_installation_has_none() -> None:
    pack = compile_pack(catalog(), site())
    assert pack.platform_objects() == ()
    with pytest.raises(RejectedError, match="says nothing of one: `installation`"):
        pack.platform_groups()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"installation": {"issuer": None}}, "nobody issues a certificate: `installation.issuer`"),
        ({"installation": {"certificateNames": []}}, "more than one label of `public.hostname`"),
    ],
)
def test_customers_names_need_a_certificate(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RejectedError, match=message):
        compile_pack(catalog(), site_with(changes)).platform_groups()


@pytest.mark.parametrize(
    ("hostname", "names"),
    [("{endpoint}.example.com", ["*.example.com"]), ("inference.example.com", ["inference.example.com"])],
)
def test_one_wildcard_covers_one_label(hostname: str, names: list[str]) -> None:
    changed = site_with({"public": {"hostname": hostname}, "installation": {"certificateNames": []}})
    made = compile_pack(catalog(), changed).platform_groups()["certificates"]
    [public] = [found for found in made if found["metadata"]["name"] == "tenantry-public"]
    assert public["spec"]["dnsNames"] == names


def test_production_wants_our_image_by_digest() -> None:
    tagged = {"installation": {"image": "registry.example.com/platform/tenantry:v1"}}
    assert [found.field for found in check_regions(site_with(tagged))] == ["installation.image"]
    assert not list(check_regions(site_with({**tagged, "profile": "dev"})))
    assert not list(check_regions(example_site()))


def test_a_site_with_several_control_planes_says_which_runs_the_platform() -> None:
    named = site_of("several-regions")
    assert named.platform_cluster == "us-east-1"
    assert example_site().platform_cluster == "eu-central-1"
    for wrong in (None, "nowhere"):
        changes: dict[str, Any] = {"regions": {"us-east-1": {"controlPlane": "us-east-1", "providers": ["aws"]}}}
        changes["installation"] = {"platform": {"controlPlane": wrong}}
        assert [found.field for found in check_regions(site_with(changes))] == ["installation.platform.controlPlane"]


@pytest.mark.parametrize("case", CASES)
def test_every_way_out_names_its_ports(case: str) -> None:
    policies = [made for made in objects_of(case) if made["kind"] == "NetworkPolicy"]
    rules = [rule for made in policies for rule in made["spec"].get("egress", ())]
    assert rules
    assert [rule for rule in rules if not rule.get("ports")] == []


@pytest.mark.parametrize("case", CASES)
def test_nobody_is_given_a_verb_that_we_never_call(case: str) -> None:
    """Ledger: SEC-01. Our client reads, lists, applies (which creates), patches and deletes."""
    rules = [rule for made in objects_of(case) if made["kind"] in ("Role", "ClusterRole") for rule in made["rules"]]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"create", "delete", "get", "list", "patch"}


def test_prometheus_finds_a_port_and_is_let_in_where_it_scrapes() -> None:
    made = [found for found in objects_of("reference") if found["metadata"].get("namespace") == "tenantry"]
    monitors = [found for found in made if found["kind"] == "ServiceMonitor"]
    assert {name_of(monitor) for monitor in monitors} == {"tenantry-api", "tenantry-gateway"}
    for monitor in monitors:
        [endpoint] = monitor["spec"]["endpoints"]
        assert endpoint["path"] == "/metrics"
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        [service] = (m for m in made if m["kind"] == "Service" and wanted <= m["metadata"]["labels"].items())
        [port] = (port for port in service["spec"]["ports"] if port["name"] == endpoint["port"])
        name = service["spec"]["selector"]["app.kubernetes.io/name"]
        [pod] = (m["spec"]["template"]["spec"] for m in made if (m["kind"], name_of(m)) == ("Deployment", name))
        [number] = (p["containerPort"] for p in pod["containers"][0]["ports"] if p["name"] == port["targetPort"])
        [policy] = (m["spec"] for m in made if (m["kind"], name_of(m)) == ("NetworkPolicy", name))
        assert any(is_let_in("monitoring", rule) and rule["ports"][0]["port"] == number for rule in policy["ingress"])


def test_every_process_is_probed_where_it_answers() -> None:
    pods = [made["spec"]["template"]["spec"] for made in objects_of("reference") if made["kind"] == "Deployment"]
    for pod in pods:
        [container] = pod["containers"]
        named = {port["name"] for port in container["ports"]}
        paths = {
            name: container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")
        }
        assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
        assert {container[name]["httpGet"]["port"] for name in paths} <= named


def is_let_in(namespace: str, rule: dict[str, Any]) -> bool:
    """Whether an ingress rule names a namespace."""
    labels = [peer.get("namespaceSelector", {}).get("matchLabels", {}) for peer in rule["from"]]
    return {"kubernetes.io/metadata.name": namespace} in labels

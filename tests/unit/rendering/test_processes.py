"""Where our processes may go: ports follow from addresses, and who is not named is not reached."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.domain.role import Role
from provisioner.rendering.processes import Flow, delivery_over_ssh, gateway_flows, server_processes
from tests.unit.rendering.installations import site_with

NOBODY = {
    "database": {"ranges": []},
    "deliveryRanges": [],
    "platform": {"ranges": []},
    "tenantRanges": [],
}


@pytest.mark.parametrize(
    ("url", "port", "over_ssh"),
    [
        ("https://git.example.com/delivery.git", 443, False),
        ("https://git.example.com:8443/delivery.git", 8443, False),
        ("ssh://git@git.example.com/delivery.git", 22, True),
        ("ssh://git@git.example.com:2222/delivery.git", 2222, True),
        ("git@git.example.com:tenantry/delivery.git", 22, True),
    ],
)
def test_delivery_repository_is_reached_at_the_port_of_its_url(url: str, port: int, over_ssh: bool) -> None:
    site = site_with({"delivery": {"url": url}})
    assert site.installation is not None
    assert delivery_over_ssh(site) is over_ssh
    [worker] = (process for process in server_processes(site, site.installation) if process.role is Role.WORKER)
    assert Flow((port,), ranges=site.installation.delivery_ranges) in worker.flows


def test_there_is_a_process_for_every_role_and_nobody_unnamed_is_reached() -> None:
    site = site_with({"installation": NOBODY})
    assert site.installation is not None
    processes = server_processes(site, site.installation)
    assert [process.role for process in processes] == list(Role)
    assert {flow.namespaces for process in processes for flow in process.flows} == {("envoy-gateway-system",)}


def test_proxies_of_ingresses_are_reached_where_they_run() -> None:
    ingress = {"className": "haproxy", "annotations": {"haproxy.org/timeout-server": "1h"}, "namespace": "haproxy"}
    site = site_with({"gateway": {"ingress": ingress}, "installation": NOBODY})
    assert site.installation is not None
    [flow] = (found for found in gateway_flows(site, site.installation) if found.namespaces == ("haproxy",))
    assert flow.ports == (443, 10443)


@pytest.mark.parametrize(
    ("platform", "ports"),
    [
        ({"url": "https://platform.example.com"}, (443, 10443)),
        ({"url": "https://platform.example.com:8443"}, (8443,)),
        ({"podPorts": [9443]}, (9443,)),
    ],
    ids=["privileged", "own", "said"],
)
def test_pods_behind_an_address_are_reached_at_their_own_ports(
    platform: dict[str, Any], ports: tuple[int, ...]
) -> None:
    site = site_with({"installation": {"platform": {**platform, "namespaces": ["vcluster-platform"]}}})
    assert site.installation is not None
    for process in server_processes(site, site.installation):
        reaches = Flow(ports, namespaces=("vcluster-platform",)) in process.flows
        assert reaches is (process.role is not Role.API)


def test_only_workers_come_in_as_customers_do() -> None:
    """Gateways reach replicas and nothing else of ours: a customer's request must not come back to the entrance."""
    site = site_with({"public": {"scheme": "http", "port": None}})
    assert site.installation is not None
    entrance = Flow((80, 10080), namespaces=(site.installation.entrance_namespace,))
    going = {process.role for process in server_processes(site, site.installation) if entrance in process.flows}
    assert going == {Role.WORKER}
    assert entrance not in gateway_flows(site, site.installation)

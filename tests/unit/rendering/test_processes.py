"""Where our processes may go: ports follow from addresses, and who is not named is not reached."""

from __future__ import annotations

import pytest

from provisioner.domain.role import Role
from provisioner.rendering.processes import Flow, delivery_over_ssh, server_processes
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

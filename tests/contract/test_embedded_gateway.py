"""Gateways and routes of a tenant cluster: conditions with their reasons, and the path to a replica's process."""

from __future__ import annotations

import asyncio
import base64
import copy
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.core.kinds import GATEWAY, GATEWAY_CLASS, HTTP_ROUTE, SERVICE, STATEFUL_SET
from provisioner.embedded.controllers.gateway_api.status import CONTROLLER_NAME
from provisioner.embedded.controllers.kinds import NAMESPACE
from provisioner.embedded.controllers.loop import is_true
from provisioner.embedded.faults import Failure, Fault
from tests.contract.embedded_cluster import INFERENCE, Tenant, eventually, open_tenant, pod_template, stateful_set
from tests.mutual_tls import Authority, Caller
from tests.ports import free_port

HOST = "r0-abc123-ep-one.acme.example.com"
SERVER_CA, CLIENT_CA = Authority("servers"), Authority("clients")


@pytest.fixture
async def tenant(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with open_tenant(tmp_path / "state") as found:
        yield found


async def test_replica_is_reached_by_its_own_name_with_our_certificate_only(tenant: Tenant, tmp_path: Path) -> None:
    """The path of a request: name, mutual TLS, route, Service, ready pod, process; streamed."""
    port = free_port()
    await tenant.create(*gateway(port), service(), route(), stateful_set("one", pod_template("--model", "stub-7b")))
    await eventually(lambda: tenant.pod("one-0"), lambda pod: is_true(pod, "Ready"))
    await eventually(lambda: tenant.get(GATEWAY, "tenant"), lambda found: is_true(found, "Programmed"))
    await eventually(lambda: tenant.get(HTTP_ROUTE, "replica"), lambda found: all(accepted(found).values()))
    async with Caller(tmp_path, port, SERVER_CA, CLIENT_CA.issue("gateway")) as caller:
        await eventually(lambda: status(caller, "/v1/models"), lambda code: code == 200)
        async with caller.session.get(caller.url(HOST, "/v1/models")) as answer:
            assert await answer.text() == "hello from stub-7b"
        assert await status(caller, "/slots") == 404
        async with Caller(tmp_path, port, SERVER_CA, None) as stranger:
            with pytest.raises(aiohttp.ClientError):
                await status(stranger, "/v1/models")
        await tenant.scale(STATEFUL_SET, "one", 0)
        await eventually(lambda: status(caller, "/v1/models"), lambda code: code == 503)
        await tenant.api.delete(HTTP_ROUTE, "replica", namespace=INFERENCE)
        await eventually(lambda: status(caller, "/v1/models"), lambda code: code == 404)
    await tenant.api.delete(GATEWAY, "tenant", namespace=INFERENCE)
    await eventually(lambda: is_listening(port), lambda found: not found)


async def test_gateway_without_certificate_waits_for_it(tenant: Tenant) -> None:
    [secret, *others] = gateway(free_port())
    await tenant.create(*others)
    found = await eventually(lambda: tenant.get(GATEWAY, "tenant"), lambda found: "listeners" in status_of(found))
    assert is_true(found, "Accepted")
    assert not is_true(found, "Programmed")
    [listener] = found["status"]["listeners"]
    reasons = {entry["type"]: entry["reason"] for entry in listener["conditions"]}
    assert reasons["ResolvedRefs"] == "InvalidCertificateRef"
    await tenant.create(secret)
    await eventually(lambda: tenant.get(GATEWAY, "tenant"), lambda found: is_true(found, "Programmed"))
    found = await tenant.api.get(GATEWAY_CLASS, "local") or {}
    assert is_true(found, "Accepted")


async def test_port_that_was_taken_is_opened_when_it_comes_free(tenant: Tenant) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        await tenant.create(*gateway(other.getsockname()[1]))
        found = await eventually(lambda: tenant.get(GATEWAY, "tenant"), lambda found: "listeners" in status_of(found))
        assert not is_true(found, "Programmed")
        await asyncio.sleep(1)  # by then the cluster tells of nothing any more
    await eventually(lambda: tenant.get(GATEWAY, "tenant"), lambda found: is_true(found, "Programmed"))


@pytest.mark.parametrize(
    ("change", "condition", "reason"),
    [
        ({"hostnames": ["r0.other.example.com"]}, "Accepted", "NoMatchingListenerHostname"),
        ({"parentRefs": [{"name": "tenant", "sectionName": "none"}]}, "Accepted", "NoMatchingParent"),
        ({"rules": [{"matches": [{"method": "GET"}]}]}, "Accepted", "UnsupportedValue"),
        ({"rules": [{"backendRefs": [{"name": "none", "port": 80}]}]}, "ResolvedRefs", "BackendNotFound"),
        ({"rules": [{"backendRefs": [{"name": "replica", "port": 81}]}]}, "ResolvedRefs", "BackendNotFound"),
        (
            {"rules": [{"backendRefs": [{"name": "replica", "port": 80, "namespace": "default"}]}]},
            "ResolvedRefs",
            "RefNotPermitted",
        ),
        (
            {
                "rules": [
                    {"backendRefs": [{"name": "replica", "port": 80, "kind": "Bucket", "group": "acme.example.com"}]}
                ]
            },
            "ResolvedRefs",
            "InvalidKind",
        ),
    ],
)
async def test_route_that_cannot_work_says_why(tenant: Tenant, change: Json, condition: str, reason: str) -> None:
    broken = route()
    broken["spec"] |= change
    await tenant.create(*gateway(free_port()), service(), broken)
    found = await eventually(lambda: tenant.get(HTTP_ROUTE, "replica"), lambda found: bool(accepted(found)))
    assert accepted(found) == {"Accepted": True, "ResolvedRefs": True, condition: False}
    [parent] = found["status"]["parents"]
    assert {entry["type"]: entry["reason"] for entry in parent["conditions"]}[condition] == reason
    assert {entry["observedGeneration"] for entry in parent["conditions"]} == {found["metadata"]["generation"]}


async def test_route_of_another_namespace_needs_the_listeners_leave_and_a_grant(tenant: Tenant) -> None:
    foreign = route()
    foreign["metadata"]["namespace"] = "team"
    foreign["spec"]["parentRefs"] = [{"name": "tenant", "namespace": INFERENCE}]
    foreign["spec"]["rules"] = [{"backendRefs": [{"name": "replica", "namespace": INFERENCE, "port": 80}]}]
    labels = {"tenantry.io/attaches": "yes"}
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}}
    await tenant.create(team, *gateway(free_port()), service(), foreign)

    async def look() -> Json:
        return await tenant.api.get(HTTP_ROUTE, "replica", namespace="team") or {}

    found = await eventually(look, lambda found: bool(accepted(found)))
    [parent] = found["status"]["parents"]
    assert parent["controllerName"] == CONTROLLER_NAME
    assert [entry["reason"] for entry in parent["conditions"]] == ["NotAllowedByListeners", "RefNotPermitted"]

    listener = copy.deepcopy((await tenant.get(GATEWAY, "tenant"))["spec"]["listeners"][0])
    listener["allowedRoutes"] = {"namespaces": {"from": "Selector", "selector": {"matchLabels": labels}}}
    await tenant.api.patch(GATEWAY, "tenant", {"spec": {"listeners": [listener]}}, namespace=INFERENCE)
    grant = {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "team"}]}
    manifest = {"apiVersion": GATEWAY.api_version, "kind": "ReferenceGrant"}
    metadata = {"name": "team", "namespace": INFERENCE}
    await tenant.create({**manifest, "metadata": metadata, "spec": {**grant, "to": [{"group": "", "kind": "Service"}]}})
    await eventually(look, lambda found: all(accepted(found).values()))


async def test_gateway_of_a_class_that_is_not_ours_is_left_alone(tenant: Tenant) -> None:
    [_, _, manifest] = gateway(free_port())
    manifest["spec"]["gatewayClassName"] = "somebody-elses"
    await tenant.create(manifest, service(), route())
    ours = copy.deepcopy(gateway(free_port())[2])
    ours["metadata"]["name"] = "ours"
    await tenant.create(ours)
    await eventually(lambda: tenant.get(GATEWAY, "ours"), lambda found: is_true(found, "Accepted"))
    assert not is_true(await tenant.get(GATEWAY, "tenant"), "Accepted")
    assert status_of(await tenant.get(HTTP_ROUTE, "replica")) == {}


async def test_gateways_of_the_control_plane_cluster_get_conditions_without_a_listener(tenant: Tenant) -> None:
    port = free_port()
    api = tenant.control_plane
    await api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenantry"}})
    kind = {"apiVersion": GATEWAY_CLASS.api_version, "kind": "GatewayClass", "metadata": {"name": "local"}}
    await api.create(GATEWAY_CLASS, {**kind, "spec": {"controllerName": CONTROLLER_NAME}})
    metadata = {"name": "public", "namespace": "tenantry"}
    listener = {"name": "http", "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}
    spec = {"gatewayClassName": "local", "listeners": [listener]}
    await api.create(
        GATEWAY, {"apiVersion": GATEWAY.api_version, "kind": "Gateway", "metadata": metadata, "spec": spec}
    )
    customer = route()
    customer["metadata"]["namespace"] = "tenantry"
    customer["spec"]["parentRefs"] = [{"name": "public"}]
    await api.create(SERVICE, {**service(), "metadata": {"name": "replica", "namespace": "tenantry"}})
    await api.create(HTTP_ROUTE, customer)

    async def look() -> Json:
        return await api.get(HTTP_ROUTE, "replica", namespace="tenantry") or {}

    await eventually(look, lambda found: accepted(found) == {"Accepted": True, "ResolvedRefs": True})
    assert not await is_listening(port)


async def test_injected_faults_of_the_route_stage(tenant: Tenant) -> None:
    tenant.faults.put("route", Fault(fail=Failure(reason="Refused", message="a fault")))
    await tenant.create(*gateway(free_port()), service(), route())
    found = await eventually(lambda: tenant.get(HTTP_ROUTE, "replica"), lambda found: bool(accepted(found)))
    assert accepted(found) == {"Accepted": False, "ResolvedRefs": True}
    tenant.faults.put("route", None)
    await eventually(lambda: tenant.get(HTTP_ROUTE, "replica"), lambda found: all(accepted(found).values()))


def gateway(port: int) -> list[Json]:
    pair = SERVER_CA.issue("*.acme.example.com")
    encoded = {"tls.crt": pair.certificate, "tls.key": pair.key}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in encoded.items()}
    tls = {"mode": "Terminate", "certificateRefs": [{"name": "tenant-tls"}]}
    listener = {"name": "replicas", "hostname": "*.acme.example.com", "port": port, "protocol": "HTTPS", "tls": tls}
    authorities = [{"group": "", "kind": "ConfigMap", "name": "gateway-client-ca"}]
    frontend = {"frontend": {"default": {"validation": {"caCertificateRefs": authorities}}}}
    spec = {"gatewayClassName": "local", "listeners": [listener], "tls": frontend}

    def named(kind: str, name: str, *, api_version: str = "v1") -> Json:
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": INFERENCE}}

    return [
        {**named("Secret", "tenant-tls"), "type": "kubernetes.io/tls", "data": data},
        {**named("ConfigMap", "gateway-client-ca"), "data": {"ca.crt": CLIENT_CA.certificate}},
        {**named("Gateway", "tenant", api_version=GATEWAY.api_version), "spec": spec},
    ]


def service() -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "replica", "namespace": INFERENCE},
        "spec": {
            "selector": {"statefulset.kubernetes.io/pod-name": "one-0"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
        },
    }


def route() -> Json:
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": "/v1/"}}],
        "timeouts": {"request": "0s"},
        "backendRefs": [{"name": "replica", "port": 80}],
    }
    return {
        "apiVersion": HTTP_ROUTE.api_version,
        "kind": "HTTPRoute",
        "metadata": {"name": "replica", "namespace": INFERENCE},
        "spec": {"hostnames": [HOST], "parentRefs": [{"name": "tenant"}], "rules": [rule]},
    }


def status_of(found: Json) -> Json:
    return found.get("status") or {}


def accepted(found: Json) -> dict[str, bool]:
    parents = status_of(found).get("parents") or ({"conditions": ()},)
    return {entry["type"]: entry["status"] == "True" for entry in parents[0]["conditions"]}


async def status(caller: Caller, path: str) -> int:
    async with caller.session.get(caller.url(HOST, path)) as answer:
        return answer.status


async def is_listening(port: int) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}"):
            return True
    except aiohttp.ClientConnectorError:
        return False
    except aiohttp.ClientError:
        return True

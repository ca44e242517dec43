"""`tenantry embedded --attach`: the command over a real API server, seen through the kubeconfig that it writes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.domain.errors import RejectedError, TenantryError
from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.controllers.core.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    GATEWAY,
    GATEWAY_CLASS,
)
from provisioner.embedded.controllers.kinds import CERTIFICATE, CLUSTER_ISSUER, INSTANCE, NODE, POD
from provisioner.embedded.controllers.loop import Cluster, is_true
from provisioner.embedded.survey import DEFINITION, install_definitions, survey
from provisioner.embedded.target import read_target
from provisioner.embedded.troupe import Role
from provisioner.platform.interface import Kind
from tests.conformance import servers
from tests.contract.attached import (
    NEEDS_SERVER,
    metadata,
    namespace,
    playing,
    pretend_controller_manager,
    waited,
    workload,
)
from tests.contract.embedded import NAMESPACE as PROJECT_NAMESPACE
from tests.contract.embedded import create, eventually, publish

Json = dict[str, Any]
ACCOUNT = Path(__file__).parents[2] / "docs" / "how-to" / "playground.yaml"
CLASS = {"controllerName": "tenantry.io/embedded-gateway"}


@NEEDS_SERVER
async def test_command_says_what_it_plays(kubeconfig: Path, tmp_path: Path) -> None:
    async with playing(kubeconfig, tmp_path / "state") as playground:
        for role in ("vCluster Platform and Argo CD", "cert-manager", "controller manager", "tenant clusters"):
            assert f"plays: {role}" in playground.said


@NEEDS_SERVER
async def test_tenant_cluster_is_served_beside_its_control_plane_cluster(kubeconfig: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with playing(kubeconfig, state) as playground:
        api = playground.api
        await publish(playground)
        await create(playground)

        async def instance() -> Json:
            return await api.get(INSTANCE, "ep-one", namespace=PROJECT_NAMESPACE) or {}

        await eventually(instance, lambda item: is_true(item, "VirtualClusterAppsAndObjectsSynced"))
        tenant = Cluster(api, api).tenant("acme-dedicated", "ep-one").api
        found = await eventually(lambda: tenant.get(CONFIG_MAP, "from-template", namespace="default"), bool)
        assert found is not None
        assert found["data"] == {"name": "ep-one"}
        contexts = [entry["name"] for entry in yaml.safe_load((state / "kubeconfig").read_text())["contexts"]]
        assert contexts == ["control-plane", "acme-dedicated/ep-one"]
    async with playing(kubeconfig, state) as playground:  # goes on where it stopped
        tenant = Cluster(playground.api, playground.api).tenant("acme-dedicated", "ep-one").api
        kept = await eventually(lambda: read_or_none(tenant, CONFIG_MAP, "from-template"), bool)
        assert kept is not None
        assert kept["metadata"]["uid"] == found["metadata"]["uid"]
        await playground.api.delete(INSTANCE, "ep-one", namespace=PROJECT_NAMESPACE)
        await eventually(
            lambda: playground.api.get(INSTANCE, "ep-one", namespace=PROJECT_NAMESPACE), lambda item: item is None
        )


@NEEDS_SERVER
async def test_what_the_cluster_has_itself_is_left_to_it(tmp_path: Path) -> None:
    with servers.kube_apiserver(tmp_path) as server:
        target = read_target(server.write_kubeconfig(tmp_path / "kubeconfig"))
        async with open_session(token=target.token, tls=target.tls) as session:
            api = Api(session, target.url)
            await pretend_controller_manager(api)
            await api.create(DEFINITION, foreign_definition())
            async with playing(tmp_path / "kubeconfig", tmp_path / "state") as playground:
                assert "leaves to the cluster: controller manager" in playground.said
                assert "leaves to the cluster: cert-manager" in playground.said
                assert not re.search(r"installed definition: .*\.cert-manager\.io", playground.said)
                await playground.apply(namespace("acme"))
                await playground.apply(workload(DEPLOYMENT, "web", "acme"))
                assert await playground.api.list(POD) == []


@NEEDS_SERVER
async def test_definitions_of_ours_are_renewed_and_others_left_as_they_are(kubeconfig: Path, tmp_path: Path) -> None:
    target = read_target(kubeconfig)
    async with open_session(token=target.token, tls=target.tls) as session:
        api = Api(session, target.url)
        await install_definitions(api, await survey(api, context="acme"))
        assert (await survey(api, context="acme")).missing == {}
        digest = {"metadata": {"annotations": {"tenantry.io/digest": "of another version"}}}
        await api.patch(DEFINITION, "projects.management.loft.sh", digest)
        outdated = await survey(api, context="acme")
        assert list(outdated.missing) == ["projects.management.loft.sh"]
        assert Role.PLATFORM in outdated.roles
        await install_definitions(api, outdated)
        assert (await survey(api, context="acme")).missing == {}


@NEEDS_SERVER
async def test_account_of_the_how_to_is_enough(tmp_path: Path) -> None:
    with servers.kube_apiserver(tmp_path) as server:
        target = read_target(server.write_kubeconfig(tmp_path / "admin"))
        async with open_session(token=target.token, tls=target.tls) as session:
            api = Api(session, target.url)
            await pretend_controller_manager(api)
            for manifest in yaml.safe_load_all(ACCOUNT.read_text()):
                kind = await api.kind_of(manifest["apiVersion"], manifest["kind"])
                await api.apply(kind, manifest, manager="acme")
            request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            request["metadata"] = {"name": "playground", "namespace": "tenantry-playground"}
            accounts = Kind("", "v1", "ServiceAccount", "serviceaccounts")
            token = (await api.create(accounts, request, subresource="token"))["status"]["token"]
            limited = replace(server, token=token).write_kubeconfig(tmp_path / "kubeconfig")
            async with playing(limited, tmp_path / "state") as playground:
                await publish(playground)
                await create(playground)
                await eventually(
                    lambda: api.get(INSTANCE, "ep-one", namespace=PROJECT_NAMESPACE),
                    lambda item: is_true(item or {}, "VirtualClusterAppsAndObjectsSynced"),
                )
                issuer = {"metadata": {"name": "played"}, "spec": {"selfSigned": {}}}
                await api.apply(CLUSTER_ISSUER, issuer, manager="acme")
                issued: Json = {"secretName": "web-tls", "dnsNames": ["web.example.com"]}
                issued |= {"issuerRef": {"kind": "ClusterIssuer", "name": "played"}}
                await api.apply(
                    CERTIFICATE, {**metadata(CERTIFICATE, "web", "default"), "spec": issued}, manager="acme"
                )
                await waited(api, CERTIFICATE, "web", "default", lambda item: is_true(item, "Ready"))
                await api.apply(GATEWAY_CLASS, {"metadata": {"name": "local"}, "spec": CLASS}, manager="acme")
                listeners = [{"name": "http", "port": 80, "protocol": "HTTP"}]
                gateway = {"gatewayClassName": "local", "listeners": listeners}
                await api.apply(GATEWAY, {**metadata(GATEWAY, "public", "default"), "spec": gateway}, manager="acme")
                await waited(api, GATEWAY, "public", "default", lambda item: is_true(item, "Programmed"))
                await api.delete(INSTANCE, "ep-one", namespace=PROJECT_NAMESPACE)
                await eventually(
                    lambda: api.get(INSTANCE, "ep-one", namespace=PROJECT_NAMESPACE), lambda item: item is None
                )
                with pytest.raises(RejectedError, match="403"):
                    await playground.api.list(NODE)


def foreign_definition() -> Json:
    """A definition of cert-manager's as its own chart would bring it, as small as it can be."""
    names = {"kind": "Certificate", "plural": "certificates", "singular": "certificate", "listKind": "CertificateList"}
    open_ = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": open_}}
    spec = {"group": "cert-manager.io", "scope": "Namespaced", "names": names, "versions": [version]}
    name = "certificates.cert-manager.io"
    return {"apiVersion": DEFINITION.api_version, "kind": DEFINITION.kind, "metadata": {"name": name}, "spec": spec}


async def read_or_none(api: Api, kind: Kind, name: str) -> Json | None:
    """An object of the default namespace; None also while its cluster is not served."""
    try:
        return await api.get(kind, name, namespace="default")
    except TenantryError:
        return None

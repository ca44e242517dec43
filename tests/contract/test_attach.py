"""`tenantry embedded --attach`: the command over a bare API server, seen through the kubeconfig that it writes."""

from __future__ import annotations

import asyncio
import copy
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.domain.errors import RejectedError, TenantryError
from provisioner.embedded.attach import run_attached
from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.controllers.core.kinds import (
    AUTOSCALER,
    CONFIG_MAP,
    DAEMON_SET,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    ENDPOINTS,
    EVENT,
    GATEWAY,
    GATEWAY_CLASS,
    JOB,
    QUOTA,
    REPLICA_SET,
    SERVICE,
    STATEFUL_SET,
    VOLUME_CLAIM,
)
from provisioner.embedded.controllers.kinds import CERTIFICATE, CLUSTER_ISSUER, INSTANCE, NAMESPACE, NODE, POD, SECRET
from provisioner.embedded.controllers.loop import Cluster, is_true
from provisioner.embedded.plane import PlaneOptions
from provisioner.embedded.survey import DEFINITION, install_definitions, survey
from provisioner.embedded.target import read_target
from provisioner.embedded.troupe import Role
from provisioner.platform.interface import Kind
from tests.conformance import servers
from tests.conformance.conftest import widget_crd
from tests.contract.embedded import DEADLINE_SECONDS, create, eventually, publish
from tests.contract.embedded import NAMESPACE as PROJECT_NAMESPACE
from tests.contract.embedded_cluster import CLOCK

Json = dict[str, Any]
NEEDS_SERVER = pytest.mark.skipif(
    not servers.has_kube_apiserver(),
    reason="needs kube-apiserver: install it with `setup-envtest use` and name its folder in KUBEBUILDER_ASSETS",
)
ACCOUNT = Path(__file__).parents[2] / "docs" / "how-to" / "playground.yaml"
CLASS = {"controllerName": "tenantry.io/embedded-gateway"}
TEMPLATE: Json = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [
            {"name": "web", "image": "registry.example.com/web:1", "ports": [{"name": "http", "containerPort": 8080}]}
        ]
    },
}

WORKLOAD: Json = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a kube-apiserver without any controllers."""
    folder = tmp_path_factory.mktemp("kube-apiserver")
    with servers.kube_apiserver(folder) as server:
        yield server.write_kubeconfig(folder / "kubeconfig")


@dataclass(frozen=True)
class Playground:
    """The command at work: what it said, and the cluster as its kubeconfig gives it."""

    api: Api
    process: subprocess.Popen[str]
    said: str
    repository: Path

    async def apply(self, manifest: Json) -> Json:
        """Make an object as a person would."""
        kind = await self.api.kind_of(manifest["apiVersion"], manifest["kind"])
        return await self.api.apply(kind, manifest, manager="acme")


@pytest.fixture(params=["embedded", pytest.param("kube-apiserver", marks=NEEDS_SERVER)])
async def playground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Playground]:
    """The command with an API server of its own, and attached to a real one."""
    attach = request.getfixturevalue("kubeconfig") if request.param == "kube-apiserver" else None
    async with playing(attach, tmp_path / "state") as found:
        yield found


@asynccontextmanager
async def playing(attach: Path | None, state: Path) -> AsyncIterator[Playground]:
    """Run the command until it says `ready`; at the end it must stop by itself when told."""
    command = [sys.executable, "-m", "provisioner.cli", "embedded", *(["--attach", str(attach)] if attach else [])]
    command += ["--state", str(state), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        said = await asyncio.wait_for(asyncio.to_thread(_read_until_ready, process), DEADLINE_SECONDS)
        target = read_target(state / "kubeconfig")
        async with open_session(token=target.token, tls=target.tls) as session:
            yield Playground(Api(session, target.url), process, said, state / "delivery.git")
    finally:
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=30)
    assert process.returncode == 0, rest
    assert "Traceback" not in rest


def _read_until_ready(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if line == "ready\n":
            return said
    raise AssertionError(f"it ended: {said}")


async def test_everything_that_clients_wait_for_becomes_so(playground: Playground) -> None:
    api = playground.api
    await apply_workloads(playground, "acme")

    found = await waited(api, DEPLOYMENT, "web", "acme", lambda item: is_true(item, "Available"))
    revision = "deployment.kubernetes.io/revision"
    await waited(api, DEPLOYMENT, "web", "acme", lambda item: revision in item["metadata"]["annotations"])
    [replica_set] = [
        item for item in await api.list(REPLICA_SET, namespace="acme") if item["metadata"]["name"].startswith("web-")
    ]
    conditions = {entry["type"]: entry["reason"] for entry in found["status"]["conditions"]}
    assert conditions["Progressing"] == "NewReplicaSetAvailable"
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert replica_set["metadata"]["annotations"][revision] == "1"
    assert replica_set["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]

    found = await waited(api, STATEFUL_SET, "data", "acme", lambda item: item["status"].get("readyReplicas") == 1)
    assert found["status"]["currentRevision"] == found["status"]["updateRevision"]
    found = await waited(api, DAEMON_SET, "agent", "acme", lambda item: item["status"]["numberReady"] == 1)
    assert found["status"]["updatedNumberScheduled"] == found["status"]["desiredNumberScheduled"] == 1
    await waited(api, JOB, "once", "acme", lambda item: is_true(item, "Complete"))
    await waited(api, VOLUME_CLAIM, "disk-data-0", "acme", lambda item: item["status"]["phase"] == "Bound")
    await waited(api, QUOTA, "limits", "acme", lambda item: item["status"].get("hard") == {"pods": "9"})
    await waited(api, ENDPOINTS, "web", "acme", lambda item: item["subsets"][0]["addresses"])
    budget = await waited(
        api, DISRUPTION_BUDGET, "scaled", "acme", lambda item: item["status"]["disruptionsAllowed"] == 1
    )
    assert (budget["status"]["currentHealthy"], budget["status"]["desiredHealthy"]) == (2, 1)
    scaler = await waited(api, AUTOSCALER, "scaled", "acme", lambda item: item["status"].get("currentReplicas") == 2)
    assert is_true(scaler, "AbleToScale")
    assert not is_true(scaler, "ScalingActive")
    await waited(api, SERVICE, "web", "acme", lambda item: item["status"]["loadBalancer"]["ingress"])
    await waited(api, CERTIFICATE, "web", "acme", lambda item: is_true(item, "Ready"))
    assert await api.get(SECRET, "web-tls", namespace="acme")
    told = {event["reason"] for event in await api.list(EVENT, namespace="acme")}
    assert "StandIn" in told


async def test_foreground_deletion_ends_whatever_the_kind(playground: Playground) -> None:
    api = playground.api
    await apply_workloads(playground, "goes")
    role = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
    await playground.apply({**metadata(role, "nothing", "goes"), "rules": []})
    await waited(api, DEPLOYMENT, "web", "goes", lambda item: is_true(item, "Available"))
    for kind, name in ((DEPLOYMENT, "web"), (role, "nothing"), (CERTIFICATE, "web")):
        await api.delete(kind, name, namespace="goes", propagation="Foreground")
        await eventually(lambda kind=kind, name=name: api.get(kind, name, namespace="goes"), lambda item: not item)  # type: ignore[misc]
    assert await api.list(REPLICA_SET, namespace="goes", labels={"app": "web"}) == []
    await api.delete(NAMESPACE, "goes", propagation="Foreground")
    await eventually(lambda: api.get(NAMESPACE, "goes"), lambda item: item is None)


async def test_foreground_deletion_ends_also_for_kinds_that_came_later(playground: Playground) -> None:
    api = playground.api
    await playground.apply(widget_crd("acme.example.com"))
    widgets = Kind("acme.example.com", "v1", "Widget", "widgets")
    await eventually(lambda: served(api, widgets), bool)
    await playground.apply(metadata(widgets, "one", "default"))
    await api.delete(widgets, "one", namespace="default", propagation="Foreground")
    await eventually(lambda: api.get(widgets, "one", namespace="default"), lambda item: item is None)
    await api.delete(DEFINITION, "widgets.acme.example.com", propagation="Foreground")
    await eventually(lambda: api.get(DEFINITION, "widgets.acme.example.com"), lambda item: item is None)


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


@NEEDS_SERVER
async def test_account_without_access_is_told_what_is_missing(kubeconfig: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"]["token"] = "nobody"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    target = read_target(tmp_path / "kubeconfig")
    async with open_session(token=target.token, tls=target.tls) as session:
        with pytest.raises(RejectedError, match="looking at what the cluster has") as refused:
            await survey(Api(session, target.url), context=target.context)
    assert "playgrounds" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login"}}, "neither a token"),
        ({"client-certificate-data": "bm8=", "client-key-data": "bm8="}, "reading kubeconfig: SSLError"),
    ],
)
def test_credentials_that_cannot_be_used_are_refused(tmp_path: Path, user: Json, message: str) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "acme",
        "clusters": [{"name": "acme", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "acme", "user": user}],
        "contexts": [{"name": "acme", "context": {"cluster": "acme", "user": "acme"}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    with pytest.raises(RejectedError, match=message):
        read_target(tmp_path / "kubeconfig")


async def test_kubeconfig_that_is_attached_with_is_never_written(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("kept")
    options = PlaneOptions(
        state=tmp_path, port=0, gateway_port=1, public_port=2, kubeconfig=tmp_path / "." / "kubeconfig"
    )
    with pytest.raises(RejectedError, match="same file"):
        await run_attached(options, attach=tmp_path / "kubeconfig", clock=CLOCK, stop=asyncio.Event())
    assert (tmp_path / "kubeconfig").read_text() == "kept"


def test_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match="nowhere"):
        read_target(tmp_path / "nowhere")


async def apply_workloads(playground: Playground, name: str) -> None:
    """One of everything that clients wait for, in a namespace."""
    await playground.apply(namespace(name))
    disk = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "disk"}, "spec": disk}
    once = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    ports = [{"port": 80, "targetPort": "http"}]
    service = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports}
    issued = {"secretName": "web-tls", "dnsNames": ["web.example.com"], "issuerRef": {"name": "local"}}
    apart = {"selector": {"matchLabels": {"app": "scaled"}}, "template": copy.deepcopy(TEMPLATE)}
    apart["template"]["metadata"]["labels"] = {"app": "scaled"}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "scaled"}
    bounds = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 3}
    for manifest in (
        workload(DEPLOYMENT, "web", name),
        {**metadata(DEPLOYMENT, "scaled", name), "spec": apart},
        {**metadata(AUTOSCALER, "scaled", name), "spec": bounds},
        {
            **metadata(DISRUPTION_BUDGET, "scaled", name),
            "spec": {"maxUnavailable": "30%", "selector": apart["selector"]},
        },
        workload(STATEFUL_SET, "data", name, serviceName="data", volumeClaimTemplates=[claim]),
        {**metadata(DAEMON_SET, "agent", name), "spec": {key: WORKLOAD[key] for key in ("selector", "template")}},
        {**metadata(JOB, "once", name), "spec": {"template": once}},
        {**metadata(QUOTA, "limits", name), "spec": {"hard": {"pods": "9"}}},
        {**metadata(SERVICE, "web", name), "spec": service},
        {**metadata(CERTIFICATE, "web", name), "spec": issued},
    ):
        await playground.apply(manifest)


def namespace(name: str) -> Json:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def metadata(kind: Kind, name: str, namespace: str) -> Json:
    """The head of an object."""
    head = {"name": name, "namespace": namespace}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": head}


def workload(kind: Kind, name: str, namespace: str, **spec: Any) -> Json:
    """A Deployment or StatefulSet of an image that is nowhere."""
    return {**metadata(kind, name, namespace), "spec": WORKLOAD | spec}


async def pretend_controller_manager(api: Api) -> None:
    """What every controller manager makes, and by which one is known to be there."""
    root = metadata(CONFIG_MAP, "kube-root-ca.crt", "kube-system")
    await api.create(CONFIG_MAP, {**root, "data": {"ca.crt": "PEM"}})


def foreign_definition() -> Json:
    """A definition of cert-manager's as its own chart would bring it, as small as it can be."""
    names = {"kind": "Certificate", "plural": "certificates", "singular": "certificate", "listKind": "CertificateList"}
    open_ = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": open_}}
    spec = {"group": "cert-manager.io", "scope": "Namespaced", "names": names, "versions": [version]}
    name = "certificates.cert-manager.io"
    return {"apiVersion": DEFINITION.api_version, "kind": DEFINITION.kind, "metadata": {"name": name}, "spec": spec}


async def waited(api: Api, kind: Kind, name: str, namespace: str, until: Any) -> Json:
    """An object as soon as it is as wanted; what it does not say yet is not as wanted."""

    def holds(item: Json | None) -> bool:
        try:
            return bool(item and until(item))
        except (KeyError, IndexError):
            return False

    found = await eventually(lambda: api.get(kind, name, namespace=namespace), holds)
    assert found is not None
    return found


async def served(api: Api, kind: Kind) -> bool:
    """Whether a kind can be listed."""
    try:
        await api.list(kind)
    except TenantryError:
        return False
    return True


async def read_or_none(api: Api, kind: Kind, name: str) -> Json | None:
    """An object of the default namespace; None also while its cluster is not served."""
    try:
        return await api.get(kind, name, namespace="default")
    except TenantryError:
        return None

"""kubectl in daily use: what it prints and does against the server."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.conformance.conftest import MERGE, Api, config_map, deployment, find_kubectl

Kubectl = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(api: Api, tmp_path: Path) -> Start:
    """Starts kubectl in the test's namespace."""
    program = find_kubectl()
    kubeconfig = api.server.write_kubeconfig(tmp_path / "kubeconfig")
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}

    def started(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [program, "--namespace", api.namespace, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return started


@pytest.fixture
def kubectl(start: Start) -> Kubectl:
    """Runs kubectl in the test's namespace; fails the test when the exit code is not the expected one."""

    def run(*arguments: str, text: str | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
        with start(*arguments) as process:
            try:
                out, errors = process.communicate(text, timeout=60)
            finally:
                process.kill()
        assert process.returncode == code, f"{arguments}: {out}{errors}"
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors)

    return run


def test_get_prints_the_usual_tables(kubectl: Kubectl, api: Api) -> None:
    api.create(api.path("deployments", group="apps/v1"), deployment("web", replicas=2))
    api.create(api.path("configmaps"), config_map("settings", one="1"))
    lines = kubectl("get", "deployments").stdout.splitlines()
    assert lines[0].split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert lines[1].split()[:4] == ["web", "0/2", "0", "0"]
    assert kubectl("get", "cm", "settings", "-o", "jsonpath={.data.one}").stdout == "1"
    assert "registry.example.com/web:1" in kubectl("get", "deploy", "-o", "wide").stdout
    assert "deployment.apps/web" in kubectl("get", "all").stdout
    missing = kubectl("get", "deploy", "gone", code=1)
    assert missing.stderr.strip() == 'Error from server (NotFound): deployments.apps "gone" not found'


def test_describe_shows_an_object_with_its_events(kubectl: Kubectl, api: Api) -> None:
    made = api.create(api.path("deployments", group="apps/v1"), deployment("web", replicas=2))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.1"},
        "involvedObject": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "web",
            "namespace": api.namespace,
            "uid": made["metadata"]["uid"],
        },
        "reason": "ScalingReplicaSet",
        "message": "scaled up",
        "type": "Normal",
    }
    api.create(api.path("events"), event)
    shown = kubectl("describe", "deployment", "web").stdout
    assert "Replicas:" in shown
    assert "ScalingReplicaSet" in shown


def test_apply_server_side_reports_and_conflicts(kubectl: Kubectl, api: Api) -> None:
    text = yaml.safe_dump(config_map("settings", one="1"))
    assert "settings serverside-applied" in kubectl("apply", "--server-side", "-f", "-", text=text).stdout
    assert "settings serverside-applied" in kubectl("apply", "--server-side", "-f", "-", text=text).stdout
    other = yaml.safe_dump(config_map("settings", one="2"))
    refused = kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", text=other, code=1)
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.one' in refused.stderr
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", text=other)
    assert api.get(api.path("configmaps", "settings"))["data"] == {"one": "2"}


def test_apply_on_the_client_side_creates_configures_and_rests(kubectl: Kubectl, api: Api) -> None:
    document = deployment("web", replicas=2)
    assert "created" in kubectl("apply", "-f", "-", text=yaml.safe_dump(document)).stdout
    assert "unchanged" in kubectl("apply", "-f", "-", text=yaml.safe_dump(document)).stdout
    document["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/web:2"
    assert "configured" in kubectl("apply", "-f", "-", text=yaml.safe_dump(document)).stdout
    live = api.get(api.path("deployments", "web", group="apps/v1"))
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/web:2"


def test_diff_shows_what_an_apply_would_change(kubectl: Kubectl) -> None:
    document = deployment("web", replicas=2)
    text = yaml.safe_dump(document)
    kubectl("apply", "--server-side", "-f", "-", text=text)
    kubectl("diff", "--server-side", "-f", "-", text=text)
    document["spec"]["replicas"] = 3
    shown = kubectl("diff", "--server-side", "-f", "-", text=yaml.safe_dump(document), code=1).stdout
    assert "-  replicas: 2" in shown
    assert "+  replicas: 3" in shown


def test_wait_returns_when_a_condition_comes(kubectl: Kubectl, api: Api) -> None:
    api.create(api.path("deployments", group="apps/v1"), deployment("web"))
    condition = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": ""}

    def make_available() -> None:
        with api.server.client() as http:
            path = api.path("deployments", "web", "status", group="apps/v1")
            http.patch(path, json={"status": {"observedGeneration": 1, "conditions": [condition]}}, headers=MERGE)

    timer = threading.Timer(0.3, make_available)
    timer.start()
    done = kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    assert "condition met" in done.stdout
    kubectl("wait", "--for=condition=Progressing", "deployment/web", "--timeout=1s", code=1)
    timer.join()


def test_delete_waits_until_an_object_is_gone(kubectl: Kubectl, api: Api) -> None:
    document = config_map("settings")
    document["metadata"]["finalizers"] = ["example.com/hold"]
    api.create(api.path("configmaps"), document)

    def release() -> None:
        with api.server.client() as http:
            http.patch(api.path("configmaps", "settings"), json={"metadata": {"finalizers": None}}, headers=MERGE)

    timer = threading.Timer(0.5, release)
    timer.start()
    kubectl("delete", "configmap", "settings", "--timeout=60s")
    timer.join()
    assert api.http.get(api.path("configmaps", "settings")).status_code == 404


def test_watch_prints_changes(start: Start, api: Api) -> None:
    api.create(api.path("configmaps"), config_map("settings", one="1"))
    with start("get", "configmaps", "--watch", "--field-selector=metadata.name=settings") as process:
        try:
            assert process.stdout is not None
            heading, *shown = (process.stdout.readline().split() for _ in range(2))
            api.http.patch(api.path("configmaps", "settings"), json={"data": {"two": "2"}}, headers=MERGE)
            shown.append(process.stdout.readline().split())
        finally:
            process.kill()
    assert heading[0] == "NAME"
    assert [line[:2] for line in shown] == [["settings", "1"], ["settings", "2"]]


def test_explain_describes_fields(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "deployment.spec.replicas").stdout
    assert "KIND:       Deployment" in shown
    assert "FIELD: replicas <integer>" in shown
    kubectl("explain", "deployment.spec.nothing", code=1)


def test_explain_reads_version_2_as_protocol_buffers(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "--output=plaintext-openapiv2", "deployment.spec.strategy.rollingUpdate").stdout
    assert "maxSurge\t<string>" in shown
    assert "RESOURCE: rollingUpdate <Object>" in shown


def test_explain_descends_to_every_field(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "deployment.spec", "--recursive").stdout
    assert "terminationGracePeriodSeconds\t<integer>" in shown
    assert "containerPort\t<integer> -required-" in shown


def test_api_resources_know_short_names_and_scopes(kubectl: Kubectl) -> None:
    found = {line.split()[0]: line.split() for line in kubectl("api-resources", "--no-headers").stdout.splitlines()}
    assert found["deployments"] == ["deployments", "deploy", "apps/v1", "true", "Deployment"]
    assert found["namespaces"] == ["namespaces", "ns", "v1", "false", "Namespace"]


def test_imperative_commands_work(kubectl: Kubectl, api: Api) -> None:
    kubectl("create", "-f", "-", text=yaml.safe_dump(config_map("settings", one="1")))
    kubectl("label", "configmap", "settings", "app=web")
    kubectl("annotate", "configmap", "settings", "note=x")
    live = api.get(api.path("configmaps", "settings"))
    assert live["metadata"]["labels"] == {"app": "web"}
    api.create(api.path("deployments", group="apps/v1"), deployment("web", replicas=1))
    kubectl("scale", "deployment", "web", "--replicas=3")
    kubectl("set", "image", "deployment/web", "web=registry.example.com/web:3")
    kubectl("patch", "deployment", "web", "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels/app"}]')
    live = api.get(api.path("deployments", "web", group="apps/v1"))
    assert live["spec"]["replicas"] == 3
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/web:3"
    kubectl("replace", "-f", "-", text=yaml.safe_dump(config_map("settings", one="2")))
    kubectl("delete", "deployment/web", "configmap/settings", "--cascade=background")


def test_commands_that_send_protocol_buffers_work(kubectl: Kubectl, api: Api, unique: str) -> None:
    kubectl("create", "namespace", unique)
    kubectl("create", "configmap", "settings", "--from-literal=one=1")
    kubectl("create", "secret", "generic", "keys", "--from-literal=two=2")
    kubectl("create", "deployment", "web", "--image=registry.example.com/web:1", "--replicas=2", "--port=80")
    kubectl("create", "job", "once", "--image=registry.example.com/once:1")
    kubectl("create", "role", "reader", "--verb=get", "--resource=pods")
    kubectl("create", "rolebinding", "readers", "--role=reader", "--serviceaccount=acme:default")
    kubectl("create", "quota", "limits", "--hard=pods=3,requests.cpu=1500m")
    kubectl("create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=50%")
    kubectl("create", "ingress", "web", "--rule=acme.example.com/*=web:80")
    kubectl("autoscale", "deployment", "web", "--max=3", "--cpu=50")
    kubectl("create", "serviceaccount", "robot")
    assert kubectl("create", "token", "robot").stdout.strip()
    assert kubectl("auth", "can-i", "create", "pods").stdout.strip() == "yes"
    assert api.get(f"/api/v1/namespaces/{unique}")["metadata"]["name"] == unique
    assert api.get(api.path("configmaps", "settings"))["data"] == {"one": "1"}
    assert api.get(api.path("secrets", "keys"))["data"] == {"two": "Mg=="}
    web = api.get(api.path("deployments", "web", group="apps/v1"))["spec"]
    assert (web["replicas"], web["template"]["spec"]["containers"][0]["ports"][0]["containerPort"]) == (2, 80)
    assert api.get(api.path("resourcequotas", "limits"))["spec"]["hard"] == {"pods": "3", "requests.cpu": "1500m"}
    budget = api.get(api.path("poddisruptionbudgets", "web", group="policy/v1"))["spec"]
    assert budget == {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}
    path = api.get(api.path("ingresses", "web", group="networking.k8s.io/v1"))["spec"]["rules"][0]["http"]["paths"][0]
    assert path["backend"] == {"service": {"name": "web", "port": {"number": 80}}}
    role = api.get(api.path("roles", "reader", group="rbac.authorization.k8s.io/v1"))
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    kubectl("delete", "namespace", unique, "--wait=false")


def test_strict_validation_is_done_by_the_server(kubectl: Kubectl) -> None:
    document = deployment("web", replicaz=3)
    refused = kubectl("apply", "-f", "-", text=yaml.safe_dump(document), code=1)
    assert 'unknown field "spec.replicaz"' in refused.stderr

"""Many clusters behind one server: the control plane cluster, the management prefix, tenant clusters."""

from __future__ import annotations

from pathlib import Path

import httpx2

from provisioner.embedded.apiserver.server import serve_api
from tests.unit.embedded.apiserver.conftest import MANAGEMENT, MERGE, SteppedClock, config_map, connect, make_instance


async def test_new_cluster_has_its_namespaces_and_service_account(http: httpx2.AsyncClient) -> None:
    for prefix in ("", await make_instance(http, "acme", "ep-1")):
        listed = (await http.get(f"{prefix}/api/v1/namespaces")).json()
        assert {"default", "kube-system"} <= {item["metadata"]["name"] for item in listed["items"]}
        account = await http.get(f"{prefix}/api/v1/namespaces/default/serviceaccounts/default")
        assert account.status_code == 200


async def test_tenant_prefix_is_unknown_without_its_instance(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/kubernetes/project/acme/virtualcluster/ep-1/api/v1/pods")
    assert answer.status_code == 404
    assert answer.json()["kind"] == "Status"


async def test_tenant_cluster_is_unavailable_until_its_instance_is_ready(http: httpx2.AsyncClient) -> None:
    prefix = await make_instance(http, "acme", "ep-1", ready=False)
    answer = await http.get(f"{prefix}/api/v1/pods")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    assert answer.json()["reason"] == "ServiceUnavailable"
    await make_instance_ready(http, "acme", "ep-1")
    assert (await http.get(f"{prefix}/api/v1/pods")).status_code == 200


async def test_clusters_do_not_see_each_other(http: httpx2.AsyncClient) -> None:
    first = await make_instance(http, "acme", "ep-1")
    second = await make_instance(http, "acme", "ep-2")
    made = await http.post(f"{first}/api/v1/namespaces/default/configmaps", json=config_map("a"))
    assert made.status_code == 201
    for prefix in ("", second):
        assert (await http.get(f"{prefix}/api/v1/namespaces/default/configmaps/a")).status_code == 404


async def test_removed_instance_takes_its_cluster_and_ends_its_watches(http: httpx2.AsyncClient) -> None:
    prefix = await make_instance(http, "acme", "ep-1")
    await http.post(f"{prefix}/api/v1/namespaces/default/configmaps", json=config_map("a"))
    instance = f"{MANAGEMENT}/namespaces/p-acme/virtualclusterinstances/ep-1"
    parameters = {"watch": "true", "resourceVersion": "1"}
    async with http.stream("GET", f"{prefix}/api/v1/configmaps", params=parameters) as stream:
        lines = stream.aiter_lines()
        assert '"ADDED"' in await anext(lines)
        assert (await http.delete(instance)).status_code == 200
        assert [line async for line in lines] == []
    assert (await http.get(f"{prefix}/api/v1/configmaps")).status_code == 404
    await make_instance(http, "acme", "ep-1")
    assert (await http.get(f"{prefix}/api/v1/namespaces/default/configmaps/a")).status_code == 404


async def test_cluster_of_a_held_instance_stays(http: httpx2.AsyncClient) -> None:
    prefix = await make_instance(http, "acme", "ep-1")
    instance = f"{MANAGEMENT}/namespaces/p-acme/virtualclusterinstances/ep-1"
    await http.patch(instance, json={"metadata": {"finalizers": ["loft.sh/cleanup"]}}, headers=MERGE)
    await http.delete(instance)
    assert (await http.get(f"{prefix}/api/v1/pods")).status_code == 200
    await http.patch(instance, json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert (await http.get(f"{prefix}/api/v1/pods")).status_code == 404


async def test_management_prefix_shows_the_same_objects_and_no_other_group(http: httpx2.AsyncClient) -> None:
    await make_instance(http, "acme", "ep-1")
    path = "/apis/management.loft.sh/v1/namespaces/p-acme/virtualclusterinstances/ep-1"
    through_prefix = (await http.get(f"/kubernetes/management{path}")).json()
    assert (await http.get(path)).json() == through_prefix
    assert (await http.get("/kubernetes/management/api/v1/namespaces")).status_code == 404
    assert (await http.get("/kubernetes/management/apis/apps/v1/deployments")).status_code == 404
    groups = (await http.get("/kubernetes/management/apis")).json()["groups"]
    assert [group["name"] for group in groups] == ["management.loft.sh"]


async def test_selves_tell_the_prefix_of_project_namespaces(http: httpx2.AsyncClient) -> None:
    answer = await http.post(f"{MANAGEMENT}/selves", json={})
    assert answer.status_code == 201
    assert answer.json()["status"]["projectNamespacePrefix"] == "p-"


async def test_every_cluster_serves_the_shipped_kinds(http: httpx2.AsyncClient) -> None:
    prefix = await make_instance(http, "acme", "ep-1")
    for path in (
        "apis/management.loft.sh/v1/projects",
        "apis/argoproj.io/v1alpha1/applications",
        "apis/gateway.networking.k8s.io/v1/httproutes",
        "apis/keda.sh/v1alpha1/scaledobjects",
        "apis/cert-manager.io/v1/certificates",
        "apis/resource.k8s.io/v1/resourceslices",
    ):
        for cluster in ("", prefix):
            assert (await http.get(f"{cluster}/{path}")).json()["items"] == []


async def test_apply_can_be_refused_as_an_aggregated_api_does(tmp_path: Path, clock: SteppedClock) -> None:
    server = await serve_api(state=tmp_path, host="127.0.0.1", port=0, clock=clock, refuse_apply=True)
    async with connect(server.url) as http:
        project = {"apiVersion": "management.loft.sh/v1", "kind": "Project", "metadata": {"name": "acme"}}
        headers = {"Content-Type": "application/apply-patch+yaml"}
        path = "/apis/management.loft.sh/v1/projects/acme?fieldManager=tests"
        assert (await http.patch(path, json=project, headers=headers)).status_code == 415
        applied = await http.patch(
            "/api/v1/namespaces/default/configmaps/a?fieldManager=tests", json=config_map("a"), headers=headers
        )
        assert applied.status_code == 201
    await server.close()


async def test_own_definition_of_a_shipped_kind_wins(http: httpx2.AsyncClient) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "httproutes.gateway.networking.k8s.io"},
        "spec": {
            "group": "gateway.networking.k8s.io",
            "scope": "Namespaced",
            "names": {"kind": "HTTPRoute", "plural": "httproutes"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "properties": {"mine": {"type": "string"}}}},
                        }
                    },
                }
            ],
        },
    }
    path = "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes"
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await http.post(crds, json=definition)).status_code == 201
    made = await http.post(path, json={"metadata": {"name": "a"}, "spec": {"mine": "x"}})
    assert made.json()["spec"] == {"mine": "x"}
    assert (await http.delete(f"{crds}/httproutes.gateway.networking.k8s.io")).status_code == 200
    assert (await http.get(path)).json()["items"] == []
    strict = {"fieldValidation": "Strict"}
    assert (await http.post(path, json={"metadata": {"name": "a"}, "spec": {"mine": "x"}}, params=strict)).is_error


async def make_instance_ready(http: httpx2.AsyncClient, project: str, name: str) -> None:
    """Sets the condition that opens the tenant cluster."""
    status = {"conditions": [{"type": "VirtualClusterReady", "status": "True"}]}
    path = f"{MANAGEMENT}/namespaces/p-{project}/virtualclusterinstances/{name}/status"
    assert (await http.patch(path, json={"status": status}, headers=MERGE)).status_code == 200

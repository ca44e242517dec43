"""Status kept apart from the rest, and the scale subresource."""

from __future__ import annotations

from tests.conformance.conftest import MERGE, Api, deployment
from tests.conformance.test_apply import owners


def test_status_cannot_be_written_with_the_object(api: Api) -> None:
    document = deployment("web", replicas=1) | {"status": {"replicas": 7}}
    made = api.create(api.path("deployments", group="apps/v1"), document)
    assert not made.get("status", {}).get("replicas")
    path = api.path("deployments", "web", group="apps/v1")
    patched = api.patched(path, {"status": {"replicas": 7}, "spec": {"replicas": 2}}, MERGE)
    assert not patched.get("status", {}).get("replicas")
    assert patched["spec"]["replicas"] == 2


def test_spec_cannot_be_written_through_status(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    api.create(api.path("deployments", group="apps/v1"), deployment("web", replicas=1))
    patch = {"status": {"replicas": 3, "observedGeneration": 1}, "spec": {"replicas": 9}}
    patched = api.patched(f"{path}/status", patch, MERGE)
    assert patched["status"]["replicas"] == 3
    assert patched["spec"]["replicas"] == 1
    assert patched["metadata"]["generation"] == 1
    assert api.get(f"{path}/status") == api.get(path)


def test_put_of_status_takes_status_alone(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    made = api.create(api.path("deployments", group="apps/v1"), deployment("web", replicas=1))
    made["spec"]["replicas"] = 5
    made["status"] = {"replicas": 2}
    made["metadata"]["labels"] = {"changed": "yes"}
    answer = api.http.put(f"{path}/status", json=made)
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"]["replicas"] == 2
    assert answer.json()["spec"]["replicas"] == 1
    assert answer.json()["metadata"]["labels"] == {"app": "web"}


def test_status_has_owners_of_its_own(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    api.applied(path, deployment("web"), manager="author")
    status = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "status": {"replicas": 1}}
    applied = api.applied(f"{path}/status", status, manager="controller")
    assert applied["status"]["replicas"] == 1
    entry = next(entry for entry in applied["metadata"]["managedFields"] if entry["manager"] == "controller")
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {"f:status": {"f:replicas": {}}}
    assert "f:status" not in owners(api.applied(path, deployment("web"), manager="author"))["author", "Apply"]
    assert api.get(path)["status"]["replicas"] == 1


def test_status_of_a_missing_object_is_not_found(api: Api) -> None:
    path = api.path("deployments", "gone", "status", group="apps/v1")
    assert api.http.patch(path, json={"status": {}}, headers=MERGE).status_code == 404


def test_kind_without_status_has_no_such_path(api: Api) -> None:
    api.create(api.path("configmaps"), {"metadata": {"name": "a"}})
    assert api.http.get(api.path("configmaps", "a", "status")).status_code == 404


def test_scale_shows_and_sets_replicas(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    api.create(api.path("deployments", group="apps/v1"), deployment("web", replicas=1))
    scale = api.get(f"{path}/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 1}
    assert scale["status"]["selector"] == "app=web"
    scaled = api.patched(f"{path}/scale", {"spec": {"replicas": 4}}, MERGE)
    assert scaled["spec"]["replicas"] == 4
    live = api.get(path)
    assert live["spec"]["replicas"] == 4
    assert live["metadata"]["generation"] == 2
    scaled["spec"]["replicas"] = 2
    assert api.http.put(f"{path}/scale", json=scaled).status_code == 200
    assert api.get(path)["spec"]["replicas"] == 2
    stale = api.http.put(f"{path}/scale", json=scaled | {"spec": {"replicas": 9}})
    assert stale.status_code == 409


def test_negative_scale_is_invalid(api: Api) -> None:
    path = api.path("deployments", "web", "scale", group="apps/v1")
    api.create(api.path("deployments", group="apps/v1"), deployment("web", replicas=1))
    assert api.http.patch(path, json={"spec": {"replicas": -1}}, headers=MERGE).status_code == 422


def test_binding_puts_a_pod_on_a_node_once(api: Api) -> None:
    containers = [{"name": "c", "image": "registry.example.com/c:1"}]
    api.create(api.path("pods"), {"metadata": {"name": "a"}, "spec": {"containers": containers}})
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "n1"},
    }
    path = api.path("pods", "a", "binding")
    assert api.http.post(path, json=binding).status_code == 201
    assert api.get(api.path("pods", "a"))["spec"]["nodeName"] == "n1"
    assert api.http.post(path, json=binding | {"target": {"kind": "Node", "name": "n2"}}).status_code == 409

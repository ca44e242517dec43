"""Deletion: finalizers, preconditions, propagation, grace of pods, namespaces."""

from __future__ import annotations

from typing import Any

from tests.conformance.conftest import MERGE, Api, config_map, deployment


def held(name: str, *finalizers: str) -> dict[str, Any]:
    """A ConfigMap with finalizers."""
    document = config_map(name)
    document["metadata"]["finalizers"] = list(finalizers)
    return document


def test_deletion_answers_status_and_removes(api: Api) -> None:
    made = api.create(api.path("configmaps"), config_map("a"))
    answer = api.http.delete(api.path("configmaps", "a"))
    assert answer.status_code == 200
    assert answer.json()["status"] == "Success"
    assert answer.json()["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert api.http.get(api.path("configmaps", "a")).status_code == 404
    assert api.http.delete(api.path("configmaps", "a")).status_code == 404


def test_finalizer_holds_a_deleted_object_until_it_is_taken_off(api: Api) -> None:
    path = api.path("configmaps", "a")
    api.create(api.path("configmaps"), held("a", "example.com/hold"))
    answer = api.http.delete(path)
    assert answer.status_code == 200
    marked = api.get(path)
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    again = api.http.delete(path)
    assert again.status_code == 200
    assert api.get(path) == marked
    api.patched(path, {"metadata": {"finalizers": None}}, MERGE)
    assert api.http.get(path).status_code == 404


def test_deletion_time_cannot_be_taken_back_nor_finalizers_added(api: Api) -> None:
    path = api.path("configmaps", "a")
    api.create(api.path("configmaps"), held("a", "example.com/hold"))
    api.http.delete(path)
    patched = api.patched(path, {"metadata": {"deletionTimestamp": None}, "data": {"k": "v"}}, MERGE)
    assert patched["metadata"]["deletionTimestamp"]
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    answer = api.http.patch(path, json=more, headers=MERGE)
    assert answer.status_code == 422
    assert "no new finalizers can be added" in answer.json()["message"]
    api.patched(path, {"metadata": {"finalizers": None}}, MERGE)


def test_precondition_on_uid_and_version_protects(api: Api) -> None:
    made = api.create(api.path("configmaps"), config_map("a"))
    for preconditions in ({"uid": "00000000-0000-4000-8000-000000000000"}, {"resourceVersion": "1"}):
        answer = api.http.request("DELETE", api.path("configmaps", "a"), json={"preconditions": preconditions})
        assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    right = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    answer = api.http.request("DELETE", api.path("configmaps", "a"), json={"preconditions": right})
    assert answer.status_code == 200


def test_propagation_policies_become_finalizers(api: Api) -> None:
    collection = api.path("deployments", group="apps/v1")
    for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
        name = finalizer.lower()
        path = api.path("deployments", name, group="apps/v1")
        api.create(collection, deployment(name))
        answer = api.http.request("DELETE", path, json={"propagationPolicy": policy})
        assert answer.status_code == 200, answer.text
        assert api.get(path)["metadata"]["finalizers"] == [finalizer]
        api.patched(path, {"metadata": {"finalizers": None}}, MERGE)
        assert api.http.get(path).status_code == 404
    api.create(collection, deployment("background"))
    api.http.request("DELETE", f"{collection}/background", json={"propagationPolicy": "Background"})
    assert api.http.get(f"{collection}/background").status_code == 404


def test_unknown_propagation_policy_is_invalid(api: Api) -> None:
    api.create(api.path("configmaps"), config_map("a"))
    answer = api.http.request("DELETE", api.path("configmaps", "a"), json={"propagationPolicy": "Sideways"})
    assert answer.status_code == 422


def test_generation_rises_when_deletion_begins(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    document = deployment("web")
    document["metadata"]["finalizers"] = ["example.com/hold"]
    api.create(api.path("deployments", group="apps/v1"), document)
    api.http.delete(path)
    assert api.get(path)["metadata"]["generation"] == 2
    api.patched(path, {"metadata": {"finalizers": None}}, MERGE)


def test_pod_on_a_node_waits_for_its_kubelet(api: Api) -> None:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {
            "nodeName": "n1",
            "terminationGracePeriodSeconds": 7,
            "containers": [{"name": "c", "image": "registry.example.com/c:1"}],
        },
    }
    api.create(api.path("pods"), pod)
    api.http.delete(api.path("pods", "a"))
    marked = api.get(api.path("pods", "a"))
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7
    assert api.http.delete(api.path("pods", "a"), params={"gracePeriodSeconds": "0"}).status_code == 200
    assert api.http.get(api.path("pods", "a")).status_code == 404


def test_pod_without_a_node_goes_at_once(api: Api) -> None:
    containers = [{"name": "c", "image": "registry.example.com/c:1"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers}}
    api.create(api.path("pods"), pod)
    assert api.http.delete(api.path("pods", "a")).status_code == 200
    assert api.http.get(api.path("pods", "a")).status_code == 404


def test_namespace_terminates_until_it_is_finalized(api: Api) -> None:
    path = f"/api/v1/namespaces/{api.namespace}"
    before = api.get(path)
    assert before["spec"]["finalizers"] == ["kubernetes"]
    assert before["status"]["phase"] == "Active"
    assert before["metadata"]["labels"]["kubernetes.io/metadata.name"] == api.namespace
    assert api.http.delete(path).status_code == 200
    marked = api.get(path)
    assert marked["status"]["phase"] == "Terminating"
    refused = api.http.post(api.path("configmaps"), json=config_map("late"))
    assert refused.status_code == 403
    assert "because it is being terminated" in refused.json()["message"]
    marked["spec"]["finalizers"] = []
    assert api.http.put(f"{path}/finalize", json=marked).status_code == 200
    assert api.http.get(path).status_code == 404


def test_owner_references_are_kept(api: Api) -> None:
    owner = api.create(api.path("configmaps"), config_map("owner"))
    owned = config_map("owned")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    owned["metadata"]["ownerReferences"] = [reference]
    made = api.create(api.path("configmaps"), owned)
    assert made["metadata"]["ownerReferences"] == [reference]

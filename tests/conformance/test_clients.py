"""What clients written in Go, Pulumi's provider first of all, rely on beyond the plain verbs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
import yaml

from tests.conformance.conftest import (
    APPLY,
    JSON,
    MERGE,
    STRATEGIC,
    Api,
    config_map,
    deployment,
    eventually,
    widget_crd,
)

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DRY = {"dryRun": "All"}
Request = Callable[[Api, str], httpx2.Response]


def _replace(api: Api, path: str) -> httpx2.Response:
    return api.http.put(path, json=config_map("a", one="2"), params=DRY)


def _apply(api: Api, path: str) -> httpx2.Response:
    return api.apply(path, config_map("a", one="2"), force="true", **DRY)


def _delete(api: Api, path: str) -> httpx2.Response:
    return api.http.request("DELETE", path, json={"dryRun": ["All"], "propagationPolicy": "Foreground"})


def _delete_all(api: Api, path: str) -> httpx2.Response:
    return api.http.request("DELETE", path.rpartition("/")[0], params=DRY)


def _patch(body: Any, headers: dict[str, str]) -> Request:
    return lambda api, path: api.http.patch(path, json=body, headers=headers, params=DRY)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(_replace, id="put"),
        pytest.param(_apply, id="apply"),
        pytest.param(_patch({"data": {"one": "2"}}, MERGE), id="merge-patch"),
        pytest.param(_patch({"data": {"one": "2"}}, STRATEGIC), id="strategic-patch"),
        pytest.param(_patch([{"op": "replace", "path": "/data/one", "value": "2"}], JSON), id="json-patch"),
        pytest.param(_delete, id="delete"),
        pytest.param(_delete_all, id="delete-collection"),
    ],
)
def test_dry_run_of_every_verb_changes_nothing(api: Api, request_: Request) -> None:
    path = api.path("configmaps", "a")
    made = api.create(api.path("configmaps"), config_map("a", one="1"))
    assert request_(api, path).status_code == 200
    assert api.get(path) == made


def test_dry_run_of_a_subresource_changes_nothing(api: Api) -> None:
    made = api.create(api.path("deployments", group="apps/v1"), deployment("web", replicas=1))
    scale, state = (api.path("deployments", "web", name, group="apps/v1") for name in ("scale", "status"))
    assert api.http.patch(scale, json={"spec": {"replicas": 5}}, headers=MERGE, params=DRY).json()["spec"] == {
        "replicas": 5
    }
    assert api.http.patch(state, json={"status": {"replicas": 5}}, headers=MERGE, params=DRY).status_code == 200
    assert api.get(api.path("deployments", "web", group="apps/v1")) == made


def test_dry_run_of_a_creation_answers_what_would_be(api: Api) -> None:
    answer = api.http.post(api.path("configmaps"), json=config_map("a"), params=DRY | {"fieldValidation": "Strict"})
    assert answer.status_code == 201
    assert answer.json()["metadata"]["uid"]
    assert api.http.get(api.path("configmaps", "a")).status_code == 404


def test_dry_run_in_a_namespace_that_is_not_there_names_its_kind(api: Api) -> None:
    path = "/api/v1/namespaces/nowhere/configmaps"
    for answer in (
        api.http.post(path, json=config_map("a"), params=DRY),
        api.apply(f"{path}/a", config_map("a"), **DRY),
    ):
        assert answer.status_code == 404
        assert answer.json()["details"] == {"name": "nowhere", "kind": "namespaces"}


def test_missing_object_says_what_it_is(api: Api) -> None:
    answer = api.http.get(api.path("deployments", "gone", group="apps/v1"))
    assert answer.json()["details"] == {"name": "gone", "group": "apps", "kind": "deployments"}


@pytest.mark.parametrize(
    ("plural", "group", "document", "change"),
    [
        (
            "deployments",
            "apps/v1",
            deployment("a"),
            {
                "spec": {
                    "selector": {"matchLabels": {"app": "b"}},
                    "template": {"metadata": {"labels": {"app": "b"}}},
                }
            },
        ),
        (
            "jobs",
            "batch/v1",
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "a"},
                "spec": {
                    "template": {
                        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x.example.com/c:1"}]}
                    }
                },
            },
            {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x.example.com/c:2"}]}}}},
        ),
        ("secrets", "v1", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}, {"type": "example.com/x"}),
        ("configmaps", "v1", config_map("a", one="1") | {"immutable": True}, {"data": {"one": "2"}}),
    ],
)
def test_immutable_field_is_refused_in_the_words_that_clients_look_for(
    api: Api, plural: str, group: str, document: dict[str, Any], change: dict[str, Any]
) -> None:
    api.create(api.path(plural, group=group), document)
    path = api.path(plural, "a", group=group)
    answer = api.http.patch(path, json=change, headers=STRATEGIC, params=DRY)
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    assert "field is immutable" in answer.json()["message"]


def test_definition_is_replaced_from_the_version_that_was_read(api: Api, unique: str) -> None:
    group = f"{unique}.example.com"
    api.create(CRDS, widget_crd(group))
    path = f"{CRDS}/widgets.{group}"
    wanted = widget_crd(group, more={"type": "string"})
    refused = api.http.put(path, json=wanted)
    assert (refused.status_code, refused.json()["reason"]) == (422, "Invalid")
    assert "metadata.resourceVersion" in refused.json()["message"]

    def replaced() -> bool:  # the server itself writes the status meanwhile
        live = api.get(path)
        document = wanted | {"metadata": wanted["metadata"] | {"resourceVersion": live["metadata"]["resourceVersion"]}}
        return api.http.put(path, json=document).status_code == 200

    eventually(replaced)
    properties = api.get(path)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert properties["more"] == {"type": "string"}
    api.http.delete(path)


def test_applied_text_is_yaml_and_comes_back_unchanged(api: Api) -> None:
    text = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}, annotations: {example.com/empty: "", example.com/number: "0644"}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: registry.example.com/web:1
          resources: {limits: {cpu: 500m, memory: 1Gi}}
          env: [{name: A, value: ""}]
"""
    path = api.path("deployments", "web", group="apps/v1")

    def apply() -> dict[str, Any]:
        answer = api.http.patch(path, content=text.encode(), headers=APPLY, params={"fieldManager": "pulumi-1"})
        assert answer.status_code in (200, 201), answer.text
        found: dict[str, Any] = answer.json()
        return found

    made = apply()
    wanted = yaml.safe_load(text)
    assert made["metadata"]["annotations"] == wanted["metadata"]["annotations"]
    assert made["spec"]["replicas"] == 0
    container = made["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"] == wanted["spec"]["template"]["spec"]["containers"][0]["resources"]
    again = apply()
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    for entry in again["metadata"]["managedFields"]:
        assert entry["fieldsType"] == "FieldsV1"
        assert all(key == "." or key[:2] in ("f:", "k:", "v:") for key in entry["fieldsV1"])


def test_patch_of_fields_alone_gives_all_others_up(api: Api) -> None:
    path = api.path("configmaps", "a")
    api.applied(path, config_map("a", one="1"), manager="pulumi-1")
    api.patched(path, {"data": {"two": "2"}}, MERGE, fieldManager="other")
    left = api.applied(path, config_map("a"), manager="pulumi-1")
    assert left["data"] == {"two": "2"}
    assert [entry["manager"] for entry in left["metadata"]["managedFields"]] == ["other"]


def test_deletion_of_what_is_gone_is_not_found(api: Api) -> None:
    assert api.http.delete(api.path("configmaps", "gone")).status_code == 404
    assert api.http.delete(f"/apis/nobody.example.com/v1/namespaces/{api.namespace}/things/one").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "api/v1/pods",
        "apis/apps/v1/replicasets",
        "api/v1/persistentvolumeclaims",
        "api/v1/events",
        "api/v1/endpoints",
        "apis/networking.k8s.io/v1/ingresses",
        "api/v1/services",
    ],
)
def test_informers_begin_with_a_watch_of_everything(api: Api, path: str) -> None:
    root, _, plural = path.rpartition("/")
    parameters = {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "10",
        "timeout": "10s",
    }
    with api.http.stream("GET", f"/{root}/namespaces/{api.namespace}/{plural}", params=parameters) as stream:
        assert stream.status_code == 200
        event = json.loads(next(stream.iter_lines()))
    if "RequestWatchProgress" in event["object"].get("message", ""):
        pytest.skip("needs etcd: one of 3.5.13 or newer beside the kube-apiserver")
    assert event["type"] == "BOOKMARK"
    assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert event["object"]["kind"] == api.get(f"/{root}/namespaces/{api.namespace}/{plural}")["kind"].removesuffix(
        "List"
    )


def test_informers_that_know_a_version_get_what_is_there_and_a_bookmark_not_older(api: Api) -> None:
    api.create(api.path("configmaps"), config_map("a"))
    version = api.get(api.path("configmaps"))["metadata"]["resourceVersion"]
    parameters = {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "fieldSelector": "metadata.name=a",
    }
    events = []
    with api.http.stream("GET", api.path("configmaps"), params=parameters) as stream:
        for line in stream.iter_lines():
            events.append(json.loads(line))
            if events[-1]["type"] != "ADDED":
                break
    if "RequestWatchProgress" in events[-1]["object"].get("message", ""):
        pytest.skip("needs etcd: one of 3.5.13 or newer beside the kube-apiserver")
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert int(events[-1]["object"]["metadata"]["resourceVersion"]) >= int(version)


def test_informers_that_fall_back_list_from_version_zero_in_pages(api: Api) -> None:
    for name in ("a", "b", "c"):
        api.create(api.path("configmaps"), config_map(name))
    listed = api.get(api.path("configmaps"), limit="500", resourceVersion="0")
    assert {"a", "b", "c"} <= {item["metadata"]["name"] for item in listed["items"]}
    first = api.get(api.path("configmaps"), limit="2")
    rest = api.get(api.path("configmaps"), **{"limit": "2", "continue": first["metadata"]["continue"]})
    names = [item["metadata"]["name"] for page in (first, rest) for item in page["items"]]
    assert names == sorted(names)
    assert {"a", "b", "c"} <= set(names)


def test_event_of_an_object_is_found_by_its_uid(api: Api) -> None:
    made = api.create(api.path("configmaps"), config_map("a"))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1", "namespace": api.namespace},
        "involvedObject": {
            "kind": "ConfigMap",
            "name": "a",
            "namespace": api.namespace,
            "uid": made["metadata"]["uid"],
        },
        "reason": "Told",
        "message": "something",
        "type": "Warning",
    }
    api.create(api.path("events"), event)
    selector = f"involvedObject.uid={made['metadata']['uid']},type=Warning"
    assert len(api.get(api.path("events"), fieldSelector=selector)["items"]) == 1
    assert api.get(api.path("events"), fieldSelector="involvedObject.uid=other")["items"] == []


def test_quota_status_is_written_by_whoever_counts(api: Api) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "9"}}}
    api.create(api.path("resourcequotas"), quota)
    path = api.path("resourcequotas", "q", "status")
    changed = api.patched(path, {"status": {"hard": {"pods": "9"}, "used": {"pods": "0"}}}, MERGE)
    assert changed["status"]["hard"] == changed["spec"]["hard"]


def test_version_is_new_enough_not_to_wait_for_token_secrets(api: Api) -> None:
    version = api.get("/version")
    assert (int(version["major"]), int(version["minor"].rstrip("+"))) >= (1, 24)


def test_service_account_is_given_a_token_that_ends(api: Api) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    api.create(api.path("serviceaccounts"), account)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    made = api.create(api.path("serviceaccounts", "robot", "token"), request)
    assert made["kind"] == "TokenRequest"
    assert made["status"]["token"]
    assert made["status"]["expirationTimestamp"].endswith("Z")
    short = request | {"spec": {"expirationSeconds": 5}}
    assert api.http.post(api.path("serviceaccounts", "robot", "token"), json=short).status_code == 422
    assert api.http.post(api.path("serviceaccounts", "gone", "token"), json=request).status_code == 404

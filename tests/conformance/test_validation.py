"""What is refused because of its content, and how strictly."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import MERGE, Api, config_map, deployment

UNKNOWN: dict[str, Any] = deployment("web") | {"metadata": {"name": "web"}}
UNKNOWN["spec"] = UNKNOWN["spec"] | {"replicaz": 3}


def test_strict_validation_refuses_an_unknown_field(api: Api) -> None:
    path = api.path("deployments", group="apps/v1")
    answer = api.http.post(path, json=UNKNOWN, params={"fieldValidation": "Strict"})
    assert answer.status_code == 400
    assert 'unknown field "spec.replicaz"' in answer.json()["message"]
    assert "strict decoding error" in answer.json()["message"]


def test_warn_validation_tells_of_an_unknown_field_and_drops_it(api: Api) -> None:
    path = api.path("deployments", group="apps/v1")
    answer = api.http.post(path, json=UNKNOWN, params={"fieldValidation": "Warn"})
    assert answer.status_code == 201
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.replicaz\\""'
    assert "replicaz" not in answer.json()["spec"]


def test_ignored_unknown_field_is_dropped_silently(api: Api) -> None:
    path = api.path("deployments", group="apps/v1")
    answer = api.http.post(path, json=UNKNOWN, params={"fieldValidation": "Ignore"})
    assert answer.status_code == 201
    assert "Warning" not in answer.headers


def test_strict_patch_refuses_an_unknown_field(api: Api) -> None:
    api.create(api.path("deployments", group="apps/v1"), deployment("web"))
    path = api.path("deployments", "web", group="apps/v1")
    answer = api.http.patch(path, json={"spec": {"replicaz": 3}}, headers=MERGE, params={"fieldValidation": "Strict"})
    assert answer.status_code in (400, 422)
    assert 'unknown field "spec.replicaz"' in answer.json()["message"]


def test_apply_refuses_an_unknown_field(api: Api) -> None:
    answer = api.apply(api.path("deployments", "web", group="apps/v1"), UNKNOWN)
    assert answer.status_code in (400, 500)
    assert ".spec.replicaz: field not declared in schema" in answer.json()["message"]


def test_value_of_the_wrong_type_is_a_bad_request(api: Api) -> None:
    answer = api.http.post(api.path("deployments", group="apps/v1"), json=deployment("web", replicas="three"))
    assert answer.status_code == 400
    assert answer.json()["reason"] == "BadRequest"


def test_missing_fields_are_listed_with_their_places(api: Api) -> None:
    document = deployment("web")
    del document["spec"]["selector"]
    del document["spec"]["template"]["spec"]["containers"][0]["name"]
    answer = api.http.post(api.path("deployments", group="apps/v1"), json=document)
    assert answer.status_code == 422
    status = answer.json()
    assert status["reason"] == "Invalid"
    assert status["details"]["kind"] == "Deployment"
    assert status["details"]["group"] == "apps"
    causes = {(cause["field"], cause["reason"]) for cause in status["details"]["causes"]}
    assert ("spec.selector", "FieldValueRequired") in causes
    assert ("spec.template.spec.containers[0].name", "FieldValueRequired") in causes


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "a" * 254])
def test_bad_name_is_invalid(api: Api, name: str) -> None:
    answer = api.http.post(api.path("configmaps"), json=config_map(name))
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][0]["field"] == "metadata.name"


def test_missing_name_is_invalid(api: Api) -> None:
    answer = api.http.post(api.path("configmaps"), json={"metadata": {}})
    assert answer.status_code == 422
    assert "name or generateName is required" in answer.json()["message"]


def test_object_of_another_kind_is_a_bad_request(api: Api) -> None:
    answer = api.http.post(
        api.path("configmaps"), json={"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    )
    assert answer.status_code == 400


def test_object_of_another_namespace_is_a_bad_request(api: Api) -> None:
    document = config_map("a")
    document["metadata"]["namespace"] = "elsewhere"
    assert api.http.post(api.path("configmaps"), json=document).status_code == 400


@pytest.mark.parametrize("body", [b"{", b"[]", b'"text"', b"{]: nonsense"])
def test_body_that_is_no_object_is_a_bad_request(api: Api, body: bytes) -> None:
    answer = api.http.post(api.path("configmaps"), content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["kind"] == "Status"


def test_body_over_the_limit_is_refused(api: Api) -> None:
    answer = api.http.post(api.path("configmaps"), json=config_map("big", key="x" * (3 * 1024 * 1024 + 1)))
    assert answer.status_code == 413
    assert answer.json()["kind"] == "Status"


def test_labels_must_be_texts(api: Api) -> None:
    document = config_map("a")
    document["metadata"]["labels"] = {"count": 1}
    assert api.http.post(api.path("configmaps"), json=document).status_code == 400


def test_null_means_absent(api: Api) -> None:
    made = api.create(api.path("deployments", group="apps/v1"), deployment("web", minReadySeconds=None))
    assert "minReadySeconds" not in made["spec"]


@pytest.mark.parametrize("parameters", [{"dryRun": "Some"}, {"fieldValidation": "Maybe"}, {"fieldManager": "x" * 200}])
def test_options_outside_their_values_are_invalid(api: Api, parameters: dict[str, str]) -> None:
    answer = api.http.post(api.path("configmaps"), json=config_map("a"), params=parameters)
    assert answer.status_code == 422


def test_method_that_a_resource_does_not_have(api: Api) -> None:
    assert api.http.put(api.path("configmaps"), json=config_map("a")).status_code == 405
    assert api.http.post(api.path("configmaps", "a"), json=config_map("a")).status_code == 405


@pytest.mark.parametrize("label", [{"a b": "x"}, {"a": "x y"}, {"a": "x" * 64}, {"/a": "x"}, {"-a": "x"}])
def test_labels_must_be_well_formed(api: Api, label: dict[str, str]) -> None:
    document = config_map("a")
    document["metadata"]["labels"] = label
    answer = api.http.post(api.path("configmaps"), json=document)
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][0]["field"] == "metadata.labels"


def test_selector_must_match_the_labels_of_the_template(api: Api) -> None:
    document = deployment("web", selector={"matchLabels": {"app": "other"}})
    answer = api.http.post(api.path("deployments", group="apps/v1"), json=document)
    assert answer.status_code == 422
    assert "`selector` does not match template `labels`" in answer.json()["message"]


def test_pod_needs_a_container(api: Api) -> None:
    answer = api.http.post(api.path("pods"), json={"metadata": {"name": "a"}, "spec": {"containers": []}})
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][0]["field"] == "spec.containers"

"""Create, read, update, delete: what the server adds, and what it refuses."""

from __future__ import annotations

from datetime import datetime

from tests.conformance.conftest import MERGE, Api, config_map, deployment


def test_created_object_gets_uid_version_and_time(api: Api) -> None:
    made = api.create(api.path("configmaps"), config_map("a", key="value"))
    metadata = made["metadata"]
    assert len(metadata["uid"]) == 36
    assert int(metadata["resourceVersion"]) > 0
    assert datetime.fromisoformat(metadata["creationTimestamp"]).tzinfo is not None
    assert metadata["namespace"] == api.namespace
    assert api.get(api.path("configmaps", "a")) == made


def test_generated_name_starts_with_its_base(api: Api) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "part-"}}
    names = {api.create(api.path("configmaps"), document)["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("part-") and len(name) == 10 for name in names)


def test_second_create_of_a_name_is_a_conflict_that_names_it(api: Api) -> None:
    api.create(api.path("configmaps"), config_map("a"))
    answer = api.http.post(api.path("configmaps"), json=config_map("a"))
    assert answer.status_code == 409
    assert answer.json()["reason"] == "AlreadyExists"
    assert answer.json()["details"] == {"name": "a", "kind": "configmaps"}
    assert answer.json()["message"] == 'configmaps "a" already exists'


def test_missing_object_is_not_found_with_kind_and_group(api: Api) -> None:
    answer = api.http.get(api.path("deployments", "gone", group="apps/v1"))
    assert answer.status_code == 404
    status = answer.json()
    assert status["kind"] == "Status"
    assert status["reason"] == "NotFound"
    assert status["details"] == {"name": "gone", "group": "apps", "kind": "deployments"}
    assert status["message"] == 'deployments.apps "gone" not found'


def test_create_in_a_namespace_that_is_not_there_names_namespaces(api: Api) -> None:
    answer = api.http.post("/api/v1/namespaces/nowhere/configmaps", json=config_map("a"))
    assert answer.status_code == 404
    assert answer.json()["details"]["kind"] == "namespaces"


def test_unknown_path_is_not_found(api: Api) -> None:
    assert api.http.get("/apis/nothing.example.com/v1/things").status_code == 404
    assert api.http.get(api.path("nothings")).status_code == 404


def test_update_from_a_stale_version_is_a_conflict(api: Api) -> None:
    made = api.create(api.path("configmaps"), config_map("a", key="1"))
    api.patched(api.path("configmaps", "a"), {"data": {"key": "2"}}, MERGE)
    answer = api.http.put(api.path("configmaps", "a"), json=made | {"data": {"key": "3"}})
    assert answer.status_code == 409
    assert answer.json()["reason"] == "Conflict"
    assert "the object has been modified" in answer.json()["message"]
    assert api.get(api.path("configmaps", "a"))["data"] == {"key": "2"}


def test_patch_with_a_stale_version_is_a_conflict(api: Api) -> None:
    made = api.create(api.path("configmaps"), config_map("a", key="1"))
    api.patched(api.path("configmaps", "a"), {"data": {"key": "2"}}, MERGE)
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"key": "3"}}
    answer = api.http.patch(api.path("configmaps", "a"), json=stale, headers=MERGE)
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")


def test_update_keeps_what_only_the_server_writes(api: Api) -> None:
    made = api.create(api.path("configmaps"), config_map("a", key="1"))
    changed = config_map("a", key="2")
    changed["metadata"] |= {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 77}
    updated = api.http.put(api.path("configmaps", "a"), json=changed).json()
    assert updated["metadata"]["uid"] == made["metadata"]["uid"]
    assert updated["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert int(updated["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def test_update_with_another_uid_is_a_conflict(api: Api) -> None:
    made = api.create(api.path("configmaps"), config_map("a"))
    made["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
    answer = api.http.put(api.path("configmaps", "a"), json=made)
    assert answer.status_code == 409


def test_update_under_another_name_is_refused(api: Api) -> None:
    api.create(api.path("configmaps"), config_map("a"))
    assert api.http.put(api.path("configmaps", "a"), json=config_map("b")).status_code == 400


def test_update_that_changes_nothing_keeps_the_version(api: Api) -> None:
    made = api.create(api.path("configmaps"), config_map("a", key="1"))
    again = api.http.put(api.path("configmaps", "a"), json=made).json()
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    patched = api.patched(api.path("configmaps", "a"), {"data": {"key": "1"}}, MERGE)
    assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_generation_counts_changes_of_the_spec_only(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    made = api.create(api.path("deployments", group="apps/v1"), deployment("web", replicas=1))
    assert made["metadata"]["generation"] == 1
    labelled = api.patched(path, {"metadata": {"labels": {"more": "yes"}}}, MERGE)
    assert labelled["metadata"]["generation"] == 1
    scaled = api.patched(path, {"spec": {"replicas": 2}}, MERGE)
    assert scaled["metadata"]["generation"] == 2


def test_dry_run_answers_and_stores_nothing(api: Api) -> None:
    shown = api.create(api.path("configmaps"), config_map("a"), dryRun="All")
    assert shown["metadata"]["uid"]
    assert api.http.get(api.path("configmaps", "a")).status_code == 404
    made = api.create(api.path("configmaps"), config_map("a", key="1"))
    patched = api.patched(api.path("configmaps", "a"), {"data": {"key": "2"}}, MERGE, dryRun="All")
    assert patched["data"] == {"key": "2"}
    assert api.http.delete(api.path("configmaps", "a"), params={"dryRun": "All"}).status_code == 200
    assert api.get(api.path("configmaps", "a")) == made


def test_versions_grow_over_all_kinds(api: Api) -> None:
    first = api.create(api.path("configmaps"), config_map("a"))
    second = api.create(api.path("secrets"), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


def test_text_of_a_secret_is_stored_as_data(api: Api) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"key": "text"}}
    made = api.create(api.path("secrets"), secret)
    assert made["data"] == {"key": "dGV4dA=="}
    assert made["type"] == "Opaque"
    assert "stringData" not in made


def test_immutable_fields_refuse_a_change(api: Api) -> None:
    api.create(api.path("deployments", group="apps/v1"), deployment("web"))
    change = {"spec": {"selector": {"matchLabels": {"app": "other"}}}}
    answer = api.http.patch(api.path("deployments", "web", group="apps/v1"), json=change, headers=MERGE)
    assert answer.status_code == 422
    assert "field is immutable" in answer.json()["message"]


def test_body_in_yaml_is_understood(api: Api) -> None:
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  key: 'on'\n"
    answer = api.http.post(api.path("configmaps"), content=body, headers={"Content-Type": "application/yaml"})
    assert answer.status_code == 201, answer.text
    assert api.get(api.path("configmaps", "a"))["data"] == {"key": "on"}


def test_body_that_is_not_coded_as_its_header_says_is_a_bad_request(api: Api) -> None:
    answer = api.http.post(api.path("configmaps"), content=b"not gzip", headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 400

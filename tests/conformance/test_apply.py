"""Server-side apply: owners of fields, merging of lists and maps, conflicts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import APPLY, JSON, MERGE, Api, config_map, deployment


def owners(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """fieldsV1 by manager and operation."""
    entries = document["metadata"].get("managedFields", [])
    return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in entries}


def test_apply_creates_and_owns_what_it_says(api: Api) -> None:
    answer = api.apply(api.path("configmaps", "a"), config_map("a", one="1"), manager="first")
    assert answer.status_code == 201
    entry = answer.json()["metadata"]["managedFields"][0]
    assert entry["manager"] == "first"
    assert entry["operation"] == "Apply"
    assert entry["apiVersion"] == "v1"
    assert entry["fieldsType"] == "FieldsV1"
    assert entry["fieldsV1"] == {"f:data": {"f:one": {}}}


def test_applying_twice_moves_nothing(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    first = api.applied(path, deployment("web"))
    assert api.applied(path, deployment("web")) == first
    assert api.get(path) == first


def test_a_manager_takes_away_only_what_it_applied(api: Api) -> None:
    path = api.path("configmaps", "a")
    api.applied(path, config_map("a", one="1", two="2"), manager="first")
    api.applied(path, config_map("a", three="3"), manager="second")
    left = api.applied(path, config_map("a", one="1"), manager="first")
    assert left["data"] == {"one": "1", "three": "3"}
    assert owners(left)["second", "Apply"] == {"f:data": {"f:three": {}}}


def test_another_manager_changing_a_value_is_a_conflict_with_causes(api: Api) -> None:
    path = api.path("configmaps", "a")
    api.applied(path, config_map("a", one="1", two="2"), manager="first")
    answer = api.apply(path, config_map("a", one="x", two="y"), manager="second")
    assert answer.status_code == 409
    status = answer.json()
    assert status["reason"] == "Conflict"
    assert "Apply failed with 2 conflicts" in status["message"]
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "first"', "field": ".data.one"},
        {"reason": "FieldManagerConflict", "message": 'conflict with "first"', "field": ".data.two"},
    ]
    assert api.get(path)["data"] == {"one": "1", "two": "2"}


def test_force_takes_a_field_over(api: Api) -> None:
    path = api.path("configmaps", "a")
    api.applied(path, config_map("a", one="1", two="2"), manager="first")
    forced = api.applied(path, config_map("a", one="x"), manager="second", force="true")
    assert forced["data"] == {"one": "x", "two": "2"}
    assert owners(forced)["first", "Apply"] == {"f:data": {"f:two": {}}}
    assert owners(forced)["second", "Apply"] == {"f:data": {"f:one": {}}}


def test_same_value_is_owned_by_both(api: Api) -> None:
    path = api.path("configmaps", "a")
    api.applied(path, config_map("a", one="1"), manager="first")
    api.applied(path, config_map("a", one="1"), manager="second")
    left = api.applied(path, config_map("a"), manager="first")
    assert left["data"] == {"one": "1"}
    gone = api.applied(path, config_map("a"), manager="second")
    assert not gone.get("data")


def test_update_by_others_is_a_conflict_for_the_next_apply(api: Api) -> None:
    path = api.path("configmaps", "a")
    api.applied(path, config_map("a", one="1"), manager="first")
    patched = api.patched(path, {"data": {"one": "2"}}, MERGE, fieldManager="editor")
    assert owners(patched)["editor", "Update"] == {"f:data": {"f:one": {}}}
    assert ("first", "Apply") not in owners(patched)
    answer = api.apply(path, config_map("a", one="1"), manager="first")
    assert answer.status_code == 409
    assert answer.json()["details"]["causes"][0]["message"] == 'conflict with "editor" using v1'


def test_list_items_are_merged_by_their_keys(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    api.applied(path, deployment("web"), manager="first")
    sidecar = {"name": "sidecar", "image": "registry.example.com/sidecar:1"}
    extra: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [sidecar]}}},
    }
    both = api.applied(path, extra, manager="second")
    assert {entry["name"] for entry in both["spec"]["template"]["spec"]["containers"]} == {"web", "sidecar"}
    extra["spec"]["template"]["spec"]["containers"] = [{"name": "web", "workingDir": "/srv"}]
    one = api.applied(path, extra, manager="second")
    containers = one["spec"]["template"]["spec"]["containers"]
    assert [entry["name"] for entry in containers] == ["web"]
    assert containers[0]["workingDir"] == "/srv"
    assert containers[0]["image"] == "registry.example.com/web:1"


def test_owned_items_are_written_with_all_keys(api: Api) -> None:
    made = api.applied(api.path("deployments", "web", group="apps/v1"), deployment("web"), manager="first")
    pod = owners(made)["first", "Apply"]["f:spec"]["f:template"]["f:spec"]
    container = pod["f:containers"]['k:{"name":"web"}']
    assert container["."] == {}
    assert container["f:image"] == {}
    assert container["f:ports"]['k:{"containerPort":80,"protocol":"TCP"}']["f:containerPort"] == {}


def test_what_nobody_stated_is_owned_by_nobody(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    made = api.applied(path, deployment("web"), manager="first")
    assert made["spec"]["replicas"] == 1
    assert "f:replicas" not in owners(made)["first", "Apply"]["f:spec"]
    scaled = api.patched(path, {"spec": {"replicas": 4}}, MERGE, fieldManager="scaler")
    assert scaled["spec"]["replicas"] == 4
    assert api.applied(path, deployment("web"), manager="first")["spec"]["replicas"] == 4


def test_atomic_list_is_replaced_as_one(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    document = deployment("web")
    document["spec"]["template"]["spec"]["containers"][0]["args"] = ["a", "b"]
    api.applied(path, document, manager="first")
    document["spec"]["template"]["spec"]["containers"][0]["args"] = ["c"]
    changed = api.applied(path, document, manager="first")
    assert changed["spec"]["template"]["spec"]["containers"][0]["args"] == ["c"]
    assert api.apply(path, document | {"spec": deployment("web")["spec"]}, manager="second").status_code == 200


def test_set_of_scalars_is_joined(api: Api) -> None:
    path = api.path("configmaps", "a")
    first = config_map("a")
    first["metadata"]["finalizers"] = ["example.com/one"]
    second = config_map("a")
    second["metadata"]["finalizers"] = ["example.com/two"]
    api.applied(path, first, manager="first")
    both = api.applied(path, second, manager="second")
    assert sorted(both["metadata"]["finalizers"]) == ["example.com/one", "example.com/two"]
    assert owners(both)["first", "Apply"] == {"f:metadata": {"f:finalizers": {'v:"example.com/one"': {}}}}
    left = api.applied(path, config_map("a"), manager="first")
    assert left["metadata"]["finalizers"] == ["example.com/two"]
    api.applied(path, config_map("a"), manager="second")


def test_apply_needs_a_manager(api: Api) -> None:
    answer = api.http.patch(api.path("configmaps", "a"), json=config_map("a"), headers=APPLY)
    assert answer.status_code in (400, 422)
    assert "is required for apply patch" in answer.json()["message"]


def test_apply_of_a_stale_version_is_a_conflict(api: Api) -> None:
    path = api.path("configmaps", "a")
    made = api.applied(path, config_map("a", one="1"))
    api.applied(path, config_map("a", one="2"))
    stale = config_map("a", one="3")
    stale["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    answer = api.apply(path, stale)
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")


def test_apply_with_managed_fields_is_refused(api: Api) -> None:
    path = api.path("configmaps", "a")
    made = api.applied(path, config_map("a", one="1"))
    answer = api.apply(path, made)
    assert answer.status_code == 400
    assert "managedFields must be nil" in answer.json()["message"]


def test_apply_in_yaml_and_with_a_dry_run(api: Api) -> None:
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: {api.namespace}}}\ndata: {{k: v}}\n"
    for parameters, status in (({"dryRun": "All"}, 404), ({}, 200)):
        answer = api.http.patch(
            api.path("configmaps", "a"), content=body, headers=APPLY, params={"fieldManager": "m"} | parameters
        )
        assert answer.is_success, answer.text
        assert api.http.get(api.path("configmaps", "a")).status_code == status


def test_managed_fields_can_be_erased_and_begin_anew(api: Api) -> None:
    path = api.path("configmaps", "a")
    api.applied(path, config_map("a", one="1"), manager="first")
    erased = api.patched(path, {"metadata": {"managedFields": [{}]}}, MERGE)
    assert "managedFields" not in erased["metadata"]
    again = api.applied(path, config_map("a", two="2"), manager="second")
    assert again["data"] == {"one": "1", "two": "2"}
    assert owners(again)["before-first-apply", "Update"] == {"f:data": {".": {}, "f:one": {}}} or owners(again)[
        "before-first-apply", "Update"
    ] == {"f:data": {"f:one": {}}}
    assert owners(again)["second", "Apply"] == {"f:data": {"f:two": {}}}


def test_managed_fields_can_be_rewritten_by_a_json_patch(api: Api) -> None:
    path = api.path("configmaps", "a")
    api.create(api.path("configmaps"), config_map("a", one="1"), fieldManager="old")
    made = api.get(path)
    entries = [entry | {"manager": "new"} for entry in made["metadata"]["managedFields"]]
    operations = [
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]},
    ]
    changed = api.patched(path, operations, JSON)
    assert ("new", "Update") in owners(changed)
    assert ("old", "Update") not in owners(changed)


def test_giving_everything_up_keeps_what_is_required_by_others(api: Api) -> None:
    path = api.path("configmaps", "a")
    api.create(api.path("configmaps"), config_map("a", one="1"), fieldManager="maker")
    api.applied(path, config_map("a", two="2"), manager="second")
    bare = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    left = api.applied(path, bare, manager="second")
    assert left["data"] == {"one": "1"}
    assert ("second", "Apply") not in owners(left)


def test_labels_and_annotations_of_several_managers_live_together(api: Api) -> None:
    path = api.path("configmaps", "a")
    first = config_map("a")
    first["metadata"]["labels"] = {"one": "1"}
    second = config_map("a")
    second["metadata"] |= {"labels": {"two": "2"}, "annotations": {"note": "x"}}
    api.applied(path, first, manager="first")
    both = api.applied(path, second, manager="second")
    assert both["metadata"]["labels"] == {"one": "1", "two": "2"}
    left = api.applied(path, config_map("a"), manager="second")
    assert left["metadata"]["labels"] == {"one": "1"}
    assert not left["metadata"].get("annotations")


@pytest.mark.parametrize("order", [["a", "b", "c"], ["c", "a", "b"]])
def test_items_stand_in_the_order_of_the_apply(api: Api, order: list[str]) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    document = deployment("web")
    api.applied(path, document)
    containers = [{"name": name, "image": f"registry.example.com/{name}:1"} for name in order]
    document["spec"]["template"]["spec"]["containers"] = containers
    changed = api.applied(path, document)
    assert [entry["name"] for entry in changed["spec"]["template"]["spec"]["containers"]] == order
    document["spec"]["template"]["spec"]["containers"] = containers[::-1]
    turned = api.applied(path, document)
    assert [entry["name"] for entry in turned["spec"]["template"]["spec"]["containers"]] == order[::-1]

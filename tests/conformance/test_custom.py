"""Custom kinds: served as soon as their definition stands, with its schema, subresources and list types."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.conftest import MERGE, STRATEGIC, Api, widget_crd

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def group(api: Api, unique: str) -> Iterator[str]:
    """An API group of its own that serves Widgets."""
    name = f"{unique}.example.com"
    api.create(_CRDS, widget_crd(name))
    _await_served(api, name)
    yield name
    api.http.delete(f"{_CRDS}/widgets.{name}")


def _await_served(api: Api, group: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        crd = api.get(f"{_CRDS}/widgets.{group}")
        established = {c["type"] for c in (crd.get("status", {}).get("conditions") or []) if c["status"] == "True"}
        if "Established" in established and api.http.get(f"/apis/{group}/v1/widgets").status_code == 200:
            return
        time.sleep(0.05)
    raise AssertionError("the kind is not served")


def widget(group: str, name: str, **spec: Any) -> dict[str, Any]:
    """A Widget."""
    return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def test_definition_makes_its_kind_served(api: Api, group: str) -> None:
    path = api.path("widgets", group=f"{group}/v1")
    made = api.create(path, widget(group, "a", size=2))
    assert made["metadata"]["generation"] == 1
    assert api.get(path)["kind"] == "WidgetList"
    crd = api.get(f"{_CRDS}/widgets.{group}")
    assert crd["status"]["acceptedNames"]["plural"] == "widgets"
    assert crd["status"]["storedVersions"] == ["v1"]


def test_defaults_of_the_schema_are_filled_in(api: Api, group: str) -> None:
    made = api.create(api.path("widgets", group=f"{group}/v1"), widget(group, "a", size=2))
    assert made["spec"]["colour"] == "red"


def test_unknown_fields_are_pruned_except_in_open_parts(api: Api, group: str) -> None:
    document = widget(group, "a", size=2, wrong=1, free={"any": {"thing": [1]}})
    made = api.create(api.path("widgets", group=f"{group}/v1"), document, fieldValidation="Ignore")
    assert "wrong" not in made["spec"]
    assert made["spec"]["free"] == {"any": {"thing": [1]}}
    document["metadata"]["name"] = "b"
    strict = api.http.post(
        api.path("widgets", group=f"{group}/v1"), json=document, params={"fieldValidation": "Strict"}
    )
    assert strict.status_code == 400
    assert 'unknown field "spec.wrong"' in strict.json()["message"]


def test_values_are_checked_all_at_once(api: Api, group: str) -> None:
    document = widget(group, "a", size=0, colour="green", parts=[{"weight": 1}])
    answer = api.http.post(api.path("widgets", group=f"{group}/v1"), json=document)
    assert answer.status_code == 422
    causes = {cause["field"]: cause["reason"] for cause in answer.json()["details"]["causes"]}
    assert causes["spec.size"] == "FieldValueInvalid"
    assert causes["spec.colour"] == "FieldValueNotSupported"
    assert causes["spec.parts[0].name"] == "FieldValueRequired"


def test_wrong_type_in_a_custom_kind_is_invalid(api: Api, group: str) -> None:
    answer = api.http.post(api.path("widgets", group=f"{group}/v1"), json=widget(group, "a", size="two"))
    assert answer.status_code == 422
    cause = answer.json()["details"]["causes"][0]
    assert (cause["field"], cause["reason"]) == ("spec.size", "FieldValueTypeInvalid")


def test_status_is_apart_and_generation_counts_the_spec(api: Api, group: str) -> None:
    path = api.path("widgets", "a", group=f"{group}/v1")
    api.create(api.path("widgets", group=f"{group}/v1"), widget(group, "a", size=2) | {"status": {"phase": "Up"}})
    assert "status" not in api.get(path)
    patched = api.patched(f"{path}/status", {"status": {"phase": "Up"}, "spec": {"size": 9}}, MERGE)
    assert patched["status"] == {"phase": "Up"}
    assert patched["spec"]["size"] == 2
    assert patched["metadata"]["generation"] == 1
    assert api.patched(path, {"spec": {"size": 3}}, MERGE)["metadata"]["generation"] == 2
    labelled = api.patched(path, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert labelled["metadata"]["generation"] == 2


def test_scale_follows_the_paths_of_the_definition(api: Api, group: str) -> None:
    path = api.path("widgets", "a", group=f"{group}/v1")
    api.create(api.path("widgets", group=f"{group}/v1"), widget(group, "a", size=2, replicas=1))
    assert api.get(f"{path}/scale")["spec"]["replicas"] == 1
    api.patched(f"{path}/scale", {"spec": {"replicas": 3}}, MERGE)
    assert api.get(path)["spec"]["replicas"] == 3


def test_apply_merges_keyed_lists_and_sets_of_a_custom_kind(api: Api, group: str) -> None:
    path = api.path("widgets", "a", group=f"{group}/v1")
    first = widget(group, "a", parts=[{"name": "x", "weight": 1}], tags=["one"])
    second = widget(group, "a", parts=[{"name": "y", "weight": 2}], tags=["two"])
    api.applied(path, first, manager="first")
    both = api.applied(path, second, manager="second")
    assert {part["name"] for part in both["spec"]["parts"]} == {"x", "y"}
    assert set(both["spec"]["tags"]) == {"one", "two"}
    second["spec"]["parts"] = [{"name": "x", "weight": 5}]
    answer = api.apply(path, second, manager="second")
    assert answer.status_code == 409
    assert answer.json()["details"]["causes"][0]["field"] == '.spec.parts[name="x"].weight'
    left = api.applied(path, widget(group, "a", tags=["two"]), manager="second")
    assert [part["name"] for part in left["spec"]["parts"]] == ["x"]


def test_items_with_the_same_key_are_refused(api: Api, group: str) -> None:
    parts = [{"name": "x"}, {"name": "x"}]
    answer = api.http.post(api.path("widgets", group=f"{group}/v1"), json=widget(group, "a", parts=parts))
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][0]["reason"] == "FieldValueDuplicate"


def test_put_needs_the_version(api: Api, group: str) -> None:
    path = api.path("widgets", "a", group=f"{group}/v1")
    api.create(api.path("widgets", group=f"{group}/v1"), widget(group, "a", size=2))
    answer = api.http.put(path, json=widget(group, "a", size=3))
    assert answer.status_code == 422
    assert "metadata.resourceVersion" in answer.json()["message"]


def test_strategic_patch_is_not_for_custom_kinds(api: Api, group: str) -> None:
    path = api.path("widgets", "a", group=f"{group}/v1")
    api.create(api.path("widgets", group=f"{group}/v1"), widget(group, "a", size=2))
    assert api.http.patch(path, json={"spec": {"size": 3}}, headers=STRATEGIC).status_code == 415


def test_printer_columns_stand_in_the_table(api: Api, group: str) -> None:
    api.create(api.path("widgets", group=f"{group}/v1"), widget(group, "a", size=2))
    answer = api.http.get(
        api.path("widgets", group=f"{group}/v1"), headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    )
    table = answer.json()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
    assert table["rows"][0]["cells"] == ["a", 2]


def test_deleted_definition_takes_its_objects(api: Api, group: str) -> None:
    api.create(api.path("widgets", group=f"{group}/v1"), widget(group, "a", size=2))
    assert api.http.delete(f"{_CRDS}/widgets.{group}").status_code == 200
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if api.http.get(f"/apis/{group}/v1/widgets").status_code == 404:
            return
        time.sleep(0.05)
    raise AssertionError("the kind is still served")


def test_definition_gains_a_version(api: Api, group: str) -> None:
    crd = api.get(f"{_CRDS}/widgets.{group}")
    second = crd["spec"]["versions"][0] | {"name": "v2", "storage": False}
    crd["spec"]["versions"].append(second)
    api.create(api.path("widgets", group=f"{group}/v1"), widget(group, "a", size=2))
    assert api.http.put(f"{_CRDS}/widgets.{group}", json=crd).status_code == 200
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = api.http.get(api.path("widgets", "a", group=f"{group}/v2"))
        if answer.status_code == 200:
            assert answer.json()["apiVersion"] == f"{group}/v2"
            return
        time.sleep(0.05)
    raise AssertionError("the new version is not served")


def test_definition_that_cannot_be_served_is_refused(api: Api, unique: str) -> None:
    misnamed = widget_crd(f"{unique}.example.com")
    misnamed["metadata"]["name"] = "other.example.com"
    without_storage = widget_crd(f"{unique}.example.com")
    without_storage["spec"]["versions"][0]["storage"] = False
    with_reference = widget_crd(f"{unique}.example.com", broken={"$ref": "#/definitions/none"})
    with_odd_list = widget_crd(f"{unique}.example.com", broken={"type": "array", "x-kubernetes-list-type": "heap"})
    for definition in (misnamed, without_storage, with_reference, with_odd_list):
        answer = api.http.post(_CRDS, json=definition)
        assert answer.status_code == 422, answer.text
    assert api.http.get("/apis").status_code == 200

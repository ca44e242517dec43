"""JSON patch, JSON merge patch and strategic merge patch."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import JSON, MERGE, STRATEGIC, Api, config_map, deployment


def test_json_patch_edits_by_path(api: Api) -> None:
    api.create(api.path("configmaps"), config_map("a", one="1", two="2"))
    operations = [
        {"op": "test", "path": "/data/one", "value": "1"},
        {"op": "replace", "path": "/data/one", "value": "x"},
        {"op": "remove", "path": "/data/two"},
        {"op": "add", "path": "/metadata/labels", "value": {"a/b": "c"}},
        {"op": "copy", "from": "/data/one", "path": "/data/three"},
    ]
    changed = api.patched(api.path("configmaps", "a"), operations, JSON)
    assert changed["data"] == {"one": "x", "three": "x"}
    assert changed["metadata"]["labels"] == {"a/b": "c"}


def test_json_patch_whose_test_fails_changes_nothing(api: Api) -> None:
    api.create(api.path("configmaps"), config_map("a", one="1"))
    operations = [{"op": "test", "path": "/data/one", "value": "2"}, {"op": "remove", "path": "/data/one"}]
    answer = api.http.patch(api.path("configmaps", "a"), json=operations, headers=JSON)
    assert answer.status_code == 422
    assert api.get(api.path("configmaps", "a"))["data"] == {"one": "1"}


def test_json_patch_of_null_changes_nothing(api: Api) -> None:
    made = api.create(api.path("configmaps"), config_map("a", one="1"))
    answer = api.http.patch(api.path("configmaps", "a"), content=b"null", headers=JSON)
    assert answer.status_code == 200
    assert answer.json()["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_malformed_json_patch_is_a_bad_request(api: Api) -> None:
    api.create(api.path("configmaps"), config_map("a", one="1"))
    answer = api.http.patch(api.path("configmaps", "a"), content=b'{"op": "remove"}', headers=JSON)
    assert answer.status_code == 400


def test_merge_patch_removes_by_null(api: Api) -> None:
    api.create(api.path("configmaps"), config_map("a", one="1", two="2"))
    changed = api.patched(api.path("configmaps", "a"), {"data": {"one": None, "two": "x"}}, MERGE)
    assert changed["data"] == {"two": "x"}


def test_merge_patch_replaces_lists(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    api.create(api.path("deployments", group="apps/v1"), deployment("web"))
    containers = [{"name": "other", "image": "registry.example.com/other:1"}]
    changed = api.patched(path, {"spec": {"template": {"spec": {"containers": containers}}}}, MERGE)
    assert [entry["name"] for entry in changed["spec"]["template"]["spec"]["containers"]] == ["other"]


def test_strategic_patch_merges_lists_by_key(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    api.create(api.path("deployments", group="apps/v1"), deployment("web"))
    containers = [{"name": "web", "image": "registry.example.com/web:2"}, {"name": "more", "image": "x.example.com/m"}]
    changed = api.patched(path, {"spec": {"template": {"spec": {"containers": containers}}}}, STRATEGIC)
    found = {entry["name"]: entry for entry in changed["spec"]["template"]["spec"]["containers"]}
    assert found["web"]["image"] == "registry.example.com/web:2"
    assert found["web"]["ports"][0]["containerPort"] == 80
    assert set(found) == {"web", "more"}


def test_strategic_patch_deletes_an_item(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    document = deployment("web")
    document["spec"]["template"]["spec"]["containers"].append({"name": "more", "image": "x.example.com/m"})
    api.create(api.path("deployments", group="apps/v1"), document)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "more", "$patch": "delete"}]}}}}
    changed = api.patched(path, patch, STRATEGIC)
    assert [entry["name"] for entry in changed["spec"]["template"]["spec"]["containers"]] == ["web"]


def test_strategic_patch_replaces_a_map_on_demand(api: Api) -> None:
    document = config_map("a", one="1", two="2")
    api.create(api.path("configmaps"), document)
    patch = {"data": {"$patch": "replace", "three": "3"}}
    assert api.patched(api.path("configmaps", "a"), patch, STRATEGIC)["data"] == {"three": "3"}


def test_strategic_patch_retains_only_named_keys(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    api.create(api.path("deployments", group="apps/v1"), deployment("web", strategy=strategy))
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert api.patched(path, patch, STRATEGIC)["spec"]["strategy"] == {"type": "Recreate"}


def test_strategic_patch_joins_and_deletes_from_primitive_lists(api: Api) -> None:
    document = config_map("a")
    document["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    api.create(api.path("configmaps"), document)
    joined = api.patched(api.path("configmaps", "a"), {"metadata": {"finalizers": ["example.com/three"]}}, STRATEGIC)
    assert len(joined["metadata"]["finalizers"]) == 3
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one"]}}
    left = api.patched(api.path("configmaps", "a"), patch, STRATEGIC)
    assert sorted(left["metadata"]["finalizers"]) == ["example.com/three", "example.com/two"]
    api.patched(api.path("configmaps", "a"), {"metadata": {"finalizers": None}}, MERGE)


def test_strategic_patch_orders_items(api: Api) -> None:
    path = api.path("deployments", "web", group="apps/v1")
    api.create(api.path("deployments", group="apps/v1"), deployment("web"))
    patch = {
        "spec": {
            "template": {
                "spec": {
                    "$setElementOrder/containers": [{"name": "first"}, {"name": "web"}],
                    "containers": [{"name": "first", "image": "x.example.com/f"}],
                }
            }
        }
    }
    changed = api.patched(path, patch, STRATEGIC)
    assert [entry["name"] for entry in changed["spec"]["template"]["spec"]["containers"]] == ["first", "web"]


@pytest.mark.parametrize("media_type", ["application/json", "text/plain"])
def test_other_media_types_are_unsupported(api: Api, media_type: str) -> None:
    api.create(api.path("configmaps"), config_map("a"))
    answer = api.http.patch(api.path("configmaps", "a"), content=b"{}", headers={"Content-Type": media_type})
    assert answer.status_code == 415
    assert answer.json()["reason"] == "UnsupportedMediaType"

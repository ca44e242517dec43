"""Lists: selectors, pages of one moment, collections over all namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import MERGE, Api, config_map


def labelled(name: str, **labels: str) -> dict[str, Any]:
    """A ConfigMap with labels."""
    document = config_map(name)
    document["metadata"]["labels"] = labels
    return document


def names(listed: dict[str, Any]) -> list[str]:
    """The names of a list's items."""
    return [item["metadata"]["name"] for item in listed["items"]]


def test_list_has_kind_version_and_items(api: Api) -> None:
    api.create(api.path("configmaps"), config_map("a"))
    listed = api.get(api.path("configmaps"))
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(listed["metadata"]["resourceVersion"]) > 0
    assert names(listed) == ["a"]


def test_empty_collection_is_an_empty_list(api: Api) -> None:
    assert api.get(api.path("persistentvolumeclaims"))["items"] == []


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=web", ["a", "b"]),
        ("app==web,tier=x", ["a"]),
        ("app!=web", ["c", "d"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c", "d"]),
        ("tier in (x, z)", ["a"]),
        ("tier notin (x)", ["b", "c", "d"]),
        ("app in (web,db),tier!=x", ["b", "c"]),
    ],
)
def test_label_selector_selects(api: Api, selector: str, expected: list[str]) -> None:
    for document in (
        labelled("a", app="web", tier="x"),
        labelled("b", app="web", tier="y"),
        labelled("c", app="db"),
        config_map("d"),
    ):
        api.create(api.path("configmaps"), document)
    assert names(api.get(api.path("configmaps"), labelSelector=selector)) == expected


def test_malformed_selector_is_a_bad_request(api: Api) -> None:
    assert api.http.get(api.path("configmaps"), params={"labelSelector": "a in b"}).status_code == 400
    assert api.http.get(api.path("configmaps"), params={"fieldSelector": "data.key=1"}).status_code == 400


def test_field_selector_finds_by_name(api: Api) -> None:
    for name in ("a", "b"):
        api.create(api.path("configmaps"), config_map(name))
    assert names(api.get(api.path("configmaps"), fieldSelector="metadata.name=b")) == ["b"]
    assert names(api.get(api.path("configmaps"), fieldSelector="metadata.name!=b")) == ["a"]


def test_field_selector_finds_pods_by_node_and_phase(api: Api) -> None:
    for name, node in (("a", "n1"), ("b", "n2")):
        pod: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "registry.example.com/c:1"}]},
        }
        api.create(api.path("pods"), pod)
    api.patched(api.path("pods", "b", "status"), {"status": {"phase": "Running"}}, MERGE)
    assert names(api.get(api.path("pods"), fieldSelector="spec.nodeName=n1")) == ["a"]
    assert names(api.get(api.path("pods"), fieldSelector="status.phase=Running")) == ["b"]
    assert names(api.get(api.path("pods"), fieldSelector="status.phase=Running,spec.nodeName=n1")) == []


def test_events_are_found_by_what_they_are_about(api: Api) -> None:
    for number in (1, 2):
        event: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"e{number}"},
            "involvedObject": {"kind": "Pod", "name": f"p{number}", "namespace": api.namespace, "uid": f"uid-{number}"},
            "reason": "Started",
            "type": "Normal",
        }
        api.create(api.path("events"), event)
    assert names(api.get(api.path("events"), fieldSelector="involvedObject.uid=uid-2")) == ["e2"]


def test_pages_show_one_moment(api: Api) -> None:
    for number in range(5):
        api.create(api.path("configmaps"), config_map(f"a{number}"))
    first = api.get(api.path("configmaps"), limit="2")
    assert names(first) == ["a0", "a1"]
    api.create(api.path("configmaps"), config_map("a2b"))
    assert api.http.delete(api.path("configmaps", "a3")).status_code == 200
    second = api.get(api.path("configmaps"), limit="2", **{"continue": first["metadata"]["continue"]})
    third = api.get(api.path("configmaps"), limit="2", **{"continue": second["metadata"]["continue"]})
    assert names(second) + names(third) == ["a2", "a3", "a4"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert not third["metadata"].get("continue")


def test_pages_of_a_selection_are_full(api: Api) -> None:
    for number in range(6):
        api.create(api.path("configmaps"), labelled(f"a{number}", odd=str(number % 2)))
    first = api.get(api.path("configmaps"), limit="2", labelSelector="odd=1")
    assert names(first) == ["a1", "a3"]
    token = first["metadata"]["continue"]
    rest = api.get(api.path("configmaps"), limit="2", labelSelector="odd=1", **{"continue": token})
    assert names(rest) == ["a5"]


def test_continue_of_somebody_else_is_a_bad_request(api: Api) -> None:
    answer = api.http.get(api.path("configmaps"), params={"continue": "nonsense", "limit": "1"})
    assert answer.status_code == 400


def test_list_over_all_namespaces_has_every_namespace(api: Api, unique: str) -> None:
    api.create(api.path("configmaps"), labelled("a", run=unique))
    other = f"{api.namespace}-other"
    api.create("/api/v1/namespaces", {"metadata": {"name": other}})
    api.create(f"/api/v1/namespaces/{other}/configmaps", labelled("a", run=unique))
    listed = api.get("/api/v1/configmaps", labelSelector=f"run={unique}")
    assert sorted(item["metadata"]["namespace"] for item in listed["items"]) == [api.namespace, other]


def test_deletecollection_removes_the_selected(api: Api) -> None:
    for number in range(4):
        api.create(api.path("configmaps"), labelled(f"a{number}", odd=str(number % 2)))
    assert api.http.delete(api.path("configmaps"), params={"labelSelector": "odd=1"}).status_code == 200
    assert names(api.get(api.path("configmaps"))) == ["a0", "a2"]

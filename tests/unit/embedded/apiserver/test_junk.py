"""Whatever a client sends, the server answers with a Status and goes on: no body makes it fail."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance import servers
from tests.conformance.conftest import deployment, widget_crd

CONTENT_TYPES = [
    "application/json",
    "application/yaml",
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
]
SEEDS: dict[str, dict[str, Any]] = {
    "/apis/apps/v1/namespaces/default/deployments": deployment("a"),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": widget_crd("a.example.com"),
    "/api/v1/namespaces/default/services": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a", "finalizers": ["example.com/x"], "labels": {"a": "b"}, "generateName": "a-"},
        "spec": {"ports": [{"port": 80, "name": "http"}], "selector": {"a": "b"}},
    },
    "/apis/management.loft.sh/v1/namespaces/default/virtualclusterinstances": {
        "apiVersion": "management.loft.sh/v1",
        "kind": "VirtualClusterInstance",
        "metadata": {"name": "a", "ownerReferences": [{"uid": "x", "name": "x", "kind": "X", "apiVersion": "v1"}]},
        "spec": {"templateRef": {"name": "x"}},
        "status": {"conditions": [{"type": "VirtualClusterReady", "status": "True"}]},
    },
    "/api/v1/namespaces": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
}
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.sampled_from(["", "a", "$patch", "x/y", "\u0000"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "name", "$patch", ""]), inner),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A client of a server that lives through all of it."""
    folder: Path = tmp_path_factory.mktemp("junk")
    with servers.embedded(folder) as server, server.client() as client:
        for path, seed in SEEDS.items():
            client.post(path, json=seed)
        yield client


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in members:
        yield from places(member, (*path, step))


def spoiled(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with something else at a place."""
    if not path:
        return value
    changed = copy.deepcopy(document)
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_body_makes_the_server_fail(http: httpx2.Client, data: st.DataObject) -> None:
    collection = data.draw(st.sampled_from(sorted(SEEDS)))
    seed = SEEDS[collection]
    body = spoiled(seed, data.draw(st.sampled_from(list(places(seed)))), data.draw(junk))
    method = data.draw(st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]))
    path = (
        collection if method == "POST" else f"{collection}/a{data.draw(st.sampled_from(['', '', '/status', '/scale']))}"
    )
    content_type = data.draw(st.sampled_from(CONTENT_TYPES))
    if content_type == "application/json-patch+json":
        where = "/" + "/".join(str(step) for step in data.draw(st.sampled_from(list(places(seed)))))
        operation = {"op": data.draw(st.sampled_from(["add", "remove", "replace", "copy", "move", "test"]))}
        body = [operation | {"path": where, "from": "/metadata", "value": data.draw(junk)}]
    answer = http.request(
        method,
        path,
        content=json.dumps(body),
        headers={"Content-Type": content_type},
        params={"fieldManager": "tests", "dryRun": data.draw(st.sampled_from(["", "All"]))},
    )
    assert answer.status_code < 500, answer.text
    for listed in SEEDS:
        assert http.get(listed).status_code == 200


def test_copies_of_copies_are_bounded(http: httpx2.Client) -> None:
    operations = [{"op": "add", "path": "/data", "value": {"x": "y" * 1_000}}]
    operations += [{"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(40)]
    http.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "a"}})
    answer = http.patch(
        "/api/v1/namespaces/default/configmaps/a",
        json=operations,
        headers={"Content-Type": "application/json-patch+json"},
    )
    assert answer.status_code == 413


def test_object_does_not_grow_over_the_bound(http: httpx2.Client) -> None:
    http.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "b"}})
    codes = [
        http.patch(
            "/api/v1/namespaces/default/configmaps/b",
            json={"data": {f"k{number}": "x" * 1_000_000}},
            headers={"Content-Type": "application/merge-patch+json"},
        ).status_code
        for number in range(4)
    ]
    assert codes == [200, 200, 200, 413]

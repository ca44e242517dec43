"""What `kubectl get` prints: columns of the common kinds, ages, JSONPath of printer columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from provisioner.embedded.apiserver import jsonpath
from provisioner.embedded.apiserver.columns import duration_since
from tests.unit.embedded.apiserver.conftest import MERGE, SteppedClock

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
CONTAINERS = [{"name": "c", "image": "registry.example.com/c:1"}]
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}
SELECTOR = {"matchLabels": {"a": "b"}}
NODE_READY = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.0"}}

CASES: list[tuple[str, dict[str, Any], dict[str, Any] | None, list[Any]]] = [
    (
        "/api/v1/namespaces/default/pods",
        {"spec": {"containers": CONTAINERS}},
        {"phase": "Running", "containerStatuses": [{"name": "c", "ready": True, "restartCount": 2}]},
        ["x", "1/1", "Running", "2", "24h", "<none>", "<none>"],
    ),
    (
        "/api/v1/namespaces/default/pods",
        {"spec": {"containers": CONTAINERS, "nodeName": "n1"}},
        {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "LoadingModel"}}}], "podIP": "10.0.0.1"},
        ["x", "0/1", "LoadingModel", "0", "24h", "10.0.0.1", "n1"],
    ),
    (
        "/api/v1/namespaces/default/services",
        {"spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.9", "ports": [{"port": 80, "nodePort": 30080}]}},
        None,
        ["x", "LoadBalancer", "10.96.0.9", "<pending>", "80:30080/TCP", "24h", "<none>"],
    ),
    (
        "/api/v1/namespaces/default/services",
        {"spec": {"clusterIP": "None", "selector": {"a": "b"}, "externalIPs": ["192.0.2.1"]}},
        None,
        ["x", "ClusterIP", "None", "192.0.2.1", "<none>", "24h", "a=b"],
    ),
    (
        "/api/v1/nodes",
        {"metadata": {"labels": {"node-role.kubernetes.io/gpu": ""}}, "spec": {"unschedulable": True}},
        NODE_READY,
        ["x", "Ready,SchedulingDisabled", "gpu", "24h", "v1.36.0"],
    ),
    ("/api/v1/nodes", {}, None, ["x", "Unknown", "<none>", "24h", "<none>"]),
    (
        "/api/v1/namespaces/default/endpoints",
        {"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"port": 80}]}]},
        None,
        ["x", "10.0.0.1:80,10.0.0.2:80", "24h"],
    ),
    (
        "/apis/batch/v1/namespaces/default/jobs",
        {"spec": {"template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}}},
        {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]},
        ["x", "Complete", "1/1", "24h"],
    ),
    (
        "/apis/apps/v1/namespaces/default/statefulsets",
        {"spec": {"replicas": 2, "selector": SELECTOR, "serviceName": "x", "template": TEMPLATE}},
        {"replicas": 2, "readyReplicas": 1},
        ["x", "1/2", "24h", "c", "registry.example.com/c:1"],
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        {"roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}},
        None,
        ["x", "Role/r", "24h"],
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}},
        None,
        ["x", "a=b", "24h"],
    ),
    (
        "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes",
        {"spec": {"hostnames": ["a.example.com", "b.example.com"]}},
        None,
        ["x", '["a.example.com","b.example.com"]', "24h"],
    ),
    (
        "/apis/management.loft.sh/v1/namespaces/default/virtualclusterinstances",
        {"spec": {"templateRef": {"name": "t", "version": "1.0.0"}}},
        {"phase": "Pending"},
        ["x", "t", "1.0.0", "Pending", "24h"],
    ),
]


@pytest.mark.parametrize(("path", "content", "status", "cells"), CASES)
async def test_cells_say_what_people_look_for(
    http: httpx2.AsyncClient,
    clock: SteppedClock,
    path: str,
    content: dict[str, Any],
    status: dict[str, Any] | None,
    cells: list[Any],
) -> None:
    metadata = content.get("metadata", {}) | {"name": "x"}
    made = await http.post(path, json=content | {"metadata": metadata})
    assert made.status_code == 201, made.text
    if status:
        patched = await http.patch(f"{path}/x/status", json={"status": status}, headers=MERGE)
        assert patched.status_code == 200, patched.text
    clock.step(86_400)
    table = (await http.get(f"{path}/x", headers=TABLE)).json()
    assert table["rows"][0]["cells"] == cells
    assert len(table["columnDefinitions"]) == len(cells)


async def test_events_are_printed_by_what_happened(http: httpx2.AsyncClient, clock: SteppedClock) -> None:
    event = {
        "metadata": {"name": "x"},
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
        "reason": "Started",
        "message": "it runs",
        "type": "Normal",
        "lastTimestamp": clock.now().isoformat(),
    }
    await http.post("/api/v1/namespaces/default/events", json=event)
    clock.step(90)
    table = (await http.get("/api/v1/namespaces/default/events", headers=TABLE)).json()
    assert table["rows"][0]["cells"][:5] == ["90s", "Normal", "Started", "pod/web", "it runs"]


async def test_metadata_alone_can_be_asked_for(http: httpx2.AsyncClient) -> None:
    accept = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
    one = (await http.get("/api/v1/namespaces/default", headers=accept)).json()
    assert (one["kind"], sorted(one)) == ("PartialObjectMetadata", ["apiVersion", "kind", "metadata"])
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    listed = (await http.get("/api/v1/namespaces", headers=accept)).json()
    assert listed["kind"] == "PartialObjectMetadataList"
    assert all("spec" not in item for item in listed["items"])


async def test_watch_can_be_read_as_tables(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/api/v1/namespaces", headers=TABLE, params={"watch": "true", "timeoutSeconds": "1"})
    lines = answer.text.splitlines()
    assert len(lines) == 4
    assert '"kind":"Table"' in lines[0]
    assert '"columnDefinitions":[' in lines[0]
    assert '"columnDefinitions":null' in lines[1]


async def test_job_gets_a_selector_of_its_own(http: httpx2.AsyncClient) -> None:
    job = {"metadata": {"name": "x"}, "spec": {"template": {"spec": {"containers": CONTAINERS}}}}
    made = (await http.post("/apis/batch/v1/namespaces/default/jobs", json=job)).json()
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "x"


async def test_service_keeps_its_address(http: httpx2.AsyncClient) -> None:
    path = "/api/v1/namespaces/default/services"
    made = (await http.post(path, json={"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}})).json()
    assert made["spec"]["clusterIP"].startswith("10.96.")
    replaced = await http.put(f"{path}/x", json={"metadata": {"name": "x"}, "spec": {"ports": [{"port": 81}]}})
    assert replaced.json()["spec"]["clusterIP"] == made["spec"]["clusterIP"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (3_599, "59m"),
        (10_800, "3h"),
        (11_100, "3h5m"),
        (86_400, "24h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (864_000, "10d"),
        (94_608_000, "3y"),
    ],
)
def test_ages_are_short(seconds: int, text: str) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert duration_since((now - timedelta(seconds=seconds)).isoformat(), now) == text


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        ("{.a.b}", [1]),
        (".list[0].name", ["x"]),
        (".list[-1].name", ["y"]),
        (".list[*].name", ["x", "y"]),
        ('.list[?(@.name=="y")].size', [2]),
        (".list[?(@.name!='y')].size", [1]),
        (".a['b']", [1]),
        (r".dotted\.key", ["d"]),
        (".none.at.all", []),
        (".a[0]", []),
        (".list.name", []),
    ],
)
def test_json_paths_of_printer_columns(path: str, found: list[Any]) -> None:
    document = {"a": {"b": 1}, "list": [{"name": "x", "size": 1}, {"name": "y", "size": 2}], "dotted.key": "d"}
    assert jsonpath.find(document, path) == found

"""The rules of workloads that need no cluster: placement, command lines, back-off, durations, the scaler."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.clock import SystemClock
from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.core.quantity import Resources, add_up
from provisioner.embedded.controllers.gateway_api.routing import Rule, parse_duration
from provisioner.embedded.controllers.gateway_api.world import covers, meets
from provisioner.embedded.controllers.keda import wanted_replicas
from provisioner.embedded.controllers.workload.autoscaler import desired_replicas
from provisioner.embedded.controllers.workload.budget import desired_healthy
from provisioner.embedded.controllers.workload.pod_status import terminated
from provisioner.embedded.controllers.workload.process import command_line, readiness_probe, restart_delay
from provisioner.embedded.controllers.workload.scheduling import choose_node, requests_of, why_not
from provisioner.embedded.engines.engine import Engine


def node(name: str = "gpu-1", *, gpus: int = 1, labels: Json | None = None, taints: list[Json] | None = None) -> Json:
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": taints or []},
        "status": {"allocatable": {"cpu": "4", "nvidia.com/gpu": str(gpus)}, "conditions": [ready]},
    }


def pod(*, gpus: int = 1, **spec: object) -> Json:
    return {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}], **spec}}


GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("wanted", "found", "reason"),
    [
        (pod(), node(), None),
        (pod(gpus=2), node(), "Insufficient nvidia.com/gpu"),
        (pod(), node(taints=[GPU_TAINT]), "node(s) had untolerated taint {nvidia.com/gpu: present}"),
        (pod(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]), node(taints=[GPU_TAINT]), None),
        (pod(tolerations=[{"operator": "Exists"}]), node(taints=[GPU_TAINT]), None),
        (pod(tolerations=[{"key": "nvidia.com/gpu", "value": "present"}]), node(taints=[GPU_TAINT]), None),
        (
            pod(tolerations=[{"key": "nvidia.com/gpu", "value": "other"}]),
            node(taints=[GPU_TAINT]),
            "node(s) had untolerated taint {nvidia.com/gpu: present}",
        ),
        (pod(), node(taints=[GPU_TAINT | {"effect": "PreferNoSchedule"}]), None),
        (pod(nodeSelector={"pool": "gpu"}), node(labels={"pool": "gpu"}), None),
        (pod(nodeSelector={"pool": "gpu"}), node(), "node(s) didn't match Pod's node affinity/selector"),
    ],
)
def test_pod_fits_a_node_or_is_told_why_not(wanted: Json, found: Json, reason: str | None) -> None:
    assert why_not(wanted, found, {}) == reason


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["a", "b"], True),
        ("NotIn", ["a"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ],
)
def test_node_affinity_is_obeyed(operator: str, values: list[str], fits: bool) -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    wanted = pod(affinity={"nodeAffinity": required})
    assert (why_not(wanted, node(labels={"zone": "a"}), {}) is None) is fits


@given(
    st.lists(st.integers(min_value=0, max_value=4), min_size=1, max_size=4),
    st.lists(st.integers(min_value=0, max_value=4), max_size=12),
)
def test_no_node_is_given_more_than_it_has_and_no_pod_waits_while_one_has_room(
    sizes: list[int], wanted: list[int]
) -> None:
    nodes = [node(f"n{number}", gpus=gpus) for number, gpus in enumerate(sizes)]
    free = {f"n{number}": gpus for number, gpus in enumerate(sizes)}
    used: dict[str, Resources] = {}
    for gpus in wanted:
        name, _ = choose_node(pod(gpus=gpus), nodes, used)
        if name is None:
            assert gpus > max(free.values())
        else:
            used[name] = add_up([used.get(name, {}), requests_of(pod(gpus=gpus))])
            free[name] -= gpus
            assert free[name] >= 0


def test_command_line_listens_where_we_say_and_finds_the_weights() -> None:
    container = {
        "command": ["--verbose"],
        "args": [
            "--model",
            "/models/a.gguf",
            "--host",
            "0.0.0.0",
            "--port=80",
            "--other=/models/b.gguf",
            "/models/../x",
        ],
    }
    assert command_line(Engine(("engine",)), container, port=81, models=Path("/state/models")) == [
        "engine", "--verbose", "--model", "/state/models/a.gguf", "--other=/state/models/b.gguf", "/models/../x",
        "--host", "127.0.0.1", "--port", "81",
    ]  # fmt: skip


def test_readiness_is_asked_as_the_probe_says_and_at_health_without_one() -> None:
    probe = {"httpGet": {"path": "/ready"}, "failureThreshold": 2, "timeoutSeconds": 5}
    assert readiness_probe({"readinessProbe": probe, "startupProbe": {}}).path == "/ready"
    assert readiness_probe({"startupProbe": probe}).failures == 2
    assert readiness_probe({}).path == "/health"
    assert readiness_probe({"readinessProbe": {"exec": {"command": ["true"]}}}).path == "/health"


def test_restarts_wait_longer_and_longer_up_to_a_limit() -> None:
    delays = [restart_delay(restarts=count, ran_seconds=1.0) for count in range(1, 12)]
    assert delays[:4] == [0.0, 1.0, 2.0, 4.0]
    assert delays == sorted(delays)
    assert delays[-1] == 30.0
    assert restart_delay(restarts=9, ran_seconds=61.0) == 0.0


@pytest.mark.parametrize(
    ("code", "shown", "reason"),
    [(0, 0, "Completed"), (3, 3, "Error"), (-9, 137, "Error"), (None, 137, "ContainerStatusUnknown")],
)
def test_exit_of_a_process_is_shown_as_kubernetes_shows_it(code: int | None, shown: int, reason: str) -> None:
    ended = terminated({}, exit_code=code, now=SystemClock().now())["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (shown, reason)


@pytest.mark.parametrize(
    ("text", "seconds"), [("10s", 10.0), ("1h30m", 5400.0), ("500ms", 0.5), ("0s", None), (None, None), ("", None)]
)
def test_durations_of_the_gateway_api(text: str | None, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("pattern", "hostname", "common"),
    [
        (None, "a.example.com", "a.example.com"),
        ("*.example.com", "a.example.com", "a.example.com"),
        ("*.example.com", "example.com", None),
        ("*.example.com", "a.badexample.com", None),
        ("a.example.com", "*.example.com", "a.example.com"),
        ("a.example.com", "b.example.com", None),
    ],
)
def test_hostnames_of_listener_and_route_meet(pattern: str | None, hostname: str, common: str | None) -> None:
    assert meets(pattern, hostname) == common


@given(st.text(alphabet="ab.", max_size=8))
def test_wildcard_never_covers_another_domain(label: str) -> None:
    assert not covers("*.example.com", f"{label}.example.org")
    assert not covers("*.example.com", "example.com")


@pytest.mark.parametrize(
    ("path", "exact", "request_path", "matches"),
    [
        ("/v1/", False, "/v1/models", True),
        ("/v1/", False, "/v1", True),
        ("/v1/", False, "/v10", False),
        ("/", False, "/anything", True),
        ("/health", True, "/health", True),
        ("/health", True, "/health/x", False),
    ],
)
def test_paths_match_by_whole_elements(path: str, exact: bool, request_path: str, matches: bool) -> None:
    assert Rule(path, exact, (), True).matches(request_path) is matches


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({}, 2),
        ({"autoscaling.keda.sh/paused-replicas": "0"}, 0),
        ({"autoscaling.keda.sh/paused": "true"}, 7),
        ({"autoscaling.keda.sh/paused-replicas": "nonsense"}, 7),
    ],
)
def test_scaler_holds_the_minimum_unless_it_is_paused(annotations: dict[str, str], wanted: int) -> None:
    found = {"metadata": {"annotations": annotations}, "spec": {"minReplicaCount": 2, "maxReplicaCount": 4}}
    assert wanted_replicas(found, current=7) == wanted


@pytest.mark.parametrize(("current", "wanted"), [(0, 0), (1, 2), (3, 3), (9, 4)])
def test_autoscaler_keeps_a_target_between_its_bounds_and_asleep(current: int, wanted: int) -> None:
    assert desired_replicas({"minReplicas": 2, "maxReplicas": 4}, current) == wanted


@pytest.mark.parametrize(
    ("spec", "stay"),
    [
        ({"minAvailable": 2}, 2),
        ({"minAvailable": "50%"}, 3),
        ({"maxUnavailable": 1}, 4),
        ({"maxUnavailable": "30%"}, 3),
        ({"maxUnavailable": 9}, 0),
        ({}, 0),
    ],
)
def test_budget_says_how_many_of_five_pods_have_to_stay(spec: Json, stay: int) -> None:
    assert desired_healthy(spec, 5) == stay

"""What foreign objects say: reasons of pods, instances, applications, nodes and routes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from provisioner.platform.application import parse_application
from provisioner.platform.instance import parse_instance
from provisioner.platform.nodes import parse_claims, parse_node
from provisioner.platform.route import parse_gateway, parse_route
from provisioner.platform.workload import parse_pod, parse_workload


def condition(name: str, status: str = "True", reason: str = "", severity: str = "", message: str = "") -> Any:
    return {"type": name, "status": status, "reason": reason, "severity": severity, "message": message}


def pod(*, conditions: list[Any], spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "ep-a-abc123-0", "ownerReferences": [{"uid": "u"}]},
        "spec": {"nodeName": "node-0"} if spec is None else spec,
        "status": {"conditions": conditions, **status},
    }


def container(*, ready: bool = False, **state: Any) -> dict[str, Any]:
    return {"name": "server", "ready": ready, "restartCount": state.pop("restarts", 0), **state}


SCHEDULED = [condition("PodScheduled")]


@pytest.mark.parametrize(
    ("found", "reason", "failing"),
    [
        (pod(conditions=[condition("PodScheduled", "False", "Unschedulable")], spec={}), "Unschedulable", False),
        (pod(conditions=[], spec={}), "Unschedulable", False),
        (pod(conditions=SCHEDULED), "PullingImage", False),
        (
            pod(
                conditions=SCHEDULED,
                containerStatuses=[container(state={"waiting": {"reason": "ContainerCreating"}})],
            ),
            "PullingImage",
            False,
        ),
        (
            pod(
                conditions=SCHEDULED,
                containerStatuses=[container(state={"waiting": {"reason": "ImagePullBackOff"}})],
            ),
            "ImagePullBackOff",
            True,
        ),
        (
            pod(
                conditions=SCHEDULED,
                initContainerStatuses=[{"name": "download-model", "state": {"running": {}}}],
                containerStatuses=[container(state={"waiting": {"reason": "PodInitializing"}})],
            ),
            "DownloadingModel",
            False,
        ),
        (pod(conditions=SCHEDULED, containerStatuses=[container(state={"running": {}})]), "LoadingModel", False),
        (
            pod(
                conditions=SCHEDULED,
                containerStatuses=[
                    container(state={"running": {}}, restarts=2, lastState={"terminated": {"reason": "OOMKilled"}})
                ],
            ),
            "OOMKilled",
            True,
        ),
        (
            pod(
                conditions=SCHEDULED,
                containerStatuses=[container(state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}})],
            ),
            "CrashLoopBackOff",
            True,
        ),
        (
            pod(
                conditions=[*SCHEDULED, condition("Ready")],
                containerStatuses=[container(ready=True, state={"running": {}})],
            ),
            "",
            False,
        ),
    ],
)
def test_pod_tells_why_it_is_not_ready(found: dict[str, Any], reason: str, failing: bool) -> None:
    """Ledger: LIF-04"""
    told = parse_pod(found)
    assert (told.reason, told.failing, told.ready) == (reason, failing, reason == "")


def test_pod_that_is_going_away_is_not_ready() -> None:
    found = pod(conditions=[condition("Ready")])
    found["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert not parse_pod(found).ready


def test_workload_counts_its_own_pods_and_no_stale_status() -> None:
    own = pod(conditions=[])
    other = {**own, "metadata": {"name": "other", "ownerReferences": [{"uid": "v"}]}}
    metadata = {"name": "ep-a-abc123", "uid": "u", "generation": 2}
    stale = {"metadata": metadata, "status": {"readyReplicas": 1, "observedGeneration": 1}}
    told = parse_workload(stale, [own, other])
    assert ([found.name for found in told.pods], told.ready_replicas) == (["ep-a-abc123-0"], 0)


def test_false_condition_of_low_severity_is_no_error() -> None:
    informational = condition("NodesProvisioned", "False", "Provisioning", "Info")
    told = parse_instance({"status": {"phase": "Ready", "conditions": [informational]}})
    assert told.error("NodesProvisioned") is None
    assert told.hopeless is None


@pytest.mark.parametrize(
    "found",
    [
        condition("TemplateResolved", "False", "TemplateNotFound"),
        condition("TemplateResolved", "False", "VersionNotFound", "Error"),
        condition("Scheduled", "False", "Forbidden", "Error"),
        condition("NodesProvisioned", "False", "QuotaExceeded", "Error"),
        condition(
            "NodesProvisioned",
            "False",
            "NodeClaimFailed",
            message="metadata.name: Forbidden: cannot create nodeclaim, because project nodeclaims limit of 5 would be "
            "exceeded",
        ),
    ],
)
def test_what_no_waiting_cures_is_hopeless(found: dict[str, Any]) -> None:
    assert parse_instance({"status": {"phase": "Failed", "conditions": [found]}}).hopeless


def test_reason_that_time_may_cure_is_not_hopeless() -> None:
    syncing = condition("TemplateResolved", "False", "ErrorSyncingParameters")
    assert parse_instance({"status": {"conditions": [syncing]}}).hopeless is None


def test_application_tells_the_failed_sync_apart_from_its_health() -> None:
    status = {
        "sync": {"status": "OutOfSync"},
        "health": {"status": "Missing", "message": "later"},
        "operationState": {"phase": "Failed", "message": "no such namespace"},
    }
    told = parse_application({"metadata": {"name": "a"}, "status": {"application": status}})
    assert (told.sync, told.failure, told.message) == ("OutOfSync", "no such namespace", "later")


def test_claims_of_other_tenant_clusters_are_left_out() -> None:
    def claim(name: str, owner: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"vClusterRef": owner}, "status": {"phase": "Available"}}

    told = parse_claims([claim("b", "ep-a"), claim("a", "ep-a"), claim("c", "ep-b")], tenant_cluster="ep-a")
    assert [found.name for found in told] == ["a", "b"]
    assert not any(found.is_available for found in told)


def test_node_tells_extended_resources_only() -> None:
    allocatable = {"cpu": "3920m", "memory": "8Gi", "nvidia.com/gpu": "8"}
    told = parse_node({"metadata": {"name": "n"}, "status": {"allocatable": allocatable}})
    assert (told.resources, told.ready) == ({"nvidia.com/gpu": 8}, False)


def test_route_without_an_answer_from_every_parent_is_unmet() -> None:
    accepted = {"conditions": [condition("Accepted"), condition("ResolvedRefs")]}
    spec = {"parentRefs": [{"name": "a"}, {"name": "b"}]}
    found = {"metadata": {"name": "r"}, "spec": spec, "status": {"parents": [accepted]}}
    assert parse_route(found).unmet
    found["status"] = {"parents": [accepted, accepted]}
    assert parse_route(found).unmet is None


def test_unresolved_reference_is_told_with_its_reason() -> None:
    parent = {"conditions": [condition("Accepted"), condition("ResolvedRefs", "False", "BackendNotFound")]}
    told = parse_route({"metadata": {"name": "r"}, "spec": {}, "status": {"parents": [parent]}})
    assert told.unmet and told.unmet.reason == "BackendNotFound"


@pytest.mark.parametrize(
    ("told", "since"),
    [("2026-08-01T00:00:00Z", datetime(2026, 8, 1, tzinfo=UTC)), ("2026-08-01T00:00:00", None), ("", None)],
)
def test_refusal_tells_since_when_where_its_controller_does(told: str, since: datetime | None) -> None:
    refused = {**condition("Programmed", "False", "Invalid"), "lastTransitionTime": told}
    found = parse_gateway({"metadata": {"name": "tenant"}, "status": {"conditions": [condition("Accepted"), refused]}})
    assert found.unmet and found.unmet.since == since


def test_gateway_without_an_address_has_none() -> None:
    status = {"conditions": [condition("Accepted"), condition("Programmed")], "addresses": []}
    told = parse_gateway({"metadata": {"name": "tenant"}, "status": status})
    assert (told.address, told.unmet) == (None, None)


@pytest.mark.parametrize(("status", "ready"), [({}, 2), ({"observedGeneration": 1}, 0), ({"observedGeneration": 2}, 2)])
def test_group_of_pods_is_read_by_its_leaders(status: dict[str, Any], ready: int) -> None:
    """Older controllers do not say which generation they have observed."""
    metadata = {"name": "ep-a-abc123", "uid": "u", "generation": 2}
    group = {"kind": "LeaderWorkerSet", "metadata": metadata, "status": {"readyReplicas": 2, **status}}
    labels = {"leaderworkerset.sigs.k8s.io/name": "ep-a-abc123", "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    members = {
        "ep-a-abc123-0": labels,
        "ep-a-abc123-0-1": {**labels, "leaderworkerset.sigs.k8s.io/worker-index": "1"},
        "ep-b-0": {**labels, "leaderworkerset.sigs.k8s.io/name": "ep-b"},
    }
    made = pod(conditions=[condition("Ready")])
    pods = [{**made, "metadata": {"name": name, "labels": found}} for name, found in members.items()]
    told = parse_workload(group, pods)
    assert ([found.name for found in told.pods], told.ready_replicas) == (["ep-a-abc123-0"], ready)

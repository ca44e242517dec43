"""The loops of a real cluster that clients wait for, and the scaler, through the Kubernetes API only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.core.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    ENDPOINTS,
    QUOTA,
    REPLICA_SET,
    SCALED_OBJECT,
    SERVICE,
    STATEFUL_SET,
)
from provisioner.embedded.controllers.kinds import NAMESPACE, POD
from provisioner.embedded.controllers.loop import is_true
from tests.contract.embedded_cluster import (
    INFERENCE,
    Tenant,
    deployment,
    eventually,
    open_tenant,
    pod_template,
    stateful_set,
)
from tests.processes import is_running


@pytest.fixture
async def tenant(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with open_tenant(tmp_path / "state") as found:
        yield found


async def test_endpoints_of_a_service_name_its_ready_pods(tenant: Tenant, tmp_path: Path) -> None:
    loaded = tmp_path / "loaded"
    spec = {"selector": {"app": "stub"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    metadata = {"name": "one", "namespace": INFERENCE}
    await tenant.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    await tenant.create(stateful_set("one", pod_template("--loaded", str(loaded))))
    found = await eventually(
        lambda: tenant.get(ENDPOINTS, "one"), lambda found: bool(subset(found).get("notReadyAddresses"))
    )
    assert "addresses" not in subset(found)
    loaded.touch()
    found = await eventually(lambda: tenant.get(ENDPOINTS, "one"), lambda found: bool(subset(found).get("addresses")))
    pod = await tenant.pod("one-0")
    assert subset(found)["addresses"][0]["ip"] == pod["status"]["podIP"]
    assert subset(found)["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    slice_ = await eventually(
        lambda: tenant.get(ENDPOINT_SLICE, "one"), lambda found: found["endpoints"][0]["conditions"]["ready"]
    )
    assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == "one"
    await tenant.api.delete(SERVICE, "one", namespace=INFERENCE)
    await eventually(lambda: tenant.get(ENDPOINTS, "one"), lambda found: found == {})


@pytest.mark.parametrize(("propagation", "left"), [("Background", 0), ("Foreground", 0), ("Orphan", 1)])
async def test_dependents_go_with_their_owner_unless_they_are_orphaned(
    tenant: Tenant, propagation: str, left: int
) -> None:
    await tenant.create(deployment("web", pod_template(gpus=0)))
    await eventually(
        lambda: tenant.api.list(POD, namespace=INFERENCE), lambda pods: [pod for pod in pods if is_true(pod, "Ready")]
    )
    await tenant.api.delete(DEPLOYMENT, "web", namespace=INFERENCE, propagation=propagation)
    await eventually(lambda: tenant.get(DEPLOYMENT, "web"), lambda found: found == {})
    await eventually(lambda: tenant.api.list(REPLICA_SET, namespace=INFERENCE), lambda found: len(found) == left)
    await eventually(lambda: tenant.api.list(POD, namespace=INFERENCE), lambda pods: len(pods) == left)


async def test_removed_namespace_takes_everything_in_it_along(tenant: Tenant) -> None:
    await tenant.create(stateful_set("one", pod_template()))
    metadata = {"name": "notes", "namespace": INFERENCE}
    await tenant.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
    await eventually(lambda: tenant.pod("one-0"), lambda pod: is_true(pod, "Ready"))
    pid = tenant.children.child(tenant.children.names()[0]).pid
    assert pid is not None
    await tenant.api.delete(NAMESPACE, INFERENCE)
    await eventually(lambda: tenant.api.get(NAMESPACE, INFERENCE), lambda found: found is None)
    assert not is_running(pid)
    await tenant.api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": INFERENCE}})
    for kind in (POD, STATEFUL_SET):
        assert await tenant.api.list(kind, namespace=INFERENCE) == []
    assert [item["metadata"]["name"] for item in await tenant.api.list(CONFIG_MAP, namespace=INFERENCE)] == []


async def test_quota_shows_what_is_used(tenant: Tenant) -> None:
    hard = {"pods": "5", "requests.cpu": "2", "requests.nvidia.com/gpu": "4", "count/configmaps": "9"}
    metadata = {"name": "limits", "namespace": INFERENCE}
    await tenant.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    await tenant.create(stateful_set("one", pod_template(), replicas=2))
    wanted = {"pods": "2", "requests.cpu": "200m", "requests.nvidia.com/gpu": "2", "count/configmaps": "0"}
    found = await eventually(
        lambda: tenant.get(QUOTA, "limits"), lambda found: (found.get("status") or {}).get("used") == wanted
    )
    assert found["status"]["hard"] == hard


async def test_scaled_object_holds_its_minimum_and_honours_a_pause(tenant: Tenant) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "one"}
    trigger = {"type": "prometheus", "metadata": {"query": "up", "threshold": "5"}}
    spec = {"scaleTargetRef": reference, "minReplicaCount": 2, "maxReplicaCount": 4, "triggers": [trigger]}
    metadata = {"name": "one", "namespace": INFERENCE}
    manifest = {"apiVersion": SCALED_OBJECT.api_version, "kind": "ScaledObject", "metadata": metadata, "spec": spec}
    await tenant.create(manifest)
    found = await eventually(lambda: tenant.get(SCALED_OBJECT, "one"), lambda found: "status" in found)
    assert found["status"]["conditions"][0]["reason"] == "ScaleTargetNotFound"
    await tenant.create(stateful_set("one", pod_template(), replicas=1))
    await eventually(lambda: tenant.stateful_set("one"), lambda found: ready_replicas(found) == 2)
    assert is_true(await tenant.get(SCALED_OBJECT, "one"), "Ready")

    await tenant.scale(STATEFUL_SET, "one", 9)
    await eventually(lambda: tenant.stateful_set("one"), lambda found: found["spec"]["replicas"] == 2)
    pause = {"metadata": {"annotations": {"autoscaling.keda.sh/paused-replicas": "0"}}}
    await tenant.api.patch(SCALED_OBJECT, "one", pause, namespace=INFERENCE)
    await eventually(lambda: tenant.api.list(POD, namespace=INFERENCE), lambda pods: pods == [])
    assert is_true(await tenant.get(SCALED_OBJECT, "one"), "Paused")
    resume = {"metadata": {"annotations": {"autoscaling.keda.sh/paused-replicas": None}}}
    await tenant.api.patch(SCALED_OBJECT, "one", resume, namespace=INFERENCE)
    await eventually(lambda: tenant.stateful_set("one"), lambda found: ready_replicas(found) == 2)


def ready_replicas(found: Json) -> int:
    return int((found.get("status") or {}).get("readyReplicas") or 0)


def subset(found: Json) -> Json:
    subsets: list[Json] = found.get("subsets") or [{}]
    return subsets[0]

"""Argo CD's stand-in, driven by commits and watched through the Kubernetes API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provisioner.embedded.controllers.argocd.application import REFRESH
from provisioner.embedded.controllers.conditions import find_condition
from provisioner.embedded.controllers.kinds import APPLICATION, INSTANCE, NAMESPACE
from provisioner.embedded.faults import Failure, Fault
from provisioner.platform.interface import Kind
from tests.contract.embedded import NAMESPACE as PROJECT_NAMESPACE
from tests.contract.embedded import World, create, eventually, publish, running
from tests.unit.embedded.controllers.delivery import commit

Json = dict[str, Any]
_CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
_SETS = Kind("apps", "v1", "StatefulSet", "statefulsets")
_LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")


def _map(name: str, *, wave: int | None = None, **data: str) -> Json:
    metadata: Json = {"name": name}
    if wave is not None:
        metadata["annotations"] = {"argocd.argoproj.io/sync-wave": str(wave)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _claim(name: str, *, wave: int) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": str(wave)}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _set(name: str) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "example.com/x"}]}}
    spec = {"serviceName": name, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


def _deliver(world: World, *manifests: Json, endpoint: str = "ep-one") -> str:
    files = {
        f"endpoints/{endpoint}/{found['kind'].lower()}.{found['metadata']['name']}.yaml": json.dumps(found)
        for found in manifests
    }
    return commit(world.repository, endpoint, files)


def _synced(revision: str) -> Any:
    return lambda status: (
        (status.get("sync") or {}).get("revision") == revision and status["sync"]["status"] == "Synced"
    )


def _says(health: str) -> Any:
    return lambda status: (status.get("health") or {}).get("status") == health


async def test_commit_is_applied_and_reported(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        revision = _deliver(world, _map("one", key="value"))
        await create(world)
        status = await eventually(world.application, _synced(revision))
        assert status["health"]["status"] == "Healthy"
        assert status["operationState"]["phase"] == "Succeeded"
        assert status["operationState"]["syncResult"] == {"revision": revision}
        assert status["resources"] == [
            {"version": "v1", "kind": "ConfigMap", "namespace": "inference", "name": "one", "status": "Synced"}
        ]
        live = await world.tenant().get(_CONFIG_MAP, "one", namespace="inference")
        assert live is not None
        assert live["data"] == {"key": "value"}
        assert live["metadata"]["managedFields"][0]["manager"] == "argocd-controller"
        found = await world.api.get(APPLICATION, "ep-one-runtime", namespace=PROJECT_NAMESPACE)
        assert found is not None
        assert found["metadata"]["labels"]["loft.sh/vcluster-instance-name"] == "ep-one"
        assert (find_condition(found, "Synced") or {})["status"] == "True"


async def test_next_commit_changes_and_prunes(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await eventually_synced(world, _deliver(world, _map("stays", key="old"), _map("goes")))
        await eventually_synced(world, _deliver(world, _map("stays", key="new"), _map("comes")))
        names = await eventually(lambda: _names(world), lambda found: "goes" not in found)
        assert names == {"stays", "comes"}
        live = await world.tenant().get(_CONFIG_MAP, "stays", namespace="inference")
        assert live is not None
        assert live["data"] == {"key": "new"}
        settled = await eventually(world.application, lambda status: len(status["resources"]) == 2)
        assert settled["sync"]["status"] == "Synced"


async def test_commit_without_any_manifest_wipes_nothing_out(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await eventually_synced(world, _deliver(world, _map("one"), _map("two")))
        revision = commit(world.repository, "ep-one", {"endpoints/ep-one/README": "nothing to see"})
        status = await eventually(world.application, lambda found: found.get("conditions"))
        assert status["conditions"][0]["type"] == "SyncError"
        assert revision in status["conditions"][0]["message"]
        assert status["sync"]["status"] == "OutOfSync"
        assert await _names(world) == {"one", "two"}
        await eventually_synced(world, _deliver(world, _map("two")))
        await eventually(lambda: _names(world), lambda found: found == {"two"})


async def test_what_argo_cd_did_not_make_is_left_alone(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await eventually_synced(world, _deliver(world, _map("one")))
        lease: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        await world.tenant().create(_LEASE, {**lease, "metadata": {"name": "replica", "namespace": "inference"}})
        await eventually_synced(world, _deliver(world, _map("two")))
        await eventually(lambda: _names(world), lambda found: found == {"two"})
        assert await world.tenant().get(_LEASE, "replica", namespace="inference") is not None


async def test_drift_is_healed(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await eventually_synced(world, _deliver(world, _map("one", key="value")))
        await world.tenant().patch(_CONFIG_MAP, "one", {"data": {"key": "other"}}, namespace="inference")
        await eventually(lambda: _data(world), lambda data: data == {"key": "value"})
        await world.tenant().delete(_CONFIG_MAP, "one", namespace="inference")
        await eventually(lambda: _data(world), lambda data: data == {"key": "value"})


async def test_fields_of_others_are_no_drift(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        revision = _deliver(world, _map("one", key="value"))
        await eventually_synced(world, revision)
        await world.tenant().patch(_CONFIG_MAP, "one", {"data": {"theirs": "kept"}}, namespace="inference")
        await eventually_synced(world, _deliver(world, _map("one", key="new")))
        assert await _data(world) == {"key": "new", "theirs": "kept"}


async def test_application_progresses_until_its_workload_is_ready(tmp_path: Path) -> None:
    """Ledger: ARG-07."""
    async with running(tmp_path) as world:
        await publish(world)
        await eventually_synced(world, _deliver(world, _map("one"), _set("model")))
        status = await eventually(world.application, _says("Progressing"))
        assert status["health"]["message"].startswith("StatefulSet model: Waiting for")
        live = await world.tenant().get(_SETS, "model", namespace="inference")
        assert live is not None
        done = {
            "observedGeneration": 1,
            "replicas": 1,
            "readyReplicas": 1,
            "updateRevision": "a",
            "currentRevision": "a",
        }
        await world.tenant().write_status(_SETS, live, done)
        await eventually(world.application, _says("Healthy"))


async def test_later_wave_waits_for_the_health_of_the_one_before(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        revision = _deliver(world, _claim("volume", wave=1), _map("after", wave=2), _map("before", wave=0))
        await create(world)
        status = await eventually(
            world.application,
            lambda found: "PersistentVolumeClaim volume" in str(found.get("operationState", {}).get("message")),
        )
        assert status["operationState"]["phase"] == "Running"
        assert status["sync"]["status"] == "OutOfSync"
        assert await _names(world) == {"before"}
        claim = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
        live = await world.tenant().get(claim, "volume", namespace="inference")
        assert live is not None
        await world.tenant().write_status(claim, live, {"phase": "Bound"})
        await eventually(world.application, _synced(revision))
        assert await _names(world) == {"before", "after"}


async def test_sync_that_takes_long_is_reported_as_it_goes(tmp_path: Path) -> None:
    """Ledger: ARG-09."""
    async with running(tmp_path) as world:
        await publish(world)
        world.faults.put("argo_sync", Fault(delay_seconds=180))
        revision = _deliver(world, _map("one"))
        await create(world)
        status = await eventually(world.application, _says("Missing"))
        assert status["sync"] == {**status["sync"], "status": "OutOfSync", "revision": revision}
        assert status["operationState"]["phase"] == "Running"
        assert await _names(world) == set()
        world.faults.put("argo_sync", None)
        await eventually(world.application, _synced(revision))


async def test_sync_that_fails_is_degraded_with_its_message_until_it_works(tmp_path: Path) -> None:
    """Ledger: ARG-07."""
    async with running(tmp_path) as world:
        await publish(world)
        world.faults.put("argo_sync", Fault(fail=Failure(reason="SyncError", message="the hook said no")))
        revision = _deliver(world, _map("one"))
        await create(world)
        status = await eventually(world.application, _says("Degraded"))
        assert status["health"]["message"] == "SyncError: the hook said no"
        assert status["operationState"]["phase"] == "Failed"
        assert status["conditions"][0]["type"] == "SyncError"
        world.faults.put("argo_sync", None)
        status = await eventually(world.application, _synced(revision))
        assert status["health"]["status"] == "Healthy"
        assert "conditions" not in status


async def test_synced_application_can_go_back(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        revision = _deliver(world, _map("one"))
        await eventually_synced(world, revision)
        world.faults.put("argo_sync", Fault(back=True))
        await eventually(world.application, lambda status: status["sync"]["status"] == "OutOfSync")
        world.faults.put("argo_sync", None)
        await eventually(world.application, _synced(revision))


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (
            {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}},
            "does not serve example.com/v1 Widget",
        ),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "w"}, "data": {"key": 1}}, "data"),
    ],
    ids=["unknown kind", "invalid object"],
)
async def test_manifest_that_cannot_be_applied_is_an_error_with_its_reason(
    tmp_path: Path, manifest: Json, message: str
) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        _deliver(world, manifest)
        await create(world)
        status = await eventually(world.application, lambda found: found.get("conditions"))
        assert message in status["conditions"][0]["message"]
        assert status["health"]["status"] in ("Unknown", "Degraded")
        revision = _deliver(world, _map("one"))
        status = await eventually(world.application, _synced(revision))
        assert "conditions" not in status


async def test_missing_path_and_missing_branch_are_comparison_errors(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        status = await eventually(world.application, lambda found: found.get("conditions"))
        assert status["conditions"][0]["type"] == "ComparisonError"
        assert status["sync"]["status"] == "Unknown"
        _deliver(world, _map("one"), endpoint="ep-other")
        revision = commit(world.repository, "ep-one", {"elsewhere/one.yaml": "{}"})
        status = await eventually(world.application, lambda found: found["sync"]["revision"] == revision)
        assert status["conditions"][0]["message"] == "endpoints/ep-one: app path does not exist"


async def test_refresh_annotation_reads_the_repository_at_once_and_is_removed(tmp_path: Path) -> None:
    async with running(tmp_path, poll_seconds=3600) as world:
        await publish(world)
        await eventually_synced(world, _deliver(world, _map("one")))
        revision = _deliver(world, _map("two"))
        patch = {"metadata": {"annotations": {REFRESH: "normal"}}}
        await world.api.patch(APPLICATION, "ep-one-runtime", patch, namespace=PROJECT_NAMESPACE)
        await eventually(world.application, _synced(revision))
        found = await eventually(
            lambda: world.api.get(APPLICATION, "ep-one-runtime", namespace=PROJECT_NAMESPACE),
            lambda found: found and REFRESH not in (found["metadata"].get("annotations") or {}),
        )
        assert found is not None


async def test_component_that_cannot_run_here_is_played_and_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        status = await eventually(lambda: world.application("ep-one-stack"), _synced("v26.3.0"))
        assert status["health"]["status"] == "Healthy"
        assert status["conditions"][0]["type"] == "Played"
        assert "nothing is installed from: gpu-operator" in status["conditions"][0]["message"]


async def test_application_that_anybody_makes_is_synced_and_removed_with_what_it_made(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        await eventually(lambda: world.condition("VirtualClusterReady"), lambda found: found.get("status") == "True")
        revision = _deliver(world, _map("one"), endpoint="ep-two")
        parameters = {"path": "endpoints/ep-two", "revision": "ep-two"}
        await world.apply(_own_application({"templateRef": {"name": "runtime"}, "parameters": parameters}))
        await eventually(lambda: world.application("ep-two-runtime"), _synced(revision))
        await world.api.delete(APPLICATION, "ep-two-runtime", namespace=PROJECT_NAMESPACE)
        await eventually(
            lambda: world.api.get(APPLICATION, "ep-two-runtime", namespace=PROJECT_NAMESPACE),
            lambda found: found is None,
        )
        assert await _names(world) == set()
        assert await world.tenant().get(NAMESPACE, "inference") is not None


async def test_application_that_is_deleted_while_its_tenant_cluster_is_away_waits_for_it(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        await eventually(lambda: world.condition("VirtualClusterReady"), lambda found: found.get("status") == "True")
        revision = _deliver(world, _map("one"), endpoint="ep-two")
        parameters = {"path": "endpoints/ep-two", "revision": "ep-two"}
        await world.apply(_own_application({"templateRef": {"name": "runtime"}, "parameters": parameters}))
        await eventually(lambda: world.application("ep-two-runtime"), _synced(revision))
        world.faults.put("tenant_cluster", Fault(back=True))
        await eventually(lambda: world.condition("VirtualClusterReady"), lambda found: found["status"] == "False")
        await world.api.delete(APPLICATION, "ep-two-runtime", namespace=PROJECT_NAMESPACE)
        world.faults.put("tenant_cluster", None)
        await eventually(
            lambda: world.api.get(APPLICATION, "ep-two-runtime", namespace=PROJECT_NAMESPACE),
            lambda found: found is None,
        )
        assert await _names(world) == set()


async def test_without_pruning_what_is_not_wanted_stays_and_is_not_synced_for_ever(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        source = {"repoURL": str(world.repository), "path": "endpoints/ep-two", "targetRevision": "ep-two"}
        policy = {"automated": {"selfHeal": True}, "syncOptions": ["CreateNamespace=true"]}
        template = {"spec": {"source": source, "destination": {"namespace": "inference"}, "syncPolicy": policy}}
        first = _deliver(world, _map("one"), _map("two"), endpoint="ep-two")
        await world.apply(_own_application({"template": template}))
        await eventually(lambda: world.application("ep-two-runtime"), _synced(first))
        second = _deliver(world, _map("one"), endpoint="ep-two")
        status = await eventually(
            lambda: world.application("ep-two-runtime"),
            lambda found: (found["operationState"].get("syncResult") or {}).get("revision") == second,
        )
        assert status["sync"]["status"] == "OutOfSync"
        assert [entry.get("requiresPruning", False) for entry in status["resources"]] == [False, True]
        _deliver(world, _map("three"))
        await eventually(lambda: _names(world), lambda found: found == {"one", "two", "three"})
        later = await world.application("ep-two-runtime")
        assert later["operationState"] == status["operationState"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"templateRef": {"name": "nothing"}}, "TemplateNotFound"),
        ({"templateRef": {"name": "runtime"}, "parameters": {"path": "p"}}, "BuildApplicationFailed"),
        ({"template": {"spec": {}}}, "BuildApplicationFailed"),
    ],
)
async def test_application_that_cannot_be_built_says_why(tmp_path: Path, spec: Json, reason: str) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        await world.apply(_own_application(spec))
        condition = await eventually(lambda: _synced_condition(world), bool)
        assert condition["reason"] == reason
        assert condition["severity"] == "Error"


async def test_application_waits_for_its_tenant_cluster(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await world.apply(_own_application({"templateRef": {"name": "stack"}}))
        condition = await eventually(lambda: _synced_condition(world), bool)
        assert (condition["reason"], condition["severity"]) == ("ClusterRegistrationPending", "Info")
        await create(world)
        await eventually(lambda: world.application("ep-two-runtime"), _synced("v26.3.0"))


async def test_application_name_of_another_tenant_cluster_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        taken = _own_application({"templateRef": {"name": "stack"}})
        taken["metadata"]["name"] = "ep-one-runtime"
        await world.apply(taken)
        await create(world)
        condition = await eventually(
            lambda: world.condition("ArgoCDIntegrationSynced"), lambda found: found.get("status") == "False"
        )
        assert condition["reason"] == "ArgoCDApplicationFailed"
        assert "ep-one-runtime" in condition["message"]


async def test_sync_that_was_cut_off_is_finished_and_can_still_be_pruned(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        revision = _deliver(world, _claim("volume", wave=0), _map("after", wave=1))
        await create(world)
        await eventually(world.application, lambda found: "PersistentVolumeClaim" in str(found.get("operationState")))
    async with running(tmp_path) as world:
        status = await world.application()
        assert status["operationState"]["operation"]["sync"]["revision"] == revision
        await eventually_synced(world, _deliver(world, _map("one")))
        await eventually(lambda: world.application(), lambda found: len(found["resources"]) == 1)
        claim = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
        assert await world.tenant().list(claim) == []


async def test_tenant_cluster_is_deleted_while_its_application_cannot_be_read(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        await eventually(world.application, lambda found: found.get("conditions"))
        await world.api.delete(INSTANCE, "ep-one", namespace=PROJECT_NAMESPACE)
        await eventually(
            lambda: world.api.get(INSTANCE, "ep-one", namespace=PROJECT_NAMESPACE), lambda found: found is None
        )


async def eventually_synced(world: World, revision: str) -> None:
    """The tenant cluster is there and the commit is in it."""
    await create(world)
    await eventually(world.application, _synced(revision))


def _own_application(spec: Json) -> Json:
    return {
        "apiVersion": "management.loft.sh/v1",
        "kind": "ArgoCDApplication",
        "metadata": {"name": "ep-two-runtime", "namespace": PROJECT_NAMESPACE},
        "spec": {**spec, "destination": {"virtualCluster": {"name": "ep-one", "target": "vCluster"}}},
    }


async def _synced_condition(world: World) -> Json:
    found = await world.api.get(APPLICATION, "ep-two-runtime", namespace=PROJECT_NAMESPACE)
    return find_condition(found or {}, "Synced") or {}


async def _names(world: World) -> set[str]:
    return {found["metadata"]["name"] for found in await world.tenant().list(_CONFIG_MAP, namespace="inference")}


async def _data(world: World) -> Json | None:
    found = await world.tenant().get(_CONFIG_MAP, "one", namespace="inference")
    return found["data"] if found else None

"""Argo CD's stand-in, driven by commits and watched through the Kubernetes API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provisioner.embedded.controllers.argocd.application import REFRESH
from provisioner.embedded.controllers.conditions import find_condition
from provisioner.embedded.controllers.kinds import APPLICATION, NAMESPACE
from provisioner.embedded.faults import Fault
from provisioner.platform.interface import Kind
from tests.contract.applications import (
    CONFIG_MAP,
    LEASE,
    SETS,
    config_map,
    data_of_one,
    deliver,
    eventually_synced,
    names_of_maps,
    own_application,
    says,
    stateful_set,
    synced,
    volume_claim,
)
from tests.contract.embedded import NAMESPACE as PROJECT_NAMESPACE
from tests.contract.embedded import create, eventually, publish, running
from tests.unit.embedded.controllers.delivery import commit

Json = dict[str, Any]


async def test_commit_is_applied_and_reported(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        revision = deliver(world, config_map("one", key="value"))
        await create(world)
        status = await eventually(world.application, synced(revision))
        assert status["health"]["status"] == "Healthy"
        assert status["operationState"]["phase"] == "Succeeded"
        assert status["operationState"]["syncResult"] == {"revision": revision}
        assert status["resources"] == [
            {"version": "v1", "kind": "ConfigMap", "namespace": "inference", "name": "one", "status": "Synced"}
        ]
        live = await world.tenant().get(CONFIG_MAP, "one", namespace="inference")
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
        await eventually_synced(world, deliver(world, config_map("stays", key="old"), config_map("goes")))
        await eventually_synced(world, deliver(world, config_map("stays", key="new"), config_map("comes")))
        names = await eventually(lambda: names_of_maps(world), lambda found: "goes" not in found)
        assert names == {"stays", "comes"}
        live = await world.tenant().get(CONFIG_MAP, "stays", namespace="inference")
        assert live is not None
        assert live["data"] == {"key": "new"}
        settled = await eventually(world.application, lambda status: len(status["resources"]) == 2)
        assert settled["sync"]["status"] == "Synced"


async def test_commit_without_any_manifest_wipes_nothing_out(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await eventually_synced(world, deliver(world, config_map("one"), config_map("two")))
        revision = commit(world.repository, "ep-one", {"endpoints/ep-one/README": "nothing to see"})
        status = await eventually(world.application, lambda found: found.get("conditions"))
        assert status["conditions"][0]["type"] == "SyncError"
        assert revision in status["conditions"][0]["message"]
        assert status["sync"]["status"] == "OutOfSync"
        assert await names_of_maps(world) == {"one", "two"}
        await eventually_synced(world, deliver(world, config_map("two")))
        await eventually(lambda: names_of_maps(world), lambda found: found == {"two"})


async def test_what_argo_cd_did_not_make_is_left_alone(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await eventually_synced(world, deliver(world, config_map("one")))
        lease: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        await world.tenant().create(LEASE, {**lease, "metadata": {"name": "replica", "namespace": "inference"}})
        await eventually_synced(world, deliver(world, config_map("two")))
        await eventually(lambda: names_of_maps(world), lambda found: found == {"two"})
        assert await world.tenant().get(LEASE, "replica", namespace="inference") is not None


async def test_drift_is_healed(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await eventually_synced(world, deliver(world, config_map("one", key="value")))
        await world.tenant().patch(CONFIG_MAP, "one", {"data": {"key": "other"}}, namespace="inference")
        await eventually(lambda: data_of_one(world), lambda data: data == {"key": "value"})
        await world.tenant().delete(CONFIG_MAP, "one", namespace="inference")
        await eventually(lambda: data_of_one(world), lambda data: data == {"key": "value"})


async def test_fields_of_others_are_no_drift(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        revision = deliver(world, config_map("one", key="value"))
        await eventually_synced(world, revision)
        await world.tenant().patch(CONFIG_MAP, "one", {"data": {"theirs": "kept"}}, namespace="inference")
        await eventually_synced(world, deliver(world, config_map("one", key="new")))
        assert await data_of_one(world) == {"key": "new", "theirs": "kept"}


async def test_application_progresses_until_its_workload_is_ready(tmp_path: Path) -> None:
    """Ledger: ARG-07."""
    async with running(tmp_path) as world:
        await publish(world)
        await eventually_synced(world, deliver(world, config_map("one"), stateful_set("model")))
        status = await eventually(world.application, says("Progressing"))
        assert status["health"]["message"].startswith("StatefulSet model: Waiting for")
        live = await world.tenant().get(SETS, "model", namespace="inference")
        assert live is not None
        done = {
            "observedGeneration": 1,
            "replicas": 1,
            "readyReplicas": 1,
            "updateRevision": "a",
            "currentRevision": "a",
        }
        await world.tenant().write_status(SETS, live, done)
        await eventually(world.application, says("Healthy"))


async def test_later_wave_waits_for_the_health_of_the_one_before(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        revision = deliver(
            world, volume_claim("volume", wave=1), config_map("after", wave=2), config_map("before", wave=0)
        )
        await create(world)
        status = await eventually(
            world.application,
            lambda found: "PersistentVolumeClaim volume" in str(found.get("operationState", {}).get("message")),
        )
        assert status["operationState"]["phase"] == "Running"
        assert status["sync"]["status"] == "OutOfSync"
        assert await names_of_maps(world) == {"before"}
        claim = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
        live = await world.tenant().get(claim, "volume", namespace="inference")
        assert live is not None
        await world.tenant().write_status(claim, live, {"phase": "Bound"})
        await eventually(world.application, synced(revision))
        assert await names_of_maps(world) == {"before", "after"}


async def test_sync_that_takes_long_is_reported_as_it_goes(tmp_path: Path) -> None:
    """Ledger: ARG-09."""
    async with running(tmp_path) as world:
        await publish(world)
        world.faults.put("argo_sync", Fault(delay_seconds=180))
        revision = deliver(world, config_map("one"))
        await create(world)
        status = await eventually(world.application, says("Missing"))
        assert status["sync"] == {**status["sync"], "status": "OutOfSync", "revision": revision}
        assert status["operationState"]["phase"] == "Running"
        assert await names_of_maps(world) == set()
        world.faults.put("argo_sync", None)
        await eventually(world.application, synced(revision))


async def test_synced_application_can_go_back(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        revision = deliver(world, config_map("one"))
        await eventually_synced(world, revision)
        world.faults.put("argo_sync", Fault(back=True))
        await eventually(world.application, lambda status: status["sync"]["status"] == "OutOfSync")
        world.faults.put("argo_sync", None)
        await eventually(world.application, synced(revision))


async def test_refresh_annotation_reads_the_repository_at_once_and_is_removed(tmp_path: Path) -> None:
    async with running(tmp_path, poll_seconds=3600) as world:
        await publish(world)
        await eventually_synced(world, deliver(world, config_map("one")))
        revision = deliver(world, config_map("two"))
        patch = {"metadata": {"annotations": {REFRESH: "normal"}}}
        await world.api.patch(APPLICATION, "ep-one-runtime", patch, namespace=PROJECT_NAMESPACE)
        await eventually(world.application, synced(revision))
        found = await eventually(
            lambda: world.api.get(APPLICATION, "ep-one-runtime", namespace=PROJECT_NAMESPACE),
            lambda found: found and REFRESH not in (found["metadata"].get("annotations") or {}),
        )
        assert found is not None


async def test_component_that_cannot_run_here_is_played_and_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        status = await eventually(lambda: world.application("ep-one-stack"), synced("v26.3.0"))
        assert status["health"]["status"] == "Healthy"
        assert status["conditions"][0]["type"] == "Played"
        assert "nothing is installed from: gpu-operator" in status["conditions"][0]["message"]


async def test_application_that_anybody_makes_is_synced_and_removed_with_what_it_made(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        await eventually(lambda: world.condition("VirtualClusterReady"), lambda found: found.get("status") == "True")
        revision = deliver(world, config_map("one"), endpoint="ep-two")
        parameters = {"path": "endpoints/ep-two", "revision": "ep-two"}
        await world.apply(own_application({"templateRef": {"name": "runtime"}, "parameters": parameters}))
        await eventually(lambda: world.application("ep-two-runtime"), synced(revision))
        await world.api.delete(APPLICATION, "ep-two-runtime", namespace=PROJECT_NAMESPACE)
        await eventually(
            lambda: world.api.get(APPLICATION, "ep-two-runtime", namespace=PROJECT_NAMESPACE),
            lambda found: found is None,
        )
        assert await names_of_maps(world) == set()
        assert await world.tenant().get(NAMESPACE, "inference") is not None


async def test_without_pruning_what_is_not_wanted_stays_and_is_not_synced_for_ever(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        source = {"repoURL": str(world.repository), "path": "endpoints/ep-two", "targetRevision": "ep-two"}
        policy = {"automated": {"selfHeal": True}, "syncOptions": ["CreateNamespace=true"]}
        template = {"spec": {"source": source, "destination": {"namespace": "inference"}, "syncPolicy": policy}}
        first = deliver(world, config_map("one"), config_map("two"), endpoint="ep-two")
        await world.apply(own_application({"template": template}))
        await eventually(lambda: world.application("ep-two-runtime"), synced(first))
        second = deliver(world, config_map("one"), endpoint="ep-two")
        status = await eventually(
            lambda: world.application("ep-two-runtime"),
            lambda found: (found["operationState"].get("syncResult") or {}).get("revision") == second,
        )
        assert status["sync"]["status"] == "OutOfSync"
        assert [entry.get("requiresPruning", False) for entry in status["resources"]] == [False, True]
        deliver(world, config_map("three"))
        await eventually(lambda: names_of_maps(world), lambda found: found == {"one", "two", "three"})
        later = await world.application("ep-two-runtime")
        assert later["operationState"] == status["operationState"]

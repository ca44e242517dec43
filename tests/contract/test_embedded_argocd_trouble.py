"""What Argo CD's stand-in does where an Application cannot be synced, or not yet: it says why, and goes on later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provisioner.embedded.controllers.kinds import APPLICATION, INSTANCE
from provisioner.embedded.faults import Failure, Fault
from provisioner.platform.interface import Kind
from tests.contract.applications import (
    config_map,
    deliver,
    eventually_synced,
    names_of_maps,
    own_application,
    says,
    synced,
    synced_condition,
    volume_claim,
)
from tests.contract.embedded import NAMESPACE as PROJECT_NAMESPACE
from tests.contract.embedded import create, eventually, publish, running
from tests.unit.embedded.controllers.delivery import commit

Json = dict[str, Any]


async def test_sync_that_fails_is_degraded_with_its_message_until_it_works(tmp_path: Path) -> None:
    """Ledger: ARG-07."""
    async with running(tmp_path) as world:
        await publish(world)
        world.faults.put("argo_sync", Fault(fail=Failure(reason="SyncError", message="the hook said no")))
        revision = deliver(world, config_map("one"))
        await create(world)
        status = await eventually(world.application, says("Degraded"))
        assert status["health"]["message"] == "SyncError: the hook said no"
        assert status["operationState"]["phase"] == "Failed"
        assert status["conditions"][0]["type"] == "SyncError"
        world.faults.put("argo_sync", None)
        status = await eventually(world.application, synced(revision))
        assert status["health"]["status"] == "Healthy"
        assert "conditions" not in status


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
        deliver(world, manifest)
        await create(world)
        status = await eventually(world.application, lambda found: found.get("conditions"))
        assert message in status["conditions"][0]["message"]
        assert status["health"]["status"] in ("Unknown", "Degraded")
        revision = deliver(world, config_map("one"))
        status = await eventually(world.application, synced(revision))
        assert "conditions" not in status


async def test_missing_path_and_missing_branch_are_comparison_errors(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        status = await eventually(world.application, lambda found: found.get("conditions"))
        assert status["conditions"][0]["type"] == "ComparisonError"
        assert status["sync"]["status"] == "Unknown"
        deliver(world, config_map("one"), endpoint="ep-other")
        revision = commit(world.repository, "ep-one", {"elsewhere/one.yaml": "{}"})
        status = await eventually(world.application, lambda found: found["sync"]["revision"] == revision)
        assert status["conditions"][0]["message"] == "endpoints/ep-one: app path does not exist"


async def test_application_that_is_deleted_while_its_tenant_cluster_is_away_waits_for_it(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        await eventually(lambda: world.condition("VirtualClusterReady"), lambda found: found.get("status") == "True")
        revision = deliver(world, config_map("one"), endpoint="ep-two")
        parameters = {"path": "endpoints/ep-two", "revision": "ep-two"}
        await world.apply(own_application({"templateRef": {"name": "runtime"}, "parameters": parameters}))
        await eventually(lambda: world.application("ep-two-runtime"), synced(revision))
        world.faults.put("tenant_cluster", Fault(back=True))
        await eventually(lambda: world.condition("VirtualClusterReady"), lambda found: found["status"] == "False")
        await world.api.delete(APPLICATION, "ep-two-runtime", namespace=PROJECT_NAMESPACE)
        world.faults.put("tenant_cluster", None)
        await eventually(
            lambda: world.api.get(APPLICATION, "ep-two-runtime", namespace=PROJECT_NAMESPACE),
            lambda found: found is None,
        )
        assert await names_of_maps(world) == set()


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
        await world.apply(own_application(spec))
        condition = await eventually(lambda: synced_condition(world), bool)
        assert condition["reason"] == reason
        assert condition["severity"] == "Error"


async def test_application_waits_for_its_tenant_cluster(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await world.apply(own_application({"templateRef": {"name": "stack"}}))
        condition = await eventually(lambda: synced_condition(world), bool)
        assert (condition["reason"], condition["severity"]) == ("ClusterRegistrationPending", "Info")
        await create(world)
        await eventually(lambda: world.application("ep-two-runtime"), synced("v26.3.0"))


async def test_application_name_of_another_tenant_cluster_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        taken = own_application({"templateRef": {"name": "stack"}})
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
        revision = deliver(world, volume_claim("volume", wave=0), config_map("after", wave=1))
        await create(world)
        await eventually(world.application, lambda found: "PersistentVolumeClaim" in str(found.get("operationState")))
    async with running(tmp_path) as world:
        status = await world.application()
        assert status["operationState"]["operation"]["sync"]["revision"] == revision
        await eventually_synced(world, deliver(world, config_map("one")))
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

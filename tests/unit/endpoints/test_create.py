"""Creating an endpoint, stage by stage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provisioner.domain.conditions import StageName, StageState, current_stage
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.errors import RetryableError
from provisioner.domain.key import ApiKey
from provisioner.domain.operation import OperationState
from provisioner.domain.traffic import Traffic
from provisioner.platform.kinds import APPLICATION, NODE_CLAIM, PROJECT, VIRTUAL_CLUSTER_INSTANCE
from provisioner.probe.interface import ProbeResult
from tests.store.examples import plan
from tests.unit.endpoints.installation import ENDPOINT, Installation, installation
from tests.unit.endpoints.stand_in import STAGES, false


def shown(endpoint: Endpoint) -> tuple[str, str]:
    """The stage a person sees, and its reason."""
    stage = current_stage(endpoint.stages)
    return (stage.name, stage.reason) if stage else ("", "")


async def test_create_runs_to_ready(laptop: Installation) -> None:
    done = await laptop.finish(await laptop.submit_create())
    row = await laptop.store.endpoints.get(ENDPOINT)
    assert done.state is OperationState.SUCCEEDED
    assert row.phase is Phase.READY
    assert row.observed_generation == row.generation
    assert {stage.state for stage in row.stages} == {StageState.DONE}
    assert done.result("publish") == {"url": "https://chat.acme.example.com/v1"}


async def test_one_request_has_its_effects_once_and_quota_is_asked_first(laptop: Installation) -> None:
    """Ledger: TEN-04. One apply makes the tenant cluster and its capacity, and the route is published; before any of
    it the project's quota was read."""
    await laptop.finish(await laptop.submit_create())
    assert laptop.effects == [
        "push ep-a",
        "apply VirtualClusterInstance ep-a",
        "apply HTTPRoute ep-a",
        "apply Lease ep-a-abc123-0",
        "apply Lease ep-a-abc123-1",
    ]
    snapshot = await laptop.store.snapshots.current()
    assert snapshot and [route.alias for route in snapshot.routes] == ["chat"]


async def test_exceeded_quota_ends_the_operation_before_anything_is_made(tmp_path: Path) -> None:
    """Ledger: TEN-04"""
    quota: dict[str, Any] = {"project": {"virtualclusterinstances": "0", "nodeclaims": "0"}}
    async with installation(tmp_path, quotas=quota) as laptop:
        done = await laptop.finish(await laptop.submit_create())
        row = await laptop.store.endpoints.get(ENDPOINT)
    assert (done.state, done.reason) == (OperationState.FAILED, "QuotaExceeded")
    assert "virtualclusterinstances limit of 0" in done.message
    assert "nodeclaims limit of 0" in done.message
    assert (row.phase, shown(row)) == (Phase.FAILED, ("project", "QuotaExceeded"))
    assert laptop.effects == []


async def test_node_type_and_template_that_the_project_does_not_allow_are_both_told(tmp_path: Path) -> None:
    allowed = [{"kind": "VirtualClusterTemplate", "name": "other"}]
    async with installation(tmp_path, allowedNodeTypes=[{"name": "metal3.*"}], allowedTemplates=allowed) as laptop:
        done = await laptop.finish(await laptop.submit_create())
    assert done.state is OperationState.FAILED
    assert "does not allow template" in done.message
    assert "does not allow node type: local.gpu" in done.message


async def test_template_that_nobody_published_ends_the_operation(laptop: Installation) -> None:
    laptop.platform.cluster.objects.pop(("VirtualClusterTemplate", None, "tenantry-dedicated"))
    done = await laptop.finish(await laptop.submit_create())
    assert (done.state, done.reason) == (OperationState.FAILED, "TemplateNotFound")
    assert done.hint == "publish the tier: `tenantry tier publish dedicated`"


async def test_missing_project_ends_the_operation(laptop: Installation) -> None:
    laptop.platform.cluster.objects.pop((PROJECT.kind, None, "acme-dedicated"))
    done = await laptop.finish(await laptop.submit_create())
    assert (done.state, done.reason) == (OperationState.FAILED, "ProjectNotFound")


async def test_stages_are_shown_in_order_and_ready_is_said_after_the_last(laptop: Installation) -> None:
    """Ledger: LIF-04"""
    laptop.platform.reached = set()
    await laptop.submit_create()
    seen = []
    laptop.probe.without_key = 0
    for name in (*STAGES, "published"):
        row = await laptop.turns(6)
        stage = current_stage(row.stages)
        assert stage and row.phase is Phase.CREATING
        seen.append(stage.name)
        laptop.platform.reached.add(name)
    assert seen == [*STAGES, "published"]
    laptop.probe.without_key = 401
    assert (await laptop.turns(8)).phase is Phase.READY


async def test_creation_waits_for_capacity_and_tells_the_reason_when_time_is_over(laptop: Installation) -> None:
    """Ledger: CAP-04"""
    laptop.platform.reached -= {"capacity"}
    operation = await laptop.submit_create()
    for _ in range(3):
        assert shown(await laptop.turns(4))[0] == StageName.CAPACITY
    assert (await laptop.store.operations.get(operation)).state is OperationState.WAITING
    laptop.clock.advance(3600)
    done = await laptop.finish(operation)
    row = await laptop.store.endpoints.get(ENDPOINT)
    assert (done.state, done.reason) == (OperationState.FAILED, "DeadlineExceeded")
    assert (row.phase, shown(row)) == (Phase.FAILED, ("capacity", "DeadlineExceeded"))
    assert "nodes ready: 0 of 1" in row.message


async def test_capacity_that_attaches_late_is_taken(laptop: Installation) -> None:
    """Ledger: CAP-04"""
    laptop.platform.reached -= {"capacity"}
    operation = await laptop.submit_create()
    assert shown(await laptop.turns(8))[0] == StageName.CAPACITY
    laptop.platform.reached.add("capacity")
    assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED


async def test_three_minutes_of_sync_are_a_stage_with_elapsed_time(laptop: Installation) -> None:
    """Ledger: ARG-09"""
    laptop.platform.reached -= {"argo_sync"}
    operation = await laptop.submit_create()
    row = await laptop.turns(20, seconds=9)
    stage = current_stage(row.stages)
    assert row.phase is Phase.CREATING
    assert stage and (stage.name, stage.reason) == (StageName.ARGO_SYNC, "OutOfSync")
    assert stage.since and (laptop.clock.now() - stage.since).total_seconds() >= 170
    laptop.platform.reached.add("argo_sync")
    assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED


async def test_degraded_application_is_an_error_with_its_message_and_still_waited_for(laptop: Installation) -> None:
    """Ledger: ARG-07"""
    operation = await laptop.submit_create()
    await laptop.turns(1)
    laptop.platform.reached -= {"argo_sync"}
    await laptop.turns(4)
    application = laptop.platform.cluster.objects[APPLICATION.kind, "p-acme-dedicated", "ep-a-runtime"]
    told = {"sync": {"status": "Synced"}, "health": {"status": "Degraded", "message": "bad image"}}
    laptop.platform.stands = True
    application["status"] = {"application": told}
    row = await laptop.turns(3)
    stage = current_stage(row.stages)
    assert stage and (stage.name, stage.state, stage.reason) == (StageName.ARGO_SYNC, StageState.ERROR, "Degraded")
    assert "bad image" in stage.message
    laptop.platform.stands = False
    laptop.platform.reached.add("argo_sync")
    assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED


async def test_argo_cd_is_asked_to_refresh_once_per_commit(laptop: Installation) -> None:
    laptop.platform.reached -= {"argo_sync"}
    await laptop.submit_create()
    await laptop.turns(10)
    assert laptop.effects.count("annotate ArgoCDApplication ep-a-runtime") == 1


async def test_running_pod_that_is_not_healthy_is_loading_and_not_ready(laptop: Installation) -> None:
    """Ledger: HEA-10"""
    laptop.platform.reached -= {"loading"}
    await laptop.submit_create()
    row = await laptop.turns(8)
    assert (row.phase, shown(row)) == (Phase.CREATING, ("loading", "LoadingModel"))
    laptop.platform.reached.add("loading")
    laptop.probe.health = ProbeResult(ok=False, reason="LoadingModel", message="/health: status 503")
    row = await laptop.turns(8)
    assert (row.phase, shown(row)) == (Phase.CREATING, ("loading", "LoadingModel"))


async def test_route_must_be_accepted_and_resolved_before_ready(laptop: Installation) -> None:
    """Ledger: ROU-03"""
    laptop.platform.reached -= {"route"}
    operation = await laptop.submit_create()
    row = await laptop.turns(8)
    assert (row.phase, shown(row)[0]) == (Phase.CREATING, StageName.ROUTE)
    laptop.platform.reached.add("route")
    done = await laptop.finish(operation)
    route = laptop.platform.cluster.objects["HTTPRoute", "tenantry", "ep-a"]
    assert route["spec"]["hostnames"] == ["chat.acme.example.com"]
    assert done.result("publish")["url"] == "https://chat.acme.example.com/v1"


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ({"with_key": 503}, "UnexpectedAnswer"),
        ({"without_key": 200}, "UnexpectedAnswer"),
        ({"without_key": 0}, "AddressUnreachable"),
        ({"stranger": ProbeResult(ok=False, reason="StrangerAccepted", message="open")}, "StrangerAccepted"),
    ],
)
async def test_ready_is_not_said_while_the_outside_finds_something_wrong(
    laptop: Installation, trouble: dict[str, Any], reason: str
) -> None:
    """Ledger: LIF-04"""
    for name, value in trouble.items():
        setattr(laptop.probe, name, value)
    await laptop.submit_create()
    row = await laptop.turns(10)
    assert (row.phase, shown(row)) == (Phase.CREATING, ("published", reason))


async def test_open_endpoint_is_ready_when_it_answers_without_a_key(laptop: Installation) -> None:
    """GW-10"""
    await laptop.submit_create(replace(plan(), traffic=Traffic(is_open=True)))
    row = await laptop.turns(10)
    assert shown(row) == ("published", "UnexpectedAnswer")
    laptop.probe.without_key = 200
    assert (await laptop.turns(10)).phase is Phase.READY


async def test_probe_key_is_short_lived_bound_to_the_endpoint_and_gone_afterwards(
    laptop: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[ApiKey] = []
    add = laptop.store.keys.add

    async def record(key: ApiKey) -> None:
        stored.append(key)
        await add(key)

    monkeypatch.setattr(laptop.store.keys, "add", record)
    await laptop.finish(await laptop.submit_create())
    (key,) = stored
    assert key.endpoints == (ENDPOINT,)
    assert key.expires_at and (key.expires_at - key.created_at).total_seconds() == 600
    assert laptop.probe.secrets[0] not in repr(key)
    assert await laptop.store.keys.list() == []


async def test_tenant_cluster_carries_the_request_that_asked_for_it(laptop: Installation) -> None:
    """Ledger: LIF-11. The id of the API call is found on the operation and on the object the worker made."""
    done = await laptop.finish(await laptop.submit_create())
    instance = laptop.platform.cluster.objects[VIRTUAL_CLUSTER_INSTANCE.kind, "p-acme-dedicated", "ep-a"]
    assert done.request_id == "req-7"
    assert instance["metadata"]["annotations"]["tenantry.io/request-id"] == "req-7"


async def test_identifiers_of_the_result_resolve_to_what_was_made(laptop: Installation) -> None:
    """Ledger: LIF-03"""
    done = await laptop.finish(await laptop.submit_create())
    row = await laptop.store.endpoints.get(ENDPOINT)
    placed, objects = done.result("place"), laptop.platform.cluster.objects
    instance = objects[VIRTUAL_CLUSTER_INSTANCE.kind, "p-acme-dedicated", placed["tenantCluster"]]
    assert instance["spec"]["templateRef"]["name"] == row.plan.placement.template
    assert ("HTTPRoute", "tenantry", placed["route"]) in objects
    assert done.result("deliver")["commit"] == laptop.delivery.heads[done.result("deliver")["branch"]]
    assert laptop.platform.cluster.names(NODE_CLAIM) == ("ep-a-0",)


async def test_outage_of_the_control_plane_is_shown_and_waited_for(laptop: Installation) -> None:
    laptop.platform.reached -= {"capacity"}
    operation = await laptop.submit_create()
    await laptop.turns(4)
    laptop.platform.stands = True
    laptop.platform.cluster.trouble = RetryableError("calling: down")
    row = await laptop.turns(20, seconds=9)
    assert row.phase is Phase.CREATING
    assert row.message == "calling: down"
    laptop.platform.cluster.trouble = None
    laptop.platform.stands = False
    laptop.platform.reached.add("capacity")
    assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED


async def test_repository_that_is_away_is_shown_and_waited_for(laptop: Installation) -> None:
    laptop.delivery.trouble = RetryableError("pushing: no route", reason="GitFailed")
    operation = await laptop.submit_create()
    assert shown(await laptop.turns(12, seconds=9)) == ("delivery", "GitFailed")
    laptop.delivery.trouble = None
    assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED


async def test_template_error_of_the_platform_ends_the_operation(laptop: Installation) -> None:
    laptop.platform.reached = set()
    operation = await laptop.submit_create()
    await laptop.turns(3)
    instance = laptop.platform.cluster.objects[VIRTUAL_CLUSTER_INSTANCE.kind, "p-acme-dedicated", "ep-a"]
    instance["status"] = {"phase": "Pending", "conditions": [false("TemplateResolved", "TemplateNotFound", "gone")]}
    done = await laptop.finish(operation)
    assert (done.state, done.reason) == (OperationState.FAILED, "TemplateNotFound")


async def test_endpoint_that_may_sleep_is_created_awake(laptop: Installation) -> None:
    wanted = replace(plan(), runtime=replace(plan().runtime, min_replicas=0))
    assert (await laptop.finish(await laptop.submit_create(wanted))).state is OperationState.SUCCEEDED

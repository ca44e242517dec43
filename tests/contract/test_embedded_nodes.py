"""Nodes of the Platform's stand-in: providers, types, claims within quotas and capacity, pools that follow pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provisioner.embedded.controllers.kinds import (
    INSTANCE,
    NODE,
    NODE_TYPE,
    POD,
    PROJECT,
)
from provisioner.embedded.faults import Failure, Fault
from provisioner.platform.interface import Kind
from tests.contract.embedded import NAMESPACE, create, eventually, publish, running

Json = dict[str, Any]
_CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")


def _is(status: str) -> Any:
    return lambda condition: condition.get("status") == status


def _phase(found: Json) -> str | None:
    phase: str | None = (found.get("status") or {}).get("phase")
    return phase


async def test_quota_of_node_claims_denies_and_says_so_on_the_tenant_cluster(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world, project={"quotas": {"project": {"nodeclaims": "2"}}})
        await create(world, nodes=3)
        denied = await eventually(lambda: world.condition("NodesProvisioned"), lambda found: "limit" in str(found))
        assert denied["message"] == (
            "metadata.name: Forbidden: cannot create nodeclaim, because project nodeclaims limit of 2 would be exceeded"
        )
        assert len(await world.claims()) == 2
        project = await eventually(
            lambda: world.api.get(PROJECT, "acme-dedicated"),
            lambda found: found and found["status"]["quotas"]["project"]["used"] == {"nodeclaims": "2"},
        )
        assert project is not None
        assert project["status"]["quotas"]["project"]["limit"] == {"nodeclaims": "2"}


async def test_node_type_that_the_project_may_not_claim_is_not_claimed(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world, project={"allowedNodeTypes": [{"name": "laptopx.*"}]})
        await create(world)
        failing = await eventually(
            lambda: world.condition("NodesProvisioned"), lambda found: found.get("reason") == "NoNodeType"
        )
        assert "ep-one-gpu-0" in failing["message"]
        assert "typeRef" not in (await world.claims())[0]["spec"]


async def test_claims_beyond_the_capacity_of_a_type_wait_and_get_what_is_given_back(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world, "ep-one", nodes=3)
        await eventually(lambda: world.condition("NodesProvisioned", "ep-one"), _is("True"))
        await create(world, "ep-two", nodes=2)
        await eventually(
            lambda: world.condition("NodesProvisioned", "ep-two"), lambda found: found.get("reason") == "NoNodeType"
        )
        node_type = await world.api.get(NODE_TYPE, "laptop.gpu")
        assert node_type is not None
        assert node_type["status"]["capacity"] == {"total": 4, "claimed": 4}
        await world.api.delete(INSTANCE, "ep-one", namespace=NAMESPACE)
        await eventually(lambda: world.condition("NodesProvisioned", "ep-two"), _is("True"))


async def test_capacity_that_takes_long_is_waited_for(tmp_path: Path) -> None:
    """Ledger: CAP-04."""
    async with running(tmp_path) as world:
        await publish(world)
        world.faults.put("capacity", Fault(hang=True))
        await create(world)
        waiting = await eventually(lambda: world.condition("NodesProvisioned"), _is("False"))
        assert waiting["severity"] == "Info"
        assert (await world.instance())["status"]["phase"] == "Ready"
        assert await world.tenant().list(NODE) == []
        world.faults.put("capacity", None)
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))


async def test_capacity_that_fails_says_why(tmp_path: Path) -> None:
    """Ledger: CAP-04."""
    async with running(tmp_path) as world:
        await publish(world)
        world.faults.put("capacity", Fault(fail=Failure(reason="ProvisionFailed", message="the cloud said no")))
        await create(world)
        failing = await eventually(
            lambda: world.condition("NodesProvisioned"), lambda found: found.get("reason") == "ProvisionFailed"
        )
        assert failing["message"] == "node claim ep-one-gpu-0: the cloud said no"
        assert (await world.claims())[0]["status"]["phase"] == "Failed"
        world.faults.put("capacity", None)
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))


async def test_deleted_node_comes_back_while_its_claim_is_there(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))
        await world.tenant().delete(NODE, "ep-one-gpu-0")
        await eventually(lambda: world.tenant().get(NODE, "ep-one-gpu-0"), bool)


async def test_smaller_pool_gives_the_last_nodes_back(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world, nodes=3)
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))
        await create(world, nodes=1)
        claims = await eventually(world.claims, lambda found: len(found) == 1)
        assert claims[0]["metadata"]["name"] == "ep-one-gpu-0"
        nodes = await eventually(lambda: world.tenant().list(NODE), lambda found: len(found) == 1)
        assert nodes[0]["metadata"]["name"] == "ep-one-gpu-0"


async def test_dynamic_pool_follows_the_pods_that_wait_for_a_node(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world, nodes=0)
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))
        tenant = world.tenant()
        container = {"name": "c", "image": "example.com/x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waits", "namespace": "default"}}
        made = await tenant.create(POD, {**pod, "spec": {"containers": [container]}})
        unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await tenant.write_status(POD, made, {"phase": "Pending", "conditions": [unschedulable]})
        (claim,) = await eventually(world.claims, lambda found: found and _phase(found[0]) == "Available")
        assert claim["spec"]["typeRef"] == "laptop.gpu"
        assert claim["spec"]["desiredCapacity"] == {"nvidia.com/gpu": "1"}
        await tenant.delete(POD, "waits", namespace="default")
        await eventually(world.claims, lambda found: not found)


async def test_provider_with_no_or_two_kinds_fails(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        kind = await world.api.kind_of("management.loft.sh/v1", "NodeProvider")
        provider: Json = {"apiVersion": "management.loft.sh/v1", "kind": "NodeProvider", "metadata": {"name": "none"}}
        await world.apply({**provider, "spec": {"displayName": "nothing"}})
        found = await eventually(
            lambda: world.api.get(kind, "none"), lambda found: (found or {}).get("status", {}).get("phase") == "Failed"
        )
        assert found is not None
        assert found["status"]["message"] == "exactly one provider is required, found: none"


async def test_node_types_follow_their_provider(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await eventually(lambda: world.api.get(NODE_TYPE, "laptop.gpu"), bool)
        await publish(world, provider={"nodeTypes": [{"name": "tpu", "resources": {"cpu": "1"}}]})
        await eventually(lambda: world.api.get(NODE_TYPE, "laptop.tpu"), bool)
        await eventually(lambda: world.api.get(NODE_TYPE, "laptop.gpu"), lambda found: found is None)

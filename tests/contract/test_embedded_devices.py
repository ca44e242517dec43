"""Nodes of the embedded control plane publish devices where a tenant cluster has a class of them to claim."""

from __future__ import annotations

from pathlib import Path

from provisioner.embedded.controllers.kinds import DEVICE_CLASS, NODE, RESOURCE_SLICE
from provisioner.platform.nodes import count_devices
from tests.contract import schemas
from tests.contract.embedded import create, eventually, publish, running


async def test_devices_come_with_a_class_and_go_with_their_node(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world, nodes=2)
        await eventually(lambda: world.condition("NodesProvisioned"), lambda found: found.get("status") == "True")
        assert len(await world.tenant().list(NODE)) == 2
        assert await world.tenant().list(RESOURCE_SLICE) == []
        expression = "device.driver == 'gpu.nvidia.com'"
        claimable = {"metadata": {"name": "gpus"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
        await world.tenant().create(DEVICE_CLASS, claimable)
        slices = await eventually(lambda: world.tenant().list(RESOURCE_SLICE), lambda found: len(found) == 2)
        assert count_devices(slices, driver="gpu.nvidia.com", mig_profile=None) == 2
        for found in slices:
            assert (
                schemas.faults_of_builtin({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **found}) == []
            )
        await create(world, nodes=1)
        await eventually(lambda: world.tenant().list(RESOURCE_SLICE), lambda found: len(found) == 1)

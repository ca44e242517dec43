"""Names of the Applications that a vcluster.yaml deploys: what the Platform's stand-in takes, makes and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provisioner.embedded.controllers.kinds import APPLICATION
from tests.contract.embedded import NAMESPACE, World, eventually, publish, running

Json = dict[str, Any]
TEMPLATE = {"template": {"name": "stack"}}


async def order(world: World, name: str, *applications: Json) -> None:
    """A tenant cluster of its own template that deploys the applications."""
    values = {
        "integrations": {"argoCD": {"enabled": True, "connector": "argocd-main"}},
        "deploy": {"argoCD": {"applications": list(applications)}},
    }
    chart = {"name": "vcluster", "version": "0.37.2"}
    spec = {"template": {"helmRelease": {"chart": chart, "values": json.dumps(values)}}}
    metadata = {"name": name, "namespace": NAMESPACE}
    kind = {"apiVersion": "management.loft.sh/v1", "kind": "VirtualClusterInstance"}
    await world.apply({**kind, "metadata": metadata, "spec": spec})


@pytest.mark.parametrize(
    ("applications", "words"),
    [
        ([{"displayName": "Stack", **TEMPLATE}, {"displayName": "Stack", **TEMPLATE}], "name is used twice: Stack"),
        ([TEMPLATE], "name or displayName is required"),
    ],
    ids=["display name twice", "no name"],
)
async def test_vcluster_yaml_with_names_that_will_not_do_is_refused(
    tmp_path: Path, applications: list[Json], words: str
) -> None:
    """Ledger: ARG-08."""
    async with running(tmp_path) as world:
        await publish(world)
        await order(world, "ep-two", *applications)
        found = await eventually(
            lambda: world.condition("TemplateResolved", "ep-two"), lambda entry: entry.get("status") == "False"
        )
        assert found["reason"] == "ErrorModifyingTemplate"
        assert words in found["message"]
        assert await world.api.list(APPLICATION) == []


async def test_name_of_another_tenant_clusters_application_is_refused(tmp_path: Path) -> None:
    """Ledger: ARG-08."""
    async with running(tmp_path) as world:
        await publish(world)
        await order(world, "ep-two", {"name": "stack", **TEMPLATE})
        await eventually(lambda: world.api.list(APPLICATION), bool)
        await order(world, "ep-three", {"name": "stack", **TEMPLATE})
        found = await eventually(
            lambda: world.condition("ArgoCDIntegrationSynced", "ep-three"),
            lambda entry: entry.get("status") == "False",
        )
        assert found["reason"] == "ArgoCDApplicationFailed"
        assert "belongs to another tenant cluster: stack" in found["message"]
        [application] = await world.api.list(APPLICATION)
        assert application["spec"]["destination"]["virtualCluster"]["name"] == "ep-two"


async def test_application_with_a_display_name_alone_gets_a_name(tmp_path: Path) -> None:
    """Ledger: ARG-08."""
    async with running(tmp_path) as world:
        await publish(world)
        await order(world, "ep-two", {"displayName": "GPU Stack", **TEMPLATE})
        [application] = await eventually(lambda: world.api.list(APPLICATION), bool)
        assert application["metadata"]["name"].startswith("ep-two-gpu-stack-")
        assert application["spec"]["displayName"] == "GPU Stack"

"""The Platform's stand-in, driven and watched through the Kubernetes API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provisioner.domain.errors import NotFoundError, RejectedError, RetryableError
from provisioner.embedded.controllers.kinds import (
    APPLICATION,
    INSTANCE,
    NODE,
    NODE_CLAIM,
    NODE_ENVIRONMENT,
    NODE_TYPE,
    PROJECT,
    SECRET,
)
from provisioner.embedded.controllers.loop import Cluster, own_key
from provisioner.embedded.faults import Failure, Fault
from provisioner.platform.interface import Kind
from tests.contract.embedded import NAMESPACE, create, eventually, publish, running

Json = dict[str, Any]
_CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")


def _is(status: str) -> Any:
    return lambda condition: condition.get("status") == status


async def test_tenant_cluster_becomes_ready_with_objects_and_nodes(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world, nodes=2)
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))
        instance = await world.instance()
        assert instance["status"]["phase"] == "Ready"
        assert instance["status"]["kubernetesVersion"] == "v1.36.0"
        assert instance["metadata"]["labels"]["tier"] == "dedicated"
        assert instance["spec"]["clusterRef"]["namespace"] == "loft-acme-dedicated-v-ep-one"
        unmet = [entry["type"] for entry in instance["status"]["conditions"] if entry["status"] != "True"]
        assert unmet == []
        content = await world.tenant().get(_CONFIG_MAP, "from-template", namespace="default")
        assert content is not None
        assert content["data"] == {"name": "ep-one"}
        nodes = {node["metadata"]["name"]: node for node in await world.tenant().list(NODE)}
        assert sorted(nodes) == ["ep-one-gpu-0", "ep-one-gpu-1"]
        node = nodes["ep-one-gpu-0"]
        assert node["metadata"]["labels"]["tier"] == "dedicated"
        assert node["metadata"]["labels"]["vcluster.com/node-type"] == "laptop.gpu"
        assert node["spec"]["taints"] == [{"key": "gpu", "effect": "NoSchedule"}]
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"
        assert [entry["status"] for entry in node["status"]["conditions"]] == ["True"]


async def test_tenant_cluster_answers_only_once_it_is_ready(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        world.faults.put("tenant_cluster", Fault(hang=True))
        with pytest.raises(NotFoundError):
            await world.tenant().list(NODE)
        await create(world)
        await eventually(lambda: world.condition("Scheduled"), _is("True"))
        assert (await world.instance())["status"]["phase"] == "Pending"
        with pytest.raises(RetryableError):
            await world.tenant().list(NODE)
        world.faults.put("tenant_cluster", None)
        await eventually(lambda: world.condition("VirtualClusterReady"), _is("True"))
        await world.tenant().list(NODE)


async def test_deleted_tenant_cluster_leaves_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))
        await world.api.delete(INSTANCE, "ep-one", namespace=NAMESPACE)
        await eventually(lambda: world.api.get(INSTANCE, "ep-one", namespace=NAMESPACE), lambda found: found is None)
        for kind in (NODE_CLAIM, NODE_ENVIRONMENT, APPLICATION):
            assert await world.api.list(kind) == []
        node_type = await eventually(
            lambda: world.api.get(NODE_TYPE, "laptop.gpu"),
            lambda found: found and found["status"]["capacity"]["claimed"] == 0,
        )
        assert node_type is not None
        assert node_type["status"]["capacity"] == {"total": 4, "claimed": 0}
        with pytest.raises(NotFoundError):
            await world.tenant().list(NODE)


@pytest.mark.parametrize("fault", [Fault(hang=True), Fault(fail=Failure())], ids=["hangs", "fails"])
@pytest.mark.parametrize("stage", ["tenant_cluster", "capacity", "argo_sync"])
async def test_tenant_cluster_that_is_not_finished_can_be_deleted(tmp_path: Path, stage: Any, fault: Fault) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        world.faults.put(stage, fault)
        await create(world)
        await eventually(lambda: world.condition("TemplateResolved"), _is("True"))
        await world.api.delete(INSTANCE, "ep-one", namespace=NAMESPACE)
        await eventually(lambda: world.api.get(INSTANCE, "ep-one", namespace=NAMESPACE), lambda found: found is None)
        assert await world.claims() == []


@pytest.mark.parametrize(
    ("version", "parameters", "reason"),
    [
        ("2.0.0", {}, "VersionNotFound"),
        ("latest", {}, "VersionError"),
        ("1.0.0", {"nodes": "many"}, "ErrorSyncingParameters"),
    ],
)
async def test_template_that_cannot_be_resolved_fails_before_anything_is_made(
    tmp_path: Path, version: str, parameters: Json, reason: str
) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world, version=version, **parameters)
        condition = await eventually(lambda: world.condition("TemplateResolved"), _is("False"))
        assert condition["reason"] == reason
        assert condition["severity"] == "Error"
        assert (await world.instance())["status"]["phase"] == "Failed"
        assert await world.claims() == []


async def test_corrected_template_reaches_an_instance_that_failed(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world, nodes="many")
        await eventually(lambda: world.condition("TemplateResolved"), _is("False"))
        await create(world, nodes=1)
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))


async def test_quota_of_tenant_clusters_denies_the_one_too_many(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world, project={"quotas": {"project": {"virtualclusterinstances": "1"}}})
        await create(world, "ep-one")
        await eventually(lambda: world.condition("Scheduled", "ep-one"), _is("True"))
        await create(world, "ep-two")
        denied = await eventually(lambda: world.condition("Scheduled", "ep-two"), _is("False"))
        assert denied["message"] == (
            "metadata.name: Forbidden: cannot create virtualclusterinstance, "
            "because project virtualclusterinstances limit of 1 would be exceeded"
        )
        assert (await world.instance("ep-two"))["status"]["phase"] == "Failed"


async def test_template_that_the_project_may_not_use_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world, project={"allowedTemplates": [{"name": "other"}]})
        await create(world)
        refused = await eventually(lambda: world.condition("Scheduled"), _is("False"))
        assert "dedicated is not allowed in project acme-dedicated" in refused["message"]


async def test_reached_stages_can_go_back(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))
        world.faults.put("capacity", Fault(back=True))
        await eventually(lambda: world.condition("NodesProvisioned"), _is("False"))
        (node,) = await world.tenant().list(NODE)
        assert node["status"]["conditions"][0]["status"] == "Unknown"
        world.faults.put("capacity", None)
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))
        world.faults.put("tenant_cluster", Fault(back=True))
        await eventually(lambda: world.condition("VirtualClusterReady"), _is("False"))
        assert (await world.instance())["status"]["phase"] == "Pending"
        world.faults.put("tenant_cluster", None)
        await eventually(lambda: world.condition("VirtualClusterReady"), _is("True"))
        assert len(await world.tenant().list(NODE)) == 1


async def test_unknown_connector_is_named(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world, connector="argocd-other")
        condition = await eventually(lambda: world.condition("ArgoCDIntegrationSynced"), _is("False"))
        assert condition["reason"] == "InvalidConnector"
        assert "argocd-other" in condition["message"]
        assert await world.api.list(APPLICATION) == []
        connector = await world.api.get(SECRET, "argocd-main", namespace="vcluster-platform")
        assert connector is not None
        connector["metadata"] = {
            "name": "argocd-other",
            "namespace": "vcluster-platform",
            "labels": {"loft.sh/connector-type": "argocd"},
        }
        await world.api.create(SECRET, connector)
        await eventually(lambda: world.condition("ArgoCDIntegrationSynced"), _is("True"))


async def test_controllers_go_on_where_they_were_stopped(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        world.faults.put("capacity", Fault(hang=True))
        await create(world)
        await eventually(world.claims, bool)
    async with running(tmp_path) as world:
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))
        assert [claim["metadata"]["name"] for claim in await world.claims()] == ["ep-one-gpu-0"]
        await world.api.delete(INSTANCE, "ep-one", namespace=NAMESPACE)
    async with running(tmp_path) as world:
        await eventually(lambda: world.api.get(INSTANCE, "ep-one", namespace=NAMESPACE), lambda found: found is None)
        assert await world.claims() == []


async def test_settled_tenant_cluster_is_not_written_again(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        await create(world)
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))
        await eventually(lambda: world.application("ep-one-stack"), lambda found: found and found["resources"] == [])
        await world.stop()

        async def look_again() -> tuple[str, str]:
            before = (await world.api.list_at(INSTANCE))[1]
            cluster = Cluster(world.api, world.api)
            for controller in world.controllers:
                for found in await world.api.list(controller.watches[0].kind):
                    for key in own_key(found):
                        await controller.reconcile(cluster, key)
            return before, (await world.api.list_at(INSTANCE))[1]

        await eventually(look_again, lambda versions: versions[0] == versions[1])


def _phase(found: Json) -> str | None:
    phase: str | None = (found.get("status") or {}).get("phase")
    return phase


_ODD: list[tuple[str, Json]] = [
    ("Project", {}),
    ("Project", {"spec": {}}),
    ("Project", {"spec": {"quotas": {"project": {"nodeclaims": "many"}}}}),
    ("NodeProvider", {}),
    ("NodeProvider", {"spec": {"terraform": {}}}),
    ("NodeProvider", {"spec": {"terraform": {"nodeTypes": [{"name": "odd", "resources": {"cpu": "many"}}]}}}),
    ("NodeType", {"spec": {"providerRef": "laptop"}}),
    ("NodeClaim", {}),
    ("NodeClaim", {"spec": {"providerRef": "laptop"}}),
    ("NodeClaim", {"spec": {"providerRef": "nobody", "vClusterRef": "nothing"}}),
    ("NodeClaim", {"spec": {"providerRef": "laptop", "vClusterRef": "nothing", "desiredCapacity": {"cpu": "many"}}}),
    ("NodeEnvironment", {}),
    ("VirtualClusterTemplate", {"spec": {"versions": [{"version": "one"}, {"version": "1.0.0"}]}}),
    ("VirtualClusterInstance", {}),
    ("VirtualClusterInstance", {"spec": {}}),
    ("VirtualClusterInstance", {"spec": {"templateRef": {"name": "odd"}}}),
    ("VirtualClusterInstance", {"spec": {"template": {"helmRelease": {"values": "privateNodes: [1]"}}}}),
    ("VirtualClusterInstance", {"spec": {"template": {"helmRelease": {"values": "- a"}}}}),
    ("VirtualClusterInstance", {"spec": {"template": {"objects": "- a"}}}),
    ("VirtualClusterInstance", {"spec": {"template": {"objects": "{{ .Values"}}}),
    ("ArgoCDApplication", {}),
    ("ArgoCDApplication", {"spec": {}}),
    ("ArgoCDApplication", {"spec": {"destination": {"cluster": {"name": "elsewhere"}}, "template": {"spec": {}}}}),
    ("ArgoCDApplicationTemplate", {"spec": {"parameters": [{"label": "nameless"}]}}),
    ("ArgoCDApplication", {"spec": {"templateRef": {"name": "odd"}, "parameters": {"a": {"b": []}}}}),
]


async def test_objects_that_make_no_sense_harm_nobody_else(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await publish(world)
        taken = []
        for number, (kind_name, content) in enumerate(_ODD):
            kind = await world.api.kind_of("management.loft.sh/v1", kind_name)
            name = "odd" if kind_name.endswith("Template") else f"odd-{number}"
            metadata: Json = {"name": name}
            if kind.namespaced:
                metadata["namespace"] = NAMESPACE
            manifest = {"apiVersion": kind.api_version, "kind": kind_name, "metadata": metadata, **content}
            try:
                await world.api.create(kind, manifest)
            except RejectedError:
                continue  # the API server knows better
            taken.append((kind, metadata))
        assert len(taken) > len(_ODD) / 2
        await create(world)
        await eventually(lambda: world.condition("NodesProvisioned"), _is("True"))
        for kind, metadata in taken:
            await world.api.delete(kind, metadata["name"], namespace=metadata.get("namespace"))
        for kind, metadata in taken:
            if kind != PROJECT:  # a Project goes with its namespace, which nobody removes here

                async def is_gone(kind: Kind = kind, metadata: Json = metadata) -> bool:
                    found = await world.api.get(kind, metadata["name"], namespace=metadata.get("namespace"))
                    return found is None

                await eventually(is_gone, bool)

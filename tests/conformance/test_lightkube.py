"""lightkube's async client, the one that the project itself uses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.codecs import from_dict
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap
from lightkube.types import PatchType

from tests.conformance.conftest import Api, config_map, deployment


def connect(api: Api, folder: Path) -> AsyncClient:
    """A client of the server under test, in the test's namespace."""
    config = KubeConfig.from_file(api.server.write_kubeconfig(folder / "kubeconfig")).get()
    return AsyncClient(config=config, namespace=api.namespace, trust_env=False, field_manager="tests")


def plain(item: Any) -> dict[str, Any]:
    """A typed object as JSON."""
    document: dict[str, Any] = item.to_dict()
    return document


async def test_objects_go_their_whole_way(api: Api, tmp_path: Path) -> None:
    client = connect(api, tmp_path)
    wanted = deployment("web", replicas=1)
    made = plain(await client.apply(from_dict(wanted)))
    assert made["metadata"]["generation"] == 1
    assert plain(await client.apply(from_dict(wanted))) == made
    status = {"status": {"replicas": 1, "readyReplicas": 1}}
    patched = plain(await client.patch(Deployment.Status, "web", status, patch_type=PatchType.MERGE))
    assert patched["status"]["readyReplicas"] == 1
    more = {"spec": {"replicas": 3}}
    scaled = plain(await client.patch(Deployment.Scale, "web", more, patch_type=PatchType.MERGE))
    assert scaled["spec"]["replicas"] == 3
    names = [plain(item)["metadata"]["name"] async for item in client.list(Deployment, chunk_size=1)]
    assert names == ["web"]
    await client.delete(Deployment, "web")
    with pytest.raises(ApiError) as caught:
        await client.get(Deployment, "web")
    assert caught.value.status.code == 404
    await client.close()


async def test_watch_follows_from_a_list(api: Api, tmp_path: Path) -> None:
    client = connect(api, tmp_path)
    listed = client.list(ConfigMap)
    assert [item async for item in listed] == []
    seen = []

    async def follow() -> None:
        async for operation, item in client.watch(ConfigMap, resource_version=listed.resourceVersion):
            seen.append((operation, plain(item)["metadata"]["name"]))
            if operation == "DELETED":
                return

    async with asyncio.timeout(60):
        following = asyncio.create_task(follow())
        await client.create(from_dict(config_map("a")))
        await client.delete(ConfigMap, "a")
        await following
    assert seen == [("ADDED", "a"), ("DELETED", "a")]
    await client.close()

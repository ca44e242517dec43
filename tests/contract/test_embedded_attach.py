"""The same controllers over a real kube-apiserver: they are clients like any other.

Tenant clusters are not there (no proxy serves them), so all is seen that happens in the control plane cluster.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.controllers.conditions import find_condition
from provisioner.embedded.controllers.kinds import APPLICATION, INSTANCE, NODE_CLAIM, NODE_ENVIRONMENT, NODE_TYPE
from provisioner.embedded.controllers.manifests import parse_manifests
from provisioner.platform.interface import Kind
from tests.conformance import servers
from tests.contract.embedded import NAMESPACE, World, attached, create, eventually, publish

Json = dict[str, Any]
_CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)


@asynccontextmanager
async def _world(folder: Path) -> AsyncIterator[World]:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with servers.kube_apiserver(folder) as server:
        async with open_session(token=server.token, tls=context) as session:
            api = Api(session, server.url)
            await _install_kinds(api)
            async with attached(api, folder) as world:
                yield world


async def _install_kinds(api: Api) -> None:
    folder = resources.files("provisioner.embedded.apiserver") / "crds"
    files = [file for file in folder.iterdir() if file.name.endswith(".yaml")]
    documents = [document for file in files for document in parse_manifests(file.read_text(), what=file.name)]
    for document in documents:
        document["metadata"].setdefault("annotations", {})["api-approved.kubernetes.io"] = "unapproved, for tests only"
        await api.create(_CRD, document)
    for document in documents:
        name = document["metadata"]["name"]
        await eventually(
            lambda name=name: api.get(_CRD, name),  # type: ignore[misc]  # bound now, not when called
            lambda found: (find_condition(found or {}, "Established") or {}).get("status") == "True",
        )


async def test_controllers_work_over_a_real_api_server(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        await publish(world)
        await create(world, nodes=2)
        await eventually(lambda: world.condition("VirtualClusterReady"), lambda found: found.get("status") == "True")
        claims = await eventually(
            world.claims,
            lambda found: (
                len(found) == 2
                and all((find_condition(claim, "Provisioned") or {}).get("status") == "True" for claim in found)
            ),
        )
        assert {claim["spec"]["typeRef"] for claim in claims} == {"laptop.gpu"}
        await eventually(
            lambda: world.api.get(NODE_TYPE, "laptop.gpu"),
            lambda found: found and found["status"]["capacity"] == {"total": 4, "claimed": 2},
        )
        await eventually(lambda: world.api.list(APPLICATION, namespace=NAMESPACE), lambda found: len(found) == 2)
        await world.api.delete(INSTANCE, "ep-one", namespace=NAMESPACE)
        await eventually(lambda: world.api.get(INSTANCE, "ep-one", namespace=NAMESPACE), lambda found: found is None)
        for kind in (NODE_CLAIM, NODE_ENVIRONMENT, APPLICATION):
            assert await world.api.list(kind) == []

"""A server that passes on what concerns a control plane cluster elsewhere, and serves tenant clusters itself."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from provisioner.domain.clock import SystemClock
from provisioner.domain.errors import NotFoundError, RejectedError, RetryableError
from provisioner.embedded.apiserver.routes.forwarding import Upstream
from provisioner.embedded.apiserver.server import ApiServer, serve_api
from provisioner.embedded.controllers.api import Api, Event, open_session
from provisioner.embedded.controllers.kinds import NAMESPACE
from provisioner.embedded.pki import Pki, ensure_pki, server_context
from provisioner.platform.interface import Kind

CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
CLOCK = SystemClock()


@dataclass(frozen=True)
class Front:
    """The server before the other one."""

    server: ApiServer
    inner: ApiServer
    pki: Pki
    state: Path

    @asynccontextmanager
    async def session(self, token: str | None = "right") -> AsyncIterator[aiohttp.ClientSession]:
        """A client's session."""
        trust = ssl.create_default_context(cadata=self.pki.server_ca.certificate.decode())
        async with open_session(token=token, tls=trust) as session:
            yield session


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    pki = ensure_pki(tmp_path / "pki", now=CLOCK.now())
    tls = server_context(pki.server_ca, "127.0.0.1", now=CLOCK.now())
    inner = await serve_api(state=tmp_path / "inner", host="127.0.0.1", port=0, clock=CLOCK)
    async with open_session() as session:
        upstream = Upstream(inner.url, session, "right", tls)
        server = await serve_api(state=tmp_path / "outer", host="127.0.0.1", port=0, clock=CLOCK, upstream=upstream)
        yield Front(server, inner, pki, tmp_path)
        await server.close()
    await inner.close()


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


@pytest.mark.parametrize("token", ["wrong", None])
async def test_nobody_gets_through_without_the_token(front: Front, token: str | None) -> None:
    async with front.session(token) as session:
        for path in ("", "/kubernetes/project/acme/virtualcluster/one"):
            with pytest.raises(RejectedError, match="401"):
                await Api(session, front.server.url + path).list(NAMESPACE)


async def test_the_other_server_answers_as_if_it_were_asked_itself(front: Front) -> None:
    async with front.session() as session, open_session() as direct:
        api = Api(session, front.server.url)
        await api.apply(CONFIG_MAP, config_map("one"), manager="acme")
        found = await api.list(CONFIG_MAP, namespace="default", labels={})
        assert found == await Api(direct, front.inner.url).list(CONFIG_MAP, namespace="default")
        assert await api.get(CONFIG_MAP, "gone", namespace="default") is None
        await api.delete(CONFIG_MAP, "one", namespace="default")
        async with session.get(f"{front.server.url}/openapi/v3") as answer:
            path = (await answer.json())["paths"]["api/v1"]["serverRelativeURL"]
        async with session.get(front.server.url + path) as answer:
            assert (await answer.json())["openapi"] == "3.0.0"


async def test_watch_is_passed_on_as_it_comes(front: Front) -> None:
    async with front.session() as session:
        api = Api(session, front.server.url)
        _, since = await api.list_at(CONFIG_MAP)

        async def first() -> Event:
            return await anext(api.watch(CONFIG_MAP, since=since))

        following = asyncio.create_task(first())
        await api.create(CONFIG_MAP, config_map("one"))
        event = await asyncio.wait_for(following, 10)
        assert (event.type, event.object["metadata"]["name"]) == ("ADDED", "one")


async def test_connection_that_changes_its_protocol_is_refused(front: Front) -> None:
    headers = {"Upgrade": "SPDY/3.1", "Connection": "Upgrade"}
    async with (
        front.session() as session,
        session.post(f"{front.server.url}/api/v1/namespaces/default/pods/a/exec", headers=headers) as answer,
    ):
        assert answer.status == 405


async def test_other_server_that_is_away_is_worth_another_try(front: Front) -> None:
    await front.inner.close()
    async with front.session() as session:
        with pytest.raises(RetryableError, match="cannot be reached"):
            await Api(session, front.server.url).list(NAMESPACE)


async def test_tenant_clusters_come_and_go_as_they_are_told(front: Front) -> None:
    async with front.session() as session:
        tenant = Api(session, front.server.url).below("/kubernetes/project/acme/virtualcluster/one")
        with pytest.raises(NotFoundError):
            await tenant.list(NAMESPACE)
        front.server.host_tenants({("acme", "one"): False})
        with pytest.raises(RetryableError, match="not ready"):
            await tenant.list(NAMESPACE)
        front.server.host_tenants({("acme", "one"): True, ("acme", "two"): True})
        await tenant.create(CONFIG_MAP, config_map("kept"))
        front.server.host_tenants({("acme", "one"): False})
        front.server.host_tenants({("acme", "one"): True})
        assert await tenant.get(CONFIG_MAP, "kept", namespace="default")
        front.server.host_tenants({})
        front.server.host_tenants({("acme", "one"): True})
        assert await tenant.get(CONFIG_MAP, "kept", namespace="default") is None

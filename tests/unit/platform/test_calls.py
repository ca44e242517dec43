"""What goes over the wire, and what becomes of answers that are none, against a scripted server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from provisioner.domain.errors import ConflictError, RejectedError, RetryableError
from provisioner.domain.lease import Fence
from provisioner.platform.clusters import LightkubeClusters
from provisioner.platform.interface import ObjectRef
from provisioner.platform.kinds import NAMESPACE, NODE, PROJECT
from tests.unit.platform.conftest import write_kubeconfig

ANY = ObjectRef(NAMESPACE, "inference")
Answer = Callable[[web.Request], web.Response]


@dataclass
class Script:
    """A server that answers as told and remembers what it was asked."""

    answer: Answer = field(default=lambda _: web.json_response({"metadata": {"name": "x"}}))
    seen: list[web.Request] = field(default_factory=list)

    async def serve(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        return self.answer(request)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def clusters(script: Script, tmp_path: Path) -> AsyncIterator[LightkubeClusters]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", script.serve)
    async with TestServer(application) as server:
        clusters = LightkubeClusters(write_kubeconfig(tmp_path, str(server.make_url(""))))
        yield clusters
        await clusters.close()


def status(code: int, reason: str, **details: object) -> Answer:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "no", "details": details}
    return lambda _: web.json_response(body, status=code, headers={"Retry-After": "7"})


async def test_every_call_carries_the_service_key(clusters: LightkubeClusters, script: Script) -> None:
    """Ledger: LIF-02. The Platform and every tenant cluster behind its proxy are called with the service key."""
    await clusters.control_plane("control-plane").get(ANY)
    await clusters.tenant("control-plane", "acme-dedicated", "ep-a").get(ANY)
    assert [call.headers["Authorization"] for call in script.seen] == ["Bearer service-key"] * 2
    assert [call.path for call in script.seen] == [
        "/api/v1/namespaces/inference",
        "/kubernetes/project/acme-dedicated/virtualcluster/ep-a/api/v1/namespaces/inference",
    ]


async def test_cluster_behind_the_platform_has_the_platforms_kinds_and_tenants_beside_it(
    script: Script, tmp_path: Path
) -> None:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", script.serve)
    async with TestServer(application) as server:
        url = str(server.make_url("/kubernetes/cluster/control-plane"))
        clusters = LightkubeClusters(write_kubeconfig(tmp_path, url))
        cluster = clusters.control_plane("control-plane")
        await cluster.get(ObjectRef(PROJECT, "acme-dedicated"))
        await cluster.get(ObjectRef(NAMESPACE, "tenantry"))
        await clusters.tenant("control-plane", "acme-dedicated", "ep-a").get(ObjectRef(NAMESPACE, "inference"))
        await clusters.close()
    assert [call.path for call in script.seen] == [
        "/kubernetes/management/apis/management.loft.sh/v1/projects/acme-dedicated",
        "/kubernetes/cluster/control-plane/api/v1/namespaces/tenantry",
        "/kubernetes/project/acme-dedicated/virtualcluster/ep-a/api/v1/namespaces/inference",
    ]


async def test_name_cannot_leave_its_place_in_the_path(clusters: LightkubeClusters, script: Script) -> None:
    await clusters.tenant("control-plane", "../../x", "a/b").get(ObjectRef(NAMESPACE, "../nodes?x=1"))
    path = script.seen[0].raw_path
    assert path == "/kubernetes/project/..%2F..%2Fx/virtualcluster/a%2Fb/api/v1/namespaces/..%2Fnodes%3Fx%3D1"


async def test_list_is_read_page_by_page(clusters: LightkubeClusters, script: Script) -> None:
    def page(request: web.Request) -> web.Response:
        is_first = "continue" not in request.query
        names = ("a", "b") if is_first else ("c",)
        metadata = {"continue": "more"} if is_first else {}
        return web.json_response({"metadata": metadata, "items": [{"metadata": {"name": name}} for name in names]})

    script.answer = page
    found = await clusters.control_plane("control-plane").list(NODE)
    assert [item["metadata"]["name"] for item in found] == ["a", "b", "c"]
    assert {item["kind"] for item in found} == {"Node"}


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
async def test_overloaded_server_is_worth_a_retry_when_it_says(
    clusters: LightkubeClusters, script: Script, code: int
) -> None:
    script.answer = status(code, "ServiceUnavailable")
    with pytest.raises(RetryableError) as error:
        await clusters.control_plane("control-plane").get(ANY)
    assert error.value.retry_after_seconds == 7


async def test_refused_key_is_worth_a_retry_and_is_never_told(clusters: LightkubeClusters, script: Script) -> None:
    script.answer = status(401, "Unauthorized")
    with pytest.raises(RetryableError) as error:
        await clusters.control_plane("control-plane").get(ANY)
    assert error.value.reason == "Unauthorized"
    assert "service-key" not in f"{error.value} {error.value.hint}"


async def test_token_that_was_renewed_on_disk_is_tried_where_the_old_one_is_refused(
    script: Script, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    refused = status(401, "Unauthorized")

    def answer(request: web.Request) -> web.Response:
        is_new = request.headers["Authorization"] == "Bearer new"
        return web.json_response({"metadata": {"name": "x"}}) if is_new else refused(request)

    script.answer = answer
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", script.serve)
    async with TestServer(application) as server:
        path = write_kubeconfig(tmp_path, str(server.make_url("")))
        path.write_text(path.read_text().replace("token: service-key", "tokenFile: token"))
        clusters = LightkubeClusters(path)
        with pytest.raises(RetryableError):
            await clusters.control_plane("control-plane").get(ANY)
        token.write_text("new")
        assert await clusters.control_plane("control-plane").get(ANY)
        await clusters.close()
    tried = [call.headers["Authorization"].removeprefix("Bearer ") for call in script.seen]
    assert tried == ["old", "old", "old", "new"]


async def test_denied_quota_is_the_requests_fault(clusters: LightkubeClusters, script: Script) -> None:
    denied = status(403, "Forbidden", causes=[{"reason": "Forbidden", "message": "limit of 5", "field": "spec"}])
    script.answer = lambda call: denied(call) if call.method == "PATCH" else status(404, "NotFound")(call)
    with pytest.raises(RejectedError) as error:
        await clusters.control_plane("control-plane").apply({"metadata": {"name": "a"}}, kind=PROJECT, fence=Fence(1))
    assert error.value.reason == "Forbidden"
    assert [(finding.field, finding.message) for finding in error.value.findings] == [("spec", "limit of 5")]


async def test_overtaken_write_is_read_and_decided_again(clusters: LightkubeClusters, script: Script) -> None:
    stored = {"metadata": {"name": "a", "resourceVersion": "1"}}
    conflict = status(409, "Conflict")

    def answer(request: web.Request) -> web.Response:
        is_late = request.method == "PATCH" and sum(call.method == "PATCH" for call in script.seen) < 3
        return conflict(request) if is_late else web.json_response(stored)

    script.answer = answer
    await clusters.control_plane("control-plane").apply({"metadata": {"name": "a"}}, kind=PROJECT, fence=Fence(1))
    assert [call.method for call in script.seen] == ["GET", "PATCH"] * 3


async def test_write_that_is_always_overtaken_is_a_conflict(clusters: LightkubeClusters, script: Script) -> None:
    stored = {"metadata": {"name": "a", "resourceVersion": "1"}}
    conflict = status(409, "Conflict")
    script.answer = lambda call: conflict(call) if call.method == "PATCH" else web.json_response(stored)
    with pytest.raises(ConflictError):
        await clusters.control_plane("control-plane").apply({"metadata": {"name": "a"}}, kind=PROJECT, fence=Fence(1))


async def test_server_that_is_not_there_is_worth_a_retry(tmp_path: Path) -> None:
    error = await unreachable(write_kubeconfig(tmp_path, "http://127.0.0.1:9"))
    assert "connection" in error.message.lower()


async def test_server_that_ends_the_connection_says_so_in_words(tmp_path: Path) -> None:
    """The exception of the HTTP client has no text of its own."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        error = await unreachable(write_kubeconfig(tmp_path, f"http://127.0.0.1:{port}"))
    assert "the connection ended before an answer" in error.message


async def test_server_that_is_silent_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioner.platform.connection.TIMEOUT", aiohttp.ClientTimeout(sock_read=0.05))
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connections wait there for somebody who takes them
        error = await unreachable(write_kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}"))
    assert "no answer in time" in error.message


async def unreachable(kubeconfig: Path) -> RetryableError:
    """What a call is answered with where nobody answers: it names the server and what to do."""
    clusters = LightkubeClusters(kubeconfig)
    cluster = clusters.control_plane("control-plane")
    with pytest.raises(RetryableError) as error:
        await cluster.get(ANY)
    await clusters.close()
    assert error.value.reason == "Unreachable"
    assert cluster.url in error.value.message
    assert "kubectl get --raw /readyz" in (error.value.hint or "")
    return error.value


async def test_answer_that_is_no_object_is_worth_a_retry(clusters: LightkubeClusters, script: Script) -> None:
    script.answer = lambda _: web.Response(text="<html>")
    with pytest.raises(RetryableError) as error:
        await clusters.control_plane("control-plane").get(ANY)
    assert error.value.reason == "BadAnswer"

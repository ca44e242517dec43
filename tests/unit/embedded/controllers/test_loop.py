"""The loop that drives controllers, over the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from provisioner.domain.clock import SystemClock
from provisioner.domain.errors import ConflictError, NotFoundError, RejectedError, RetryableError
from provisioner.embedded.apiserver.server import ApiServer, serve_api
from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.controllers.kinds import INSTANCE, NAMESPACE, SECRET
from provisioner.embedded.controllers.loop import (
    Cluster,
    Controller,
    Key,
    Watch,
    owner_keys,
    run_cluster,
    run_tenants,
)
from provisioner.platform.interface import Kind
from tests.conformance.conftest import widget_crd

Json = dict[str, Any]
_MAP = Kind("", "v1", "ConfigMap", "configmaps")


def _map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


@asynccontextmanager
async def _server(state: Path, *, port: int = 0, history: int = 10_000) -> AsyncIterator[tuple[ApiServer, Api]]:
    server = await serve_api(state=state, host="127.0.0.1", port=port, clock=SystemClock(), history=history)
    try:
        async with open_session() as session:
            yield server, Api(session, server.url)
    finally:
        await server.close()


@asynccontextmanager
async def _running(controllers: Sequence[Controller], api: Api, *, tenants: bool = False) -> AsyncIterator[None]:
    run = run_tenants if tenants else run_cluster
    task = asyncio.create_task(run(controllers, Cluster(api, api)))
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def _until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


class _Recorder:
    """Notes which keys it was called with, and copies ConfigMaps' data to `seen`."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.seen: dict[str, Json | None] = {}
        self.failures = 0
        self.again: float | None = None
        self.forgotten: list[str] = []

    def controller(self, *watches: Watch) -> Controller:
        return Controller("recorder", watches or (Watch(_MAP),), self.reconcile, self.forget)

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        self.keys.append(key.name)
        if self.failures:
            self.failures -= 1
            raise RetryableError("trying: not yet")
        found = await cluster.api.get(_MAP, key.name, namespace=key.namespace or "default")
        self.seen[key.name] = found.get("data") if found else None
        return self.again

    async def forget(self, cluster: Cluster) -> None:
        self.forgotten.append(str(cluster))


async def test_what_is_there_what_comes_what_changes_and_what_goes_is_seen(tmp_path: Path) -> None:
    recorder = _Recorder()
    async with _server(tmp_path) as (_, api):
        await api.create(_MAP, _map("first", a="1"))
        async with _running([recorder.controller()], api):
            await _until(lambda: recorder.seen.get("first") == {"a": "1"})
            await api.create(_MAP, _map("second", b="1"))
            await _until(lambda: recorder.seen.get("second") == {"b": "1"})
            await api.patch(_MAP, "second", {"data": {"b": "2"}}, namespace="default")
            await _until(lambda: recorder.seen.get("second") == {"b": "2"})
            await api.delete(_MAP, "first", namespace="default")
            await _until(lambda: recorder.seen.get("first", "still there") is None)


async def test_failing_key_is_tried_again_until_it_works(tmp_path: Path) -> None:
    recorder = _Recorder()
    recorder.failures = 3
    async with _server(tmp_path) as (_, api):
        await api.create(_MAP, _map("one", a="1"))
        async with _running([recorder.controller()], api):
            await _until(lambda: recorder.seen.get("one") == {"a": "1"})
    assert recorder.keys.count("one") == 4


async def test_key_is_looked_at_again_after_the_seconds_it_asked_for(tmp_path: Path) -> None:
    recorder = _Recorder()
    recorder.again = 0.01
    async with _server(tmp_path) as (_, api):
        await api.create(_MAP, _map("one"))
        async with _running([recorder.controller()], api):
            await _until(lambda: recorder.keys.count("one") >= 5)


async def test_one_key_is_never_looked_at_twice_at_once_and_no_change_is_lost(tmp_path: Path) -> None:
    active: set[Key] = set()
    overlaps: list[Key] = []
    last: list[Json] = []

    async def reconcile(cluster: Cluster, key: Key) -> float | None:
        if key in active:
            overlaps.append(key)
        active.add(key)
        found = await cluster.api.get(_MAP, key.name, namespace=key.namespace)
        await asyncio.sleep(0.02)  # long enough for the next change to come in between
        active.discard(key)
        last.append((found or {}).get("data") or {})
        return None

    async with _server(tmp_path) as (_, api):
        await api.create(_MAP, _map("one"))
        async with _running([Controller("slow", (Watch(_MAP),), reconcile)], api):
            for number in range(10):
                await api.patch(_MAP, "one", {"data": {"n": str(number)}}, namespace="default")
            await _until(lambda: last and last[-1] == {"n": "9"})
    assert overlaps == []


async def test_objects_concern_their_owners(tmp_path: Path) -> None:
    recorder = _Recorder()
    async with _server(tmp_path) as (_, api):
        owner = await api.create(_MAP, _map("owner"))
        async with _running([recorder.controller(Watch(SECRET, owner_keys("ConfigMap")))], api):
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
            metadata = {"name": "owned", "namespace": "default", "ownerReferences": [reference]}
            await api.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
            await _until(lambda: recorder.keys == ["owner"])


async def test_changes_made_while_the_server_was_away_are_seen(tmp_path: Path) -> None:
    recorder = _Recorder()
    async with open_session() as session:
        server = await serve_api(state=tmp_path, host="127.0.0.1", port=0, clock=SystemClock())
        api = Api(session, server.url)
        await api.create(_MAP, _map("goes"))
        async with _running([recorder.controller()], api):
            await _until(lambda: recorder.seen.get("goes") == {} or "goes" in recorder.seen)
            await server.close()
            async with _server(tmp_path, history=1) as (_, other):
                await other.create(_MAP, _map("comes", a="1"))
                await other.delete(_MAP, "goes", namespace="default")
            port = int(server.url.rpartition(":")[2])
            async with _server(tmp_path, port=port):
                await _until(lambda: recorder.seen.get("comes") == {"a": "1"})
                await _until(lambda: recorder.seen["goes"] is None)


def _instance(name: str) -> Json:
    metadata = {"name": name, "namespace": "p-acme"}
    return {"apiVersion": "management.loft.sh/v1", "kind": "VirtualClusterInstance", "metadata": metadata, "spec": {}}


async def _make_ready(api: Api, name: str) -> None:
    found = await api.create(INSTANCE, _instance(name))
    condition = {"type": "VirtualClusterReady", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await api.write_status(INSTANCE, found, {"conditions": [condition]})


async def test_tenant_clusters_are_followed_as_they_come_and_go(tmp_path: Path) -> None:
    recorder = _Recorder()
    async with _server(tmp_path) as (_, api):
        await api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "p-acme"}})
        async with _running([recorder.controller()], api, tenants=True):
            await _make_ready(api, "one")
            tenant = Cluster(api, api).tenant("acme", "one")
            await tenant.api.create(_MAP, _map("inside", a="1"))
            await _until(lambda: recorder.seen.get("inside") == {"a": "1"})
            await api.delete(INSTANCE, "one", namespace="p-acme")
            await _until(lambda: recorder.forgotten == ["acme/one"])
            await _make_ready(api, "one")
            await tenant.api.create(_MAP, _map("again", b="1"))
            await _until(lambda: recorder.seen.get("again") == {"b": "1"})
            assert str(tenant) == "acme/one"


async def test_refusals_are_sorted_by_what_to_do(tmp_path: Path) -> None:
    async with _server(tmp_path) as (server, api):
        made = await api.create(_MAP, _map("one"))
        with pytest.raises(ConflictError) as exists:
            await api.create(_MAP, _map("one"))
        assert exists.value.reason == "AlreadyExists"
        await api.patch(_MAP, "one", {"data": {"a": "1"}}, namespace="default")
        with pytest.raises(ConflictError):
            await api.update(_MAP, made)
        with pytest.raises(RejectedError):
            await api.create(_MAP, {**_map("two"), "data": {"a": 1}})
        with pytest.raises(NotFoundError):
            await api.kind_of("example.com/v1", "Widget")
        with pytest.raises(NotFoundError):
            await api.kind_of("v1", "Widget")
        assert await api.get(_MAP, "nothing", namespace="default") is None
        assert await api.delete(_MAP, "nothing", namespace="default") is False
        url = server.url
    async with open_session() as session:
        with pytest.raises(RetryableError):
            await Api(session, url).list(_MAP)


async def test_watch_from_a_version_that_is_forgotten_says_expired(tmp_path: Path) -> None:
    async with _server(tmp_path, history=2) as (_, api):
        _, since = await api.list_at(_MAP)
        for number in range(5):
            await api.create(_MAP, _map(f"m{number}"))
        with pytest.raises(ConflictError) as expired:
            async for _ in api.watch(_MAP, since=since):
                pass
        assert expired.value.reason == "Expired"


async def test_status_that_is_said_already_is_not_written(tmp_path: Path) -> None:
    async with _server(tmp_path) as (_, api):
        await api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "p-acme"}})
        found = await api.create(INSTANCE, _instance("one"))
        once = await api.write_status(INSTANCE, found, {"phase": "Pending", "message": "x"})
        assert await api.write_status(INSTANCE, once, {"phase": "Pending", "reason": None}) is once
        twice = await api.write_status(INSTANCE, once, {"message": None})
        assert "message" not in twice["status"]


async def test_controller_can_follow_every_kind_also_those_that_come_later(tmp_path: Path) -> None:
    async with _server(tmp_path) as (_, api):
        seen: list[str] = []

        async def reconcile(_: Cluster, key: Key) -> float | None:
            seen.append(key.name)
            return None

        def every(kind: Kind) -> Watch:
            return Watch(kind, lambda found: (Key(None, f"{kind.kind}/{found['metadata']['name']}"),))

        curious = Controller("curious", (), reconcile, every=every)
        async with _running([curious, _Recorder().controller()], api):
            await api.create(_MAP, _map("one"))
            await _until(lambda: {"Namespace/default", "ConfigMap/one"} <= set(seen))
            definition = await api.kind_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
            await api.create(definition, widget_crd("acme.example.com"))
            widget = Kind("acme.example.com", "v1", "Widget", "widgets")
            metadata = {"name": "two", "namespace": "default"}
            manifest = {"apiVersion": "acme.example.com/v1", "kind": "Widget", "metadata": metadata}
            await api.create(widget, manifest)
            await _until(lambda: "Widget/two" in seen)
            await api.delete(definition, "widgets.acme.example.com")
            await api.create(_MAP, _map("three"))
            await _until(lambda: "ConfigMap/three" in seen)

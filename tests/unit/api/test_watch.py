"""Watching endpoints: everything is told once, nothing is lost over a break, and nobody is told of another's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from provisioner.api import watch as watch_module
from provisioner.api.services import Services
from provisioner.domain.ids import EndpointId
from provisioner.domain.operation import Verb
from tests.store.statements import run_statement
from tests.unit.api.application import application
from tests.unit.api.conftest import OPERATOR_KEY, REQUEST, idempotent

Event = tuple[str, str, Any]


class Stop:
    """Ends every watch, as a server does that is about to stop. Every look of a watch begins with asking it."""

    def __init__(self) -> None:
        self.now = False
        self._looks = 0

    def __call__(self) -> bool:
        """Whether to end."""
        self._looks += 1
        return self.now

    async def after_looks(self, watch: asyncio.Task[Any]) -> None:
        """Wait until the watch has looked at everything that there is, or has ended."""
        enough = self._looks + 3
        while self._looks < enough and not watch.done():
            await asyncio.sleep(0.001)


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Stop:
    """Ends every watch."""
    monkeypatch.setattr(watch_module, "POLL_SECONDS", 0.01)
    return Stop()


@pytest.fixture
async def transport(services: Services, stop: Stop) -> httpx2.ASGITransport:
    """The application without a socket, which ends its watches at `stop`."""
    return httpx2.ASGITransport(application(replace(services, is_stopping=stop)))


async def make(operator: httpx2.AsyncClient, name: str, **changes: Any) -> str:
    """Make an endpoint; its id."""
    answer = await operator.post("/v1/endpoints", json=REQUEST | {"name": name} | changes, headers=idempotent(name))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["subject"])


@pytest.fixture
async def watching(operator: httpx2.AsyncClient, stop: Stop) -> AsyncIterator[Callable[..., Awaitable[list[Event]]]]:
    """Watch while something is done, until all of it can have been told."""

    async def watched(
        doing: Callable[[], Awaitable[object]] | None = None, *, key: str = OPERATOR_KEY, last: str | None = None
    ) -> list[Event]:
        headers = {"Authorization": f"Bearer {key}"} | ({"Last-Event-ID": last} if last is not None else {})
        stop.now = False
        task = asyncio.create_task(operator.get("/v1/endpoints:watch", headers=headers))
        await stop.after_looks(task)
        if doing is not None:
            await doing()
            await stop.after_looks(task)
        stop.now = True
        answer = await task
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        return list(map(read_event, answer.text.split("\n\n")[:-1]))

    yield watched


def read_event(block: str) -> Event:
    """Id, name and data of an event."""
    fields = dict(line.split(": ", 1) for line in block.splitlines())
    return fields.get("id", ""), fields["event"], json.loads(fields["data"])


def told(events: list[Event]) -> list[tuple[str, str]]:
    """What was told of which endpoint."""
    return [(what, data.get("name") or data.get("id", "")) for _, what, data in events]


async def test_a_watch_begins_with_everything_and_goes_on_with_changes(
    operator: httpx2.AsyncClient, acme: str, watching: Callable[..., Awaitable[list[Event]]]
) -> None:
    await make(operator, "one")
    events = await watching(lambda: make(operator, "two"))
    assert told(events) == [("changed", "one"), ("synced", ""), ("changed", "two")]
    ids = [id_ for id_, _, _ in events]
    assert ids[0] == "" and int(ids[1]) < int(ids[2])


async def test_a_watch_goes_on_after_a_break_with_what_came_meanwhile(
    operator: httpx2.AsyncClient, acme: str, services: Services, watching: Callable[..., Awaitable[list[Event]]]
) -> None:
    first = await make(operator, "one")
    last = (await watching())[-1][0]
    await make(operator, "two")
    await make(operator, "three")
    await operator.delete(f"/v1/endpoints/{first}", headers=idempotent("delete"))
    events = await watching(last=last)
    assert told(events) == [("changed", "two"), ("changed", "three"), ("changed", "one")]
    assert [int(id_) for id_, _, _ in events] == sorted(int(id_) for id_, _, _ in events)
    assert events[-1][2]["phase"] == "Deleting"
    assert await watching(last=events[-1][0]) == []
    assert told(await watching(last=events[0][0])) == [("changed", "three"), ("changed", "one")]


@pytest.mark.parametrize("last", ["0", "999999"])
async def test_a_watch_from_what_is_no_longer_known_begins_anew(
    operator: httpx2.AsyncClient, acme: str, tmp_path: Path, last: str, watching: Callable[..., Awaitable[list[Event]]]
) -> None:
    await make(operator, "one")
    await make(operator, "two")
    await run_statement(f"sqlite:///{tmp_path}/store.sqlite", "DELETE FROM changed_endpoints WHERE version < 3")
    events = await watching(last=last)
    assert told(events) == [("reset", ""), ("changed", "one"), ("changed", "two"), ("synced", "")]


async def test_an_endpoint_that_goes_is_told_by_its_id(
    operator: httpx2.AsyncClient, acme: str, services: Services, watching: Callable[..., Awaitable[list[Event]]]
) -> None:
    made = EndpointId(await make(operator, "one"))
    await operator.delete(f"/v1/endpoints/{made}", headers=idempotent("delete"))

    async def remove() -> None:
        operation = (await services.store.endpoints.get(made)).operation
        claimed = await services.store.operations.claim("w", services.clock.now(), verbs=(Verb.ENDPOINT_DELETE,))
        assert claimed is not None and claimed.id == operation and claimed.lease is not None
        await services.store.endpoints.remove(made, operation=operation, fence=claimed.lease.fence)

    events = await watching(remove)
    assert events[-1][1:] == ("removed", {"id": made, "tenant": "acme"})


async def test_a_customer_is_told_of_its_own_endpoints_in_its_own_view(
    operator: httpx2.AsyncClient, acme: str, watching: Callable[..., Awaitable[list[Event]]]
) -> None:
    """Ledger: TEN-01, CLI-07."""
    await make(operator, "one")
    await make(operator, "two")
    body = {"tenant": "acme", "name": "ci", "endpoints": ["one"]}
    key = (await operator.post("/v1/keys", json=body, headers=idempotent("key"))).json()["secret"]
    events = await watching(key=key)
    assert told(events) == [("changed", "one"), ("synced", "")]
    assert "identifiers" not in events[0][2]


async def test_a_watch_ends_when_its_key_does(
    operator: httpx2.AsyncClient, acme: str, watching: Callable[..., Awaitable[list[Event]]]
) -> None:
    made = (await operator.post("/v1/keys", json={"tenant": "acme", "name": "ci"}, headers=idempotent("k"))).json()

    async def revoke() -> None:
        await operator.delete(f"/v1/keys/{made['key']['id']}", headers=idempotent("revoke"))
        await make(operator, "late")

    assert told(await watching(revoke, key=made["secret"])) == [("synced", "")]


@pytest.mark.parametrize("last", ["x", "-1", "9" * 30, "1 2"])
async def test_an_id_that_no_event_had_is_refused(operator: httpx2.AsyncClient, last: str) -> None:
    answer = await operator.get("/v1/endpoints:watch", headers={"Last-Event-ID": last})
    assert (answer.status_code, answer.json()["reason"]) in ((422, "InvalidCursor"), (422, "InvalidRequest"))


async def test_more_watches_than_a_process_may_have_are_refused(
    operator: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "MOST_WATCHES", 0)
    answer = await operator.get("/v1/endpoints:watch")
    assert (answer.status_code, answer.json()["reason"]) == (429, "TooManyWatches")
    assert int(answer.headers["Retry-After"]) > 0


async def test_a_change_on_condition_is_refused_when_the_endpoint_changed_meanwhile(
    operator: httpx2.AsyncClient, acme: str
) -> None:
    made = await make(operator, "one")
    tag = (await operator.get(f"/v1/endpoints/{made}")).headers["ETag"]
    for old in ('"1"', f"W/{tag}", "1", ""):  # whoever sends an empty one has lost what it read
        stale = await operator.delete(f"/v1/endpoints/{made}", headers=idempotent("a") | {"If-Match": old})
        assert (stale.status_code, stale.json()["reason"]) == (412, "PreconditionFailed"), old
    gone = await operator.delete(f"/v1/endpoints/{made}", headers=idempotent("b") | {"If-Match": f'"1", {tag}'})
    assert gone.status_code == 202
    again = await operator.delete(f"/v1/endpoints/{made}", headers=idempotent("b") | {"If-Match": f'"1", {tag}'})
    assert (again.status_code, again.json()["id"]) == (202, gone.json()["id"])
    assert (await operator.get(f"/v1/endpoints/{made}")).headers["ETag"] != tag

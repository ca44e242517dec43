"""History: bounded, resumable, lost versions answered with 410; state survives a restart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx2

from provisioner.embedded.apiserver.server import serve_api
from tests.unit.embedded.apiserver.conftest import MERGE, SteppedClock, config_map, connect

PATH = "/api/v1/namespaces/default/configmaps"


async def churn(http: httpx2.AsyncClient, count: int) -> None:
    """Changes one object many times."""
    for number in range(count):
        await http.patch(f"{PATH}/busy", json={"data": {"n": str(number)}}, headers=MERGE)


async def test_version_older_than_the_history_is_expired(http: httpx2.AsyncClient) -> None:
    await http.post(PATH, json=config_map("busy"))
    for number in range(3):
        await http.post(PATH, json=config_map(f"a{number}"))
    page = (await http.get(PATH, params={"limit": "1"})).json()
    version = page["metadata"]["resourceVersion"]
    await churn(http, 40)
    watched = await http.get(PATH, params={"watch": "true", "resourceVersion": version, "timeoutSeconds": "5"})
    event = json.loads(watched.text)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    rest = await http.get(PATH, params={"limit": "1", "continue": page["metadata"]["continue"]})
    assert (rest.status_code, rest.json()["reason"]) == (410, "Expired")


async def test_exact_version_shows_the_past(http: httpx2.AsyncClient) -> None:
    made = (await http.post(PATH, json=config_map("a", n="1"))).json()
    await http.patch(f"{PATH}/a", json={"data": {"n": "2"}}, headers=MERGE)
    await http.post(PATH, json=config_map("b"))
    exact = {"resourceVersion": made["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact"}
    past = (await http.get(PATH, params=exact)).json()
    assert past["items"] == [made]
    later = await http.get(PATH, params={"resourceVersion": "999999"})
    assert (later.status_code, later.json()["reason"]) == (504, "Timeout")


async def test_state_and_history_survive_a_restart(tmp_path: Path, clock: SteppedClock) -> None:
    first = await serve_api(state=tmp_path, host="127.0.0.1", port=0, clock=clock)
    async with connect(first.url) as http:
        made = (await http.post(PATH, json=config_map("a", n="1"))).json()
        changed = (await http.patch(f"{PATH}/a", json={"data": {"n": "2"}}, headers=MERGE)).json()
    await first.close()
    second = await serve_api(state=tmp_path, host="127.0.0.1", port=0, clock=clock)
    async with connect(second.url) as http:
        assert (await http.get(f"{PATH}/a")).json() == changed
        more = (await http.post(PATH, json=config_map("b"))).json()
        assert int(more["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])
        parameters = {"watch": "true", "resourceVersion": made["metadata"]["resourceVersion"], "timeoutSeconds": "1"}
        events = [json.loads(line) for line in (await http.get(PATH, params=parameters)).text.splitlines()]
        assert [event["type"] for event in events] == ["MODIFIED", "ADDED"]
    await second.close()


async def test_closing_the_server_ends_watches_at_once(tmp_path: Path, clock: SteppedClock) -> None:
    server = await serve_api(state=tmp_path, host="127.0.0.1", port=0, clock=clock)
    async with (
        connect(server.url) as http,
        http.stream("GET", PATH, params={"watch": "true"}) as stream,
    ):
        lines = stream.aiter_lines()
        reading = asyncio.create_task(anext(lines, "end"))
        await http.get(PATH)
        async with asyncio.timeout(60):
            await server.close()
            assert await reading == "end"


async def test_bookmarks_tell_quiet_watchers_the_version(http: httpx2.AsyncClient) -> None:
    parameters = {"watch": "true", "timeoutSeconds": "1", "allowWatchBookmarks": "true", "resourceVersion": "1"}
    made = (await http.post("/api/v1/namespaces", json={"metadata": {"name": "other"}})).json()
    answer = await http.get(PATH, params=parameters)
    event = json.loads(answer.text)
    assert event["type"] == "BOOKMARK"
    assert event["object"]["kind"] == "ConfigMap"
    assert int(event["object"]["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])

"""Watches: from a version, from the beginning, with selectors, bookmarks and an end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.conformance.conftest import MERGE, Api, config_map


def watched(
    api: Api, path: str, until: Callable[[dict[str, Any]], bool], act: Callable[[], object] | None = None, **more: str
) -> list[dict[str, Any]]:
    """The events of a watch up to the first that satisfies `until`; `act` runs once the stream stands."""
    parameters = {"watch": "true", "timeoutSeconds": "15"} | more
    events = []
    with api.http.stream("GET", path, params=parameters) as stream:
        assert stream.status_code == 200
        if act:
            threading.Thread(target=act).start()
        for line in stream.iter_lines():
            events.append(json.loads(line))
            if until(events[-1]):
                return events
    raise AssertionError(f"the watch ended before its event: {events}")


def shapes(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Type and name of each event."""
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def is_deleted(event: dict[str, Any]) -> bool:
    """Whether an event is a deletion."""
    return bool(event["type"] == "DELETED")


def test_watch_from_a_version_sees_what_came_after(api: Api) -> None:
    api.create(api.path("configmaps"), config_map("before"))
    version = api.get(api.path("configmaps"))["metadata"]["resourceVersion"]
    api.create(api.path("configmaps"), config_map("a", k="1"))
    api.patched(api.path("configmaps", "a"), {"data": {"k": "2"}}, MERGE)
    api.http.delete(api.path("configmaps", "a"))
    events = watched(api, api.path("configmaps"), is_deleted, resourceVersion=version)
    assert shapes(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert int(version) < versions[0]


def test_watch_sees_changes_as_they_happen(api: Api) -> None:
    version = api.get(api.path("configmaps"))["metadata"]["resourceVersion"]

    def act() -> None:
        with api.server.client() as http:
            http.post(api.path("configmaps"), json=config_map("live"))

    events = watched(api, api.path("configmaps"), lambda _: True, act, resourceVersion=version)
    assert shapes(events) == [("ADDED", "live")]


def test_watch_resumes_where_it_stopped(api: Api) -> None:
    version = api.get(api.path("configmaps"))["metadata"]["resourceVersion"]
    for name in ("a", "b", "c"):
        api.create(api.path("configmaps"), config_map(name))
    first = watched(api, api.path("configmaps"), lambda _: True, resourceVersion=version)
    last = first[-1]["object"]["metadata"]["resourceVersion"]
    rest = watched(
        api,
        api.path("configmaps"),
        lambda event: bool(event["object"]["metadata"]["name"] == "c"),
        resourceVersion=last,
    )
    assert shapes(first + rest) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


def test_watch_without_a_version_starts_with_what_is_there(api: Api) -> None:
    for name in ("a", "b"):
        api.create(api.path("configmaps"), config_map(name))
    events = watched(api, api.path("configmaps"), lambda event: bool(event["object"]["metadata"]["name"] == "b"))
    assert sorted(shapes(events)) == [("ADDED", "a"), ("ADDED", "b")]


def test_leaving_a_selection_looks_like_a_deletion(api: Api) -> None:
    document = config_map("a")
    document["metadata"]["labels"] = {"on": "yes"}
    version = api.get(api.path("configmaps"))["metadata"]["resourceVersion"]
    api.create(api.path("configmaps"), document)
    api.create(api.path("configmaps"), config_map("other"))
    api.patched(api.path("configmaps", "a"), {"metadata": {"labels": {"on": "no"}}}, MERGE)
    api.patched(api.path("configmaps", "a"), {"metadata": {"labels": {"on": "yes"}}}, MERGE)
    api.http.delete(api.path("configmaps", "a"))
    api.create(api.path("configmaps"), document | {"metadata": document["metadata"] | {"name": "last"}})
    events = watched(
        api,
        api.path("configmaps"),
        lambda event: bool(event["object"]["metadata"]["name"] == "last"),
        resourceVersion=version,
        labelSelector="on=yes",
    )
    assert [kind for kind, _ in shapes(events)] == ["ADDED", "DELETED", "ADDED", "DELETED", "ADDED"]


def test_watch_of_one_name_by_field(api: Api) -> None:
    version = api.get(api.path("configmaps"))["metadata"]["resourceVersion"]
    for name in ("a", "b"):
        api.create(api.path("configmaps"), config_map(name))
    events = watched(
        api, api.path("configmaps"), lambda _: True, resourceVersion=version, fieldSelector="metadata.name=b"
    )
    assert shapes(events) == [("ADDED", "b")]


def test_watch_over_all_namespaces(api: Api) -> None:
    version = api.get("/api/v1/configmaps")["metadata"]["resourceVersion"]
    api.create(api.path("configmaps"), config_map("everywhere"))
    events = watched(
        api,
        "/api/v1/configmaps",
        lambda event: bool(event["object"]["metadata"]["name"] == "everywhere"),
        resourceVersion=version,
    )
    assert events[-1]["object"]["metadata"]["namespace"] == api.namespace


def test_watch_ends_by_itself_when_its_time_is_up(api: Api) -> None:
    version = api.get(api.path("configmaps"))["metadata"]["resourceVersion"]
    parameters = {"watch": "true", "timeoutSeconds": "1", "resourceVersion": version}
    answer = api.http.get(api.path("configmaps"), params=parameters)
    assert answer.status_code == 200
    assert all(json.loads(line)["type"] == "BOOKMARK" for line in answer.text.splitlines())


def test_initial_events_end_with_a_marked_bookmark(api: Api) -> None:
    for name in ("a", "b"):
        api.create(api.path("configmaps"), config_map(name))
    events = watched(
        api,
        api.path("configmaps"),
        lambda event: bool(event["type"] in ("BOOKMARK", "ERROR")),
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    if "RequestWatchProgress" in events[-1]["object"].get("message", ""):
        pytest.skip("needs etcd: one of 3.5.13 or newer beside the kube-apiserver")
    assert sorted(event["object"]["metadata"]["name"] for event in events[:-1]) == ["a", "b"]
    assert events[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(events[-1]["object"]["metadata"]["resourceVersion"]) > 0


def test_initial_events_need_a_match_rule(api: Api) -> None:
    answer = api.http.get(api.path("configmaps"), params={"watch": "true", "sendInitialEvents": "true"})
    assert answer.status_code == 422
    assert answer.json()["reason"] == "Invalid"


def test_watch_from_a_version_that_is_no_number_is_refused(api: Api) -> None:
    answer = api.http.get(api.path("configmaps"), params={"watch": "true", "resourceVersion": "soon"})
    assert answer.status_code in (400, 500)


def test_many_watchers_see_the_same(api: Api) -> None:
    version = api.get(api.path("configmaps"))["metadata"]["resourceVersion"]
    results: list[list[tuple[str, str]]] = []

    def follow() -> None:
        with (
            api.server.client() as http,
            http.stream(
                "GET",
                api.path("configmaps"),
                params={"watch": "true", "timeoutSeconds": "15", "resourceVersion": version},
            ) as stream,
        ):
            events = []
            for line in stream.iter_lines():
                events.append(json.loads(line))
                if is_deleted(events[-1]):
                    break
            results.append(shapes(events))

    threads = [threading.Thread(target=follow) for _ in range(5)]
    for thread in threads:
        thread.start()
    api.create(api.path("configmaps"), config_map("a"))
    api.http.delete(api.path("configmaps", "a"))
    for thread in threads:
        thread.join(timeout=60)
    assert results == [[("ADDED", "a"), ("DELETED", "a")]] * 5


def test_stream_is_cut_when_the_client_leaves(api: Api) -> None:
    with api.http.stream("GET", api.path("configmaps"), params={"watch": "true"}) as stream:
        assert isinstance(stream, httpx2.Response)
    api.create(api.path("configmaps"), config_map("after"))

"""Endpoints that want no key, beside others that do."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.gateway.conftest import Stage, until
from tests.gateway.stub import SECRET, make_key, make_route, make_snapshot

HOST = "open.acme.example.com"


async def publish_both(stage: Stage) -> None:
    """An open endpoint and a closed one, of one tenant."""
    opened = replace(make_route(stage.backend, alias="open"), is_open=True, hostname=HOST)
    await stage.publish(make_snapshot(opened, make_route(stage.backend), keys=(make_key(),), version=3))


async def status(stage: Stage, model: str, **headers: str) -> int:
    """Of a request for `model` with these headers and no other key."""
    answer = await stage.send("POST", "/v1/chat/completions", json={"model": model}, headers=headers)
    return answer.status


async def test_open_endpoint_wants_no_key_at_its_host_name_and_the_others_do(stage: Stage) -> None:
    """Ledger: GW-10."""
    await publish_both(stage)
    assert await status(stage, "open", Host=HOST) == 200
    assert await status(stage, "open", Host=HOST, Authorization="Bearer EMPTY") == 200
    assert await status(stage, "open") == 401
    assert await status(stage, "chat", Host=HOST) == 401
    assert await status(stage, "nowhere", Host=HOST) == 401
    key = f"Bearer {SECRET}"
    assert [await status(stage, model, Authorization=key) for model in ("open", "chat")] == [200, 200]


async def test_host_of_an_absolute_target_counts_and_that_of_the_field_does_not(stage: Stage) -> None:
    """GW-10, and RFC 9112, 3.2.2."""
    await publish_both(stage)
    body = b'{"model":"open"}'
    for target, field, status_line in ((HOST, "other", b"200 OK"), ("other", HOST, b"401 Unauthorized")):
        head = f"POST http://{target}:80/v1/chat/completions HTTP/1.1\r\nHost: {field}\r\nConnection: close\r\n"
        received = await stage.raw(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert received.startswith(b"HTTP/1.1 " + status_line)


async def test_open_endpoint_is_all_that_is_listed_without_a_key(stage: Stage) -> None:
    """Ledger: GW-10."""
    await publish_both(stage)
    answer = await stage.send("GET", "/v1/models", headers={"Host": HOST})
    assert [model["id"] for model in json.loads(answer.body)["data"]] == ["open"]
    assert (await stage.send("GET", "/v1/models/chat", headers={"Host": HOST})).status == 401
    assert (await stage.send("GET", "/v1/models")).status == 401


async def test_endpoint_that_is_closed_wants_a_key_from_then_on(stage: Stage) -> None:
    """Ledger: GW-10."""
    await publish_both(stage)
    assert await status(stage, "open", Host=HOST) == 200
    closed = replace(make_route(stage.backend, alias="open"), hostname=HOST)
    await stage.publish(make_snapshot(closed, keys=(make_key(),), version=4))
    assert await status(stage, "open", Host=HOST) == 401


async def test_caller_without_a_key_who_is_refused_is_counted_and_not_recorded(stage: Stage) -> None:
    """Ledger: GW-10."""
    await publish_both(stage)
    assert await status(stage, "chat", Host=HOST) == 401
    assert await status(stage, "open", Host=HOST) == 200
    assert stage.gateway._path.counters.answers[401] == 1
    await until(lambda: stage.plane.records() != [])
    assert [(record["endpoint"], record["status"]) for record in stage.plane.records()] == [("ep-acme-open", 200)]

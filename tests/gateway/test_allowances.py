"""What a minute allows, through the gateway: 429 in OpenAI's shape, with its headers on every answer."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from provisioner.domain.snapshot import Allowance, KeyDigest, QueueGroup, Snapshot
from tests.gateway.conftest import Answer, Stage
from tests.gateway.stub import Received, make_key, make_route, make_snapshot

OTHER_SECRET = "tnt-acme-second"
ROUTES = ("chat", "second")


def bounded(stage: Stage, *keys: KeyDigest, group: Allowance | None = None) -> Snapshot:
    """Two routes of one group, with an allowance for the group or not."""
    routes = [replace(make_route(stage.backend, alias=alias), group="acme/shared") for alias in ROUTES]
    groups = (QueueGroup(name="acme/shared", slots=0, allowance=group),)
    return replace(make_snapshot(*routes, keys=keys, version=3), groups=groups)


def limits(answer: Answer) -> dict[str, str]:
    """The headers without `x-ratelimit-`."""
    told = {name.lower(): value for name, value in answer.headers.items()}
    return {name.removeprefix("x-ratelimit-"): value for name, value in told.items() if name.startswith("x-ratelimit-")}


def with_usage(tokens: int) -> bytes:
    """An engine's answer that used so many tokens."""
    body = json.dumps({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": tokens - 10}}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def test_requests_beyond_a_key_s_minute_are_429_with_openai_s_headers(stage: Stage) -> None:
    key = replace(make_key(), allowance=Allowance(requests_per_minute=2))
    await stage.publish(bounded(stage, key, make_key(OTHER_SECRET)))
    first, second = await stage.chat(), await stage.chat({"model": "second"})
    assert [answer.status for answer in (first, second)] == [200, 200]
    assert limits(first) == {"limit-requests": "2", "remaining-requests": "1", "reset-requests": "30s"}
    assert limits(second)["remaining-requests"] == "0"
    refused = await stage.chat()
    assert refused.status == 429
    assert 29 <= int(refused.headers["Retry-After"]) <= 30
    error = refused.error()
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "rate_limit_error")
    assert error["message"].startswith("The allowance of requests per minute is used up; retry in ")
    told = limits(refused)
    assert (told["limit-requests"], told["remaining-requests"]) == ("2", "0")
    assert told["reset-requests"].startswith(("59.", "1m0s"))
    other = await stage.chat(secret=OTHER_SECRET)
    assert (other.status, limits(other)) == (200, {})
    assert len(stage.replica.received) == 3


async def test_limits_that_an_engine_tells_pass_where_the_gateway_has_none_to_tell(stage: Stage) -> None:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        own = b"X-RateLimit-Limit-Requests: 7\r\nX-Own: 1\r\nX-RateLimit-Limit-Tokens: 9\r\n"
        writer.write(with_usage(20).replace(b"\r\n", b"\r\n" + own, 1))

    stage.replica.script = answer
    key = replace(make_key(), allowance=Allowance(requests_per_minute=2))
    await stage.publish(bounded(stage, key, make_key(OTHER_SECRET)))
    bound, free = await stage.chat(), await stage.chat(secret=OTHER_SECRET)
    told = [(name.lower(), value) for name, value in bound.headers.items() if "-limit-" in name.lower()]
    assert told == [("x-ratelimit-limit-requests", "2")]
    assert bound.headers["X-Own"] == "1"
    assert limits(free) == {"limit-requests": "7", "limit-tokens": "9"}


async def test_tokens_are_counted_when_the_engine_has_told_them(stage: Stage) -> None:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(with_usage(150))

    stage.replica.script = answer
    key = replace(make_key(), allowance=Allowance(tokens_per_minute=100))
    await stage.publish(bounded(stage, key))
    first = await stage.chat()
    assert limits(first) == {"limit-tokens": "100", "remaining-tokens": "100", "reset-tokens": "0s"}
    refused = await stage.chat()
    assert (refused.status, limits(refused)["remaining-tokens"]) == (429, "0")
    assert 30 <= int(refused.headers["Retry-After"]) <= 31
    assert refused.error()["message"].startswith("The allowance of tokens per minute is used up; retry in ")
    assert len(stage.replica.received) == 1


async def test_all_keys_of_a_group_share_its_allowance(stage: Stage) -> None:
    await stage.publish(
        bounded(stage, make_key(), make_key(OTHER_SECRET), group=Allowance(requests_per_minute=2, tokens_per_minute=99))
    )
    assert limits(await stage.chat())["remaining-requests"] == "1"
    told = limits(await stage.chat({"model": "second"}, secret=OTHER_SECRET))
    assert (told["remaining-requests"], told["remaining-tokens"]) == ("0", "99")
    assert [(await stage.chat(secret=secret)).status for secret in ("tnt-acme-secret", OTHER_SECRET)] == [429, 429]


async def test_raised_allowance_holds_at_once_and_what_was_used_stays_used(stage: Stage) -> None:
    key = replace(make_key(), allowance=Allowance(requests_per_minute=1))
    await stage.publish(bounded(stage, key))
    assert [(await stage.chat()).status for _ in range(2)] == [200, 429]
    more = replace(key, allowance=Allowance(requests_per_minute=3))
    await stage.publish(replace(bounded(stage, more), version=4))
    assert [(await stage.chat()).status for _ in range(3)] == [200, 200, 429]


async def test_request_that_finds_no_place_in_the_queue_has_used_its_part(stage: Stage) -> None:
    """As with OpenAI, where failed requests count."""
    key = replace(make_key(), allowance=Allowance(requests_per_minute=2))
    snapshot = bounded(stage, key)
    await stage.publish(replace(snapshot, groups=(QueueGroup(name="acme/shared", slots=1, depth=0),)))

    async def forever(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    stage.replica.script = forever
    running = asyncio.create_task(stage.chat())
    while stage.gateway._path.queue.status()["backends"][0]["active"] == 0:
        await asyncio.sleep(0.005)
    assert (await stage.chat()).status == 503
    assert (await stage.chat()).status == 429
    running.cancel()


async def test_callers_without_a_key_share_what_one_may_send(stage: Stage) -> None:
    nobody = KeyDigest(digest="", tenant="", allowance=Allowance(requests_per_minute=2))
    route = replace(make_route(stage.backend, tenant=""), is_open=True)
    await stage.publish(replace(make_snapshot(route, version=3), keys=(nobody,)))

    async def ask() -> Answer:
        return await stage.send("POST", "/v1/chat/completions", data=b'{"model":"chat"}')

    assert limits(await ask())["remaining-requests"] == "1"
    assert [(await ask()).status for _ in range(2)] == [200, 429]
    assert (await stage.send("POST", "/v1/chat/completions", data=b'{"model":"other"}')).status == 404

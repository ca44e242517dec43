"""What requests used is read from the answers, which pass untouched."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provisioner.gateway.config import UsageRecording
from tests.gateway.conftest import TEST_LIMITS, Stage, StageMaker, until
from tests.gateway.stub import SECRET, Received, Script, make_route, make_snapshot

USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
JSON = "application/json"
EVENTS = "text/event-stream"


def event(message: object) -> bytes:
    """One event."""
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def chunk(content: str, reason: str | None = None) -> dict[str, Any]:
    """One chunk of a chat."""
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": reason}
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


EXTRA = {**chunk(""), "choices": [], "usage": USAGE}
CHAT = event(chunk("Hel")) + event(chunk("lo")) + event(chunk("", "stop"))
DONE = b"data: [DONE]\n\n"


def answers(body: bytes, content_type: str, **fields: str) -> Script:
    """A replica that answers with this body, in chunks of seven bytes."""

    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        told = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{told}".encode())
        writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 7):
            piece = body[at : at + 7]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            if at % 70 == 0:
                await writer.drain()
        writer.write(b"0\r\n\r\n")

    return script


@pytest.fixture
async def stage(make_stage: StageMaker, tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage whose gateway writes its usage to a file and does not ask engines for more than callers do."""
    usage = UsageRecording(file=tmp_path / "usage.jsonl", asks_for_usage=False)
    async with make_stage(usage=usage) as stage:
        yield stage


async def record(stage: Stage, number: int = 1) -> dict[str, Any]:
    """The last record, once there are this many."""
    path = stage.config.usage.file
    assert path is not None
    await until(lambda: path.exists() and path.read_bytes().count(b"\n") >= number)
    lines = path.read_text().splitlines()
    assert len(lines) == number
    last: dict[str, Any] = json.loads(lines[-1])
    return last


async def test_stream_with_a_usage_chunk_is_told_by_its_tokens(stage: Stage) -> None:
    """MET-06: a stream with a usage chunk gives a row with tokens, latency and status."""
    stage.replica.script = answers(CHAT + event(EXTRA) + DONE, EVENTS)
    answer = await stage.chat({"model": "chat", "stream": True, "stream_options": {"include_usage": True}})
    assert answer.body == CHAT + event(EXTRA) + DONE
    told = await record(stage)
    assert (told["prompt_tokens"], told["completion_tokens"], told["finish_reason"]) == (9, 4, "stop")
    assert (told["status"], told["outcome"]) == (200, "ok")
    assert 0 <= told["ttfb_ms"] <= told["duration_ms"]
    assert told["bytes_out"] == len(answer.body)


async def test_stream_without_one_is_null_and_not_0(stage: Stage) -> None:
    """MET-06: without a usage chunk tokens are null."""
    stage.replica.script = answers(CHAT + DONE, EVENTS)
    assert (await stage.chat({"model": "chat", "stream": True})).body == CHAT + DONE
    told = await record(stage)
    assert (told["prompt_tokens"], told["completion_tokens"], told["finish_reason"]) == (None, None, "stop")


@pytest.mark.parametrize(
    ("path", "content_type", "body", "tokens"),
    [
        ("chat/completions", JSON, {"choices": [{"finish_reason": "length"}], "usage": USAGE}, (9, 4)),
        ("embeddings", JSON, {"data": [], "usage": {"prompt_tokens": 8, "total_tokens": 8}}, (8, 0)),
        ("responses", JSON, {"output": [], "usage": {"input_tokens": 5, "output_tokens": 6}}, (5, 6)),
        (
            "responses",
            EVENTS,
            {"type": "response.completed", "response": {"usage": {"input_tokens": 5, "output_tokens": 6}}},
            (5, 6),
        ),
        ("rerank", JSON, {"results": []}, (None, None)),
        ("rerank", "text/plain", {"usage": USAGE}, (None, None)),
    ],
)
async def test_every_kind_of_answer_is_told(
    stage: Stage, path: str, content_type: str, body: object, tokens: tuple[int | None, int | None]
) -> None:
    if path == "embeddings":
        await stage.publish(make_snapshot(replace(make_route(stage.backend), kind="embedding"), version=3))
    text = event(body) if content_type == EVENTS else json.dumps(body).encode()
    stage.replica.script = answers(text, content_type)
    sent = {"data": b'{"model":"chat"}', "headers": {"X-API-Key": SECRET, "Content-Type": JSON}}
    assert (await stage.send("POST", f"/v1/{path}?trace=secret", **sent)).body == text
    told = await record(stage)
    assert (told["prompt_tokens"], told["completion_tokens"]) == tokens
    assert told["path"] == f"/v1/{path}"


async def test_embeddings_of_megabytes_pass_and_are_told(stage: Stage) -> None:
    data = [{"index": number, "embedding": [0.123456789] * 2048} for number in range(100)]
    text = json.dumps({"data": data, "usage": {"prompt_tokens": 800, "total_tokens": 800}}).encode()

    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text))
        writer.write(text)

    stage.replica.script = script
    assert (await stage.chat()).body == text
    told = await record(stage)
    assert (told["prompt_tokens"], told["completion_tokens"], told["bytes_out"]) == (800, 0, len(text))


async def test_compressed_answer_passes_as_it_is_and_tells_nothing(stage: Stage) -> None:
    text = gzip.compress(json.dumps({"usage": USAGE}).encode())
    stage.replica.script = answers(text, JSON, content_encoding="gzip")
    headers = {"X-API-Key": SECRET, "Content-Type": JSON}
    async with stage.http.post(
        f"{stage.url}/v1/chat/completions", data=b'{"model":"chat"}', headers=headers, auto_decompress=False
    ) as answer:
        assert await answer.read() == text
    told = await record(stage)
    assert (told["prompt_tokens"], told["completion_tokens"]) == (None, None)


async def test_caller_who_leaves_is_told_apart_from_a_replica_that_breaks_off(stage: Stage) -> None:
    """A request that its caller left is client_cancelled, with the tokens that were told by then."""
    gone = asyncio.Event()

    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        told = event({**chunk("Hel"), "usage": {"prompt_tokens": 9, "completion_tokens": 1}})
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%b\r\n" % (len(told), told))
        await writer.drain()
        await gone.wait()
        writer.close()

    stage.replica.script = script
    headers = {"X-API-Key": SECRET}
    async with stage.http.post(f"{stage.url}/v1/chat/completions", data=b'{"model":"chat"}', headers=headers) as answer:
        await answer.content.readany()
        answer.close()
    told = await record(stage)
    assert (told["outcome"], told["status"], told["completion_tokens"]) == ("client_cancelled", 200, 1)
    gone.set()
    with pytest.raises(Exception, match="payload"):
        await stage.chat()
    assert (await record(stage, 2))["outcome"] == "upstream_failed"


async def engine(request: Received, writer: asyncio.StreamWriter) -> None:
    """An engine that tells the usage of a stream to whoever asks for it."""
    asked = json.loads(request.body)
    asks = (asked.get("stream_options") or {}).get("include_usage") is True
    await answers(CHAT + (event(EXTRA) if asks else b"") + DONE, EVENTS)(request, writer)


@pytest.fixture
async def asking(make_stage: StageMaker, tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage whose gateway asks the engine for the usage of every stream, as it does unless it is told otherwise."""
    async with make_stage(usage=UsageRecording(file=tmp_path / "usage.jsonl")) as stage:
        stage.replica.script = engine
        yield stage


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
async def test_engine_is_asked_for_what_the_caller_did_not_ask_and_the_caller_does_not_get_it(
    asking: Stage, path: str
) -> None:
    """MET-06: a stream whose caller did not ask for usage has its tokens told, and the same bytes."""
    sent = b'{"model":"chat", "big": 12345678901234567890.10, "stream":true}'
    headers = {"X-API-Key": SECRET, "Content-Type": JSON, "Accept-Encoding": "gzip"}
    assert (await asking.send("POST", f"/v1/{path}", data=sent, headers=headers)).body == CHAT + DONE
    told = await record(asking)
    assert (told["prompt_tokens"], told["completion_tokens"], told["finish_reason"]) == (9, 4, "stop")
    assert told["bytes_out"] == len(CHAT + DONE)
    assert 0 <= told["ttfb_ms"] <= told["ttft_ms"] <= told["duration_ms"]
    [received] = asking.replica.received
    assert json.loads(received.body)["stream_options"] == {"include_usage": True}
    assert b'"big": 12345678901234567890.10' in received.body
    assert received.header("accept-encoding") == "identity"


async def test_answer_whose_length_was_told_passes_whole(asking: Stage) -> None:
    """What is taken out of it would be missing."""
    text = CHAT + event(EXTRA) + DONE

    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(text))
        writer.write(text)

    asking.replica.script = script
    async with asyncio.timeout(30):
        assert (await asking.chat({"model": "chat", "stream": True})).body == text
    assert (await record(asking))["prompt_tokens"] == 9


async def test_caller_who_asks_gets_what_it_asked_for(asking: Stage) -> None:
    body = {"model": "chat", "stream": True, "stream_options": {"include_usage": True}}
    answer = await asking.chat(body)
    assert answer.body == CHAT + event(EXTRA) + DONE
    assert (await record(asking))["completion_tokens"] == 4


async def test_request_is_left_alone_when_the_operator_wants_that(stage: Stage) -> None:
    """USAGE_INJECT=off: tokens are null."""
    stage.replica.script = engine
    sent = b'{"model":"chat","stream":true}'
    assert (await stage.chat(sent)).body == CHAT + DONE
    assert (await record(stage))["completion_tokens"] is None
    assert stage.replica.received[0].body == b'{"model":"served/chat","stream":true}'


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("responses", {"model": "chat", "stream": True}),
        ("chat/completions", {"model": "chat"}),
        ("chat/completions", {"model": "chat", "stream": False}),
        ("rerank", {"model": "chat", "stream": True}),
    ],
)
async def test_engine_is_asked_only_for_what_it_knows(asking: Stage, path: str, body: object) -> None:
    await asking.send("POST", f"/v1/{path}", data=json.dumps(body), headers={"X-API-Key": SECRET, "Content-Type": JSON})
    assert "stream_options" not in json.loads(asking.replica.received[0].body)


async def test_official_client_sees_a_stream_as_any_other(asking: Stage) -> None:
    """GW-09: a client that did not ask for usage meets no chunk without choices; one that did gets the usage."""
    openai = pytest.importorskip("openai", reason="needs openai: pip install 'tenantry[demo]'")
    async with openai.AsyncOpenAI(base_url=f"{asking.url}/v1", api_key=SECRET, max_retries=0) as client:
        plain = {"model": "chat", "messages": [{"role": "user", "content": "Hello"}], "stream": True}
        chunks = [chunk async for chunk in await client.chat.completions.create(**plain)]
        assert "".join(chunk.choices[0].delta.content for chunk in chunks) == "Hello"
        assert not any(chunk.usage for chunk in chunks)
        options = {"include_usage": True}
        chunks = [one async for one in await client.chat.completions.create(**plain, stream_options=options)]
        assert chunks[-1].usage.completion_tokens == 4
    assert (await record(asking, 2))["prompt_tokens"] == 9


async def test_comments_stand_between_events_while_one_is_held_back(make_stage: StageMaker) -> None:
    """A keep-alive comment and a hidden chunk do not meet: what is held back is not the caller's yet."""
    told = event(EXTRA)

    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (CHAT, told[:30], told[30:] + DONE):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(0.6)
        writer.write(b"0\r\n\r\n")

    async with make_stage(limits=replace(TEST_LIMITS, comment_seconds=0.1)) as stage:
        stage.replica.script = script
        body = (await stage.chat({"model": "chat", "stream": True})).body
    comment = b": keep-alive\n\n"
    assert body.replace(comment, b"") == CHAT + DONE
    assert body.startswith(CHAT + comment)

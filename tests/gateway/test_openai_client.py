"""The official client, unchanged but for its base URL and key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.gateway.conftest import Stage
from tests.gateway.stub import SECRET, Received

pytest.importorskip("openai", reason="needs openai: pip install 'tenantry[demo]'")

import openai
from openai.types.chat import ChatCompletionMessageParam

CHAT = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "served/chat",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
}


async def engine(request: Received, writer: asyncio.StreamWriter) -> None:
    """Answers like a model server that knows one model."""
    if "transcriptions" in request.line:
        assert b"served/chat" in request.body
        assert b"RIFF" in request.body
        _answer(writer, {"text": "hello world"})
    elif "embeddings" in request.line:
        assert json.loads(request.body)["model"] == "served/chat"
        _answer(
            writer, {"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": [1.0]}]}
        )
    elif json.loads(request.body).get("stream"):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for word in ("Hel", "lo"):
            delta = {**CHAT, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": word}}]}
            event = f"data: {json.dumps(delta)}\n\n".encode()
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
    else:
        assert json.loads(request.body)["model"] == "served/chat"
        _answer(writer, CHAT)


def _answer(writer: asyncio.StreamWriter, content: object) -> None:
    body = json.dumps(content).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    writer.write(head + body)


@pytest.fixture
async def client(stage: Stage) -> AsyncIterator[openai.AsyncOpenAI]:
    """The client against a stage whose replica speaks like a model server."""
    stage.replica.script = engine
    async with openai.AsyncOpenAI(base_url=f"{stage.url}/v1", api_key=SECRET, max_retries=0) as client:
        yield client


async def test_chat_stream_models_embeddings_and_transcription_work_unchanged(client: openai.AsyncOpenAI) -> None:
    """Ledger: GW-09."""
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello"}]
    chat = await client.chat.completions.create(model="chat", messages=messages)
    assert chat.choices[0].message.content == "Hello"
    stream = await client.chat.completions.create(model="chat", messages=messages, stream=True)
    assert [event.choices[0].delta.content async for event in stream] == ["Hel", "lo"]
    assert [model.id async for model in client.models.list()] == ["chat"]
    assert (await client.models.retrieve("chat")).owned_by == "acme"
    assert (await client.embeddings.create(model="chat", input="x")).data[0].embedding == [1.0]
    speech = ("speech.wav", b"RIFF" + bytes(32_000), "audio/wav")
    assert (await client.audio.transcriptions.create(model="chat", file=speech)).text == "hello world"


async def test_refusals_become_the_client_s_own_exceptions(client: openai.AsyncOpenAI, stage: Stage) -> None:
    """Ledger: GW-09."""
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="nowhere", messages=[])
    assert unknown.value.code == "model_not_found"
    assert unknown.value.request_id
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="tnt-wrong").models.list()

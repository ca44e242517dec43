"""The official Python client, unchanged but for its base URL and key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.alone import Alone, alone, key_line
from tests.gateway.llama import llama_server
from tests.gateway.model_server import model_server

pytest.importorskip("openai", reason="needs openai: pip install 'tenantry[demo]'")

import openai
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

SECRET = "tnt-secret"
MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello"}]
TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Alone]:
    """A gateway with one key in front of an engine for every lane."""
    (tmp_path / "keys").write_text(key_line(SECRET))
    backends = {"BACKEND_EMBEDDING": "<general>", "BACKEND_VOXTRAL": "<general>", "UPSTREAM_MODEL_GENERAL": "llama-3"}
    async with alone(TENANTRY_KEYS_FILE=str(tmp_path / "keys"), **backends) as stage:
        stage.engines["general"].script = model_server
        yield stage


@pytest.fixture
async def client(stage: Alone) -> AsyncIterator[openai.AsyncOpenAI]:
    """The client of that gateway."""
    async with _client(stage, SECRET) as client:
        yield client


def _client(stage: Alone, key: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{stage.gateway.port}/v1", api_key=key, max_retries=0)


async def test_chat_and_stream(client: openai.AsyncOpenAI, stage: Alone) -> None:
    """Ledger: GW-09."""
    chat = await client.chat.completions.create(model="general", messages=MESSAGES)
    assert chat.choices[0].message.content == "Hello"
    assert chat.usage is not None
    assert chat.usage.total_tokens == 7
    stream = await client.chat.completions.create(model="coder", messages=MESSAGES, stream=True)
    events = [event async for event in stream]
    assert [event.choices[0].delta.content for event in events] == ["Hel", "lo", None]
    assert all(event.usage is None for event in events)
    assert stage.asked("general") == ["llama-3", "llama-3"]


async def test_stream_with_usage_that_the_caller_asked_for(client: openai.AsyncOpenAI) -> None:
    """Ledger: GW-09."""
    stream = await client.chat.completions.create(
        model="general", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    *_, last = [event async for event in stream]
    assert not last.choices
    assert last.usage is not None
    assert last.usage.completion_tokens == 2


async def test_tools_are_called_at_once_and_in_a_stream(client: openai.AsyncOpenAI) -> None:
    """Ledger: GW-09."""
    chat = await client.chat.completions.create(model="general", messages=MESSAGES, tools=TOOLS)
    assert chat.choices[0].message.tool_calls is not None
    [call] = chat.choices[0].message.tool_calls
    assert call.type == "function"
    assert (call.function.name, call.function.arguments) == ("weather", '{"city":"Oslo"}')
    async with client.chat.completions.stream(model="general", messages=MESSAGES, tools=TOOLS) as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.choices[0].message.tool_calls is not None
    assert final.choices[0].message.tool_calls[0].function.arguments == '{"city":"Oslo"}'


async def test_models_embeddings_and_transcription(client: openai.AsyncOpenAI) -> None:
    """Ledger: GW-09, RUN-02."""
    assert [model.id async for model in client.models.list()] == ["general", "coder", "vision", "embedding", "voxtral"]
    assert (await client.models.retrieve("coder")).id == "coder"
    embedded = await client.embeddings.create(model="embedding", input="x", encoding_format="float")
    assert embedded.data[0].embedding == [0.5, 0.25]
    speech = ("speech.wav", b"RIFF" + bytes(32_000), "audio/wav")
    assert (await client.audio.transcriptions.create(model="voxtral", file=speech)).text == "hello world"


async def test_responses_completions_and_what_no_client_knows_yet(client: openai.AsyncOpenAI) -> None:
    """Ledger: GW-09. Other paths and fields pass as they are."""
    answer = await client.responses.create(model="general", input="there")
    assert answer.output_text == "Hello there"
    completed = await client.completions.create(model="general", prompt="Say hello")
    assert completed.choices[0].text == "Hello"
    asked = {"model": "general", "novel": {"big": 12345678901234567890}}
    passed = await client.post("/score/all?x=1", body=asked, cast_to=dict[str, object])
    assert passed == {"path": "/v1/score/all?x=1", "asked": {**asked, "model": "llama-3"}}


async def test_refusals_become_the_client_s_own_exceptions(client: openai.AsyncOpenAI) -> None:
    """Ledger: GW-09."""
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="nowhere", messages=[])
    assert unknown.value.code == "model_not_found"
    assert unknown.value.request_id
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="tnt-wrong").models.list()


async def test_real_engine_answers_behind_the_gateway(tmp_path: Path) -> None:
    """Ledger: GW-09. llama.cpp with a small model, two requests at once, one of them streamed."""
    async with (
        llama_server(tmp_path, "tiny") as url,
        alone(BACKEND_GENERAL=url, UPSTREAM_MODEL_GENERAL="tiny", CONCURRENCY_GENERAL="2") as stage,
        _client(stage, "any") as client,
    ):
        chat, stream = await asyncio.gather(
            client.chat.completions.create(model="general", messages=MESSAGES, max_tokens=8),
            client.chat.completions.create(model="coder", messages=MESSAGES, max_tokens=8, stream=True),
        )
        streamed = "".join([event.choices[0].delta.content or "" async for event in stream])
        assert chat.choices[0].message.content
        assert streamed
        assert chat.usage is not None
        assert 1 <= chat.usage.completion_tokens <= 8

"""Talking to an endpoint: a streamed answer, and every way it can be refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from provisioner.client.inference import stream_chat
from provisioner.domain.errors import RejectedError, RetryableError, TenantryError

EVENTS = (
    'data: {"choices": [{"delta": {"role": "assistant"}}]}\n\n'
    'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n'
    ": a comment\n\n"
    'data: {"choices": [{"delta": {"content": "lo"}}]}\n\n'
    'data: {"choices": []}\n\n'
    "data: no json\n\n"
    "data: [DONE]\n\n"
)


@asynccontextmanager
async def server(answer: Callable[[bytes], str]) -> AsyncIterator[str]:
    """An HTTP server on loopback that gives one raw answer to each request; its URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(head).encode())
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"


def answer_of(status: str, body: str) -> Callable[[bytes], str]:
    return lambda _: f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"


async def talk(url: str, secret: str | None = "tnt-secret") -> list[str]:
    return [piece async for piece in stream_chat(url, secret, alias="chat", text="hi", max_tokens=5)]


async def test_an_answer_comes_in_pieces_and_with_the_customers_key() -> None:
    """Ledger: CLI-02, SEC-08."""
    heads: list[bytes] = []

    def answer(head: bytes) -> str:
        heads.append(head)
        return answer_of("200 OK", EVENTS)(head)

    async with server(answer) as url:
        assert await talk(url) == ["Hel", "lo"]
        assert await talk(url, None) == ["Hel", "lo"]
    assert b"authorization: bearer tnt-secret" in heads[0].lower()
    assert heads[0].startswith(b"POST /v1/chat/completions ")
    assert b"authorization" not in heads[1].lower()


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        ("401 Unauthorized", '{"error": {"message": "Invalid API key"}}', RejectedError, "Invalid API key"),
        ("404 Not Found", "<html>", RejectedError, "no reason given"),
        ("503 Service Unavailable", '{"error": {"message": "none ready"}}', RetryableError, "none ready"),
        ("429 Too Many", "{}", RetryableError, "429"),
        ("200 OK", 'data: {"error": {"message": "out of memory"}}\n\n', RetryableError, "out of memory"),
    ],
)
async def test_a_refusal_is_told_in_our_words(status: str, body: str, error: type[TenantryError], words: str) -> None:
    async with server(answer_of(status, body)) as url:
        with pytest.raises(error, match=words) as caught:
            await talk(url)
    assert "tnt-secret" not in str(caught.value)
    assert ("TENANTRY_API_KEY" in (caught.value.hint or "")) == status.startswith("401")


async def test_a_gateway_that_is_not_there_is_retryable() -> None:
    async with server(answer_of("200 OK", "")) as url:
        pass
    with pytest.raises(RetryableError) as caught:
        await talk(url)
    assert caught.value.reason == "Unreachable"

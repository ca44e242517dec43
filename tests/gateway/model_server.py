"""A replica's script: answers like a model server, as far as the official clients look."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.gateway.stub import Received

USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}


async def model_server(request: Received, writer: asyncio.StreamWriter) -> None:
    """Says `Hello`, calls a tool where there is one, embeds, and hears `hello world`."""
    path = request.line.split(" ")[1]
    if path == "/v1/audio/transcriptions":
        assert b"RIFF" in request.body
        _answer(writer, {"text": "hello world"})
        return
    asked = json.loads(request.body)
    if path == "/v1/embeddings":
        vector = {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}
        _answer(writer, {"object": "list", "model": asked["model"], "data": [vector], "usage": USAGE})
    elif path == "/v1/chat/completions":
        if asked.get("stream"):
            _stream(writer, _chunks(asked))
        else:
            _answer(writer, _completion(asked))
    elif path == "/v1/responses":
        text = {"type": "output_text", "text": f"Hello {asked['input']}", "annotations": []}
        said = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
        _answer(writer, {"id": "resp_1", "object": "response", "model": asked["model"], "output": [said]})
    elif path == "/v1/completions":
        choice = {"index": 0, "text": "Hello", "finish_reason": "stop", "logprobs": None}
        _answer(writer, {**_head(asked, "text_completion"), "choices": [choice], "usage": USAGE})
    else:
        _answer(writer, {"path": path, "asked": asked})


def _completion(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "Hello"}
    if asked.get("tools"):
        message = {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}
    reason = "tool_calls" if asked.get("tools") else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {**_head(asked, "chat.completion"), "choices": [choice], "usage": USAGE}


def _chunks(asked: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    head = _head(asked, "chat.completion.chunk")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "Hel"}, {"content": "lo"}]
    if asked.get("tools"):
        begun = {"index": 0, **TOOL_CALL, "function": {"name": "weather", "arguments": '{"city"'}}
        rest = {"index": 0, "function": {"arguments": ':"Oslo"}'}}
        deltas = [{"role": "assistant", "content": None, "tool_calls": [begun]}, {"tool_calls": [rest]}]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    reason = "tool_calls" if asked.get("tools") else "stop"
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if (asked.get("stream_options") or {}).get("include_usage"):
        chunks.append({**head, "choices": [], "usage": USAGE})
    return chunks


def _head(asked: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": asked["model"]}


def _answer(writer: asyncio.StreamWriter, content: object) -> None:
    body = json.dumps(content).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    writer.write(head + body)


def _stream(writer: asyncio.StreamWriter, chunks: Sequence[Mapping[str, Any]]) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for data in (*(json.dumps(chunk) for chunk in chunks), "[DONE]"):
        event = f"data: {data}\n\n".encode()
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))
    writer.write(b"0\r\n\r\n")

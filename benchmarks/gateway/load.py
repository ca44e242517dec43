"""The two ends of a proxy: a model server that answers at once, or a chunk at a time, and callers of both.

All are bare protocols, so that the proxy between them is what the machine spends its time on. Each runs in a process of
its own and prints what it found as one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from typing import cast

import httptools
import uvloop

_TEXT = "The quick brown fox jumps over the lazy dog. " * 18
_MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": _TEXT}]
_USAGE = {"prompt_tokens": 180, "completion_tokens": 64, "total_tokens": 244}
_CHOICE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": _TEXT}}
_ANSWER_BODY = json.dumps(
    {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [_CHOICE], "usage": _USAGE}
).encode()
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_ANSWER_BODY),
    _ANSWER_BODY,
)
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_GROUPS = 10
"""Streams are written in so many groups, one after the other, as the steps of several engines would."""


def _chunk(choices: list[object], **more: object) -> bytes:
    told = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}
    event = b"data: %b\n\n" % json.dumps(told).encode()
    return b"%x\r\n%b\r\n" % (len(event), event)


_PIECE = _chunk([{"index": 0, "delta": {"content": " fox"}, "finish_reason": None}])
_LAST = _chunk([], usage=_USAGE) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class ModelServer(asyncio.Protocol):
    """Answers with a kilobyte, or with a stream when the request's path asks for one: `/v1/chat/completions?n=…&s=…`
    sends n chunks, one every s seconds."""

    streams: list[ModelServer]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A proxy has connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""

    def data_received(self, data: bytes) -> None:
        """Reads on."""
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self._url += url

    def on_message_complete(self) -> None:
        """A request is whole."""
        url, self._url = self._url, b""
        if b"?n=" not in url:
            self._transport.write(_ANSWER)
            return
        number, _, seconds = url.partition(b"?n=")[2].partition(b"&s=")
        asyncio.get_running_loop().create_task(self._stream(int(number), float(seconds)))

    async def _stream(self, number: int, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._transport.write(_STREAM_HEAD)
        group = id(self) // 64 % _GROUPS
        begin = loop.time() // seconds * seconds + seconds * (1 + group / _GROUPS)
        for step in range(number):
            await asyncio.sleep(begin + step * seconds - loop.time())
            if self._transport.is_closing():
                return
            self._transport.write(_PIECE)
        self._transport.write(_LAST)


class Caller(asyncio.Protocol):
    """One keep-alive connection: the next request goes out when the last is answered. Counts chunks too."""

    def __init__(self, request: bytes, latencies: list[float], *, repeats: bool) -> None:
        self.chunks = 0
        self.failures = 0
        self.is_done = False
        self._request = request
        self._latencies = latencies
        self._repeats = repeats

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts asking."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpResponseParser(self)
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Reads on."""
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody may hang up on us."""
        if not self.is_done:
            self.failures += 1

    def on_body(self, body: bytes) -> None:
        """Some of the answer."""
        self.chunks += body.count(b"data: {")

    def on_message_complete(self) -> None:
        """An answer is whole."""
        if self._parser.get_status_code() != 200:
            self.failures += 1
        self._latencies.append(time.perf_counter() - self._asked)
        if self._repeats:
            self._ask()
        else:
            self.is_done = True

    def end(self) -> None:
        """Hangs up."""
        self.is_done = True
        self._transport.abort()

    def _ask(self) -> None:
        self._asked = time.perf_counter()
        self._transport.write(self._request)


def _request(key: str, model: str, *, stream: str) -> bytes:
    body = json.dumps(
        {"model": model, "messages": _MESSAGES, "temperature": 0.2, "max_tokens": 64, "stream": bool(stream)}
    ).encode()
    return (
        f"POST /v1/chat/completions{stream} HTTP/1.1\r\nHost: chat.example.com\r\nAuthorization: Bearer {key}\r\n"
        "Accept: application/json\r\nAccept-Encoding: gzip, deflate\r\nUser-Agent: OpenAI/Python 2.0.0\r\n"
        "X-Stainless-Lang: python\r\nX-Stainless-Retry-Count: 0\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def serve() -> None:
    """Listens on a free port, prints it, and serves until it is ended."""
    server = await asyncio.get_running_loop().create_server(ModelServer, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def call(options: argparse.Namespace) -> None:
    """Asks for some seconds over some connections; prints requests, failures, chunks, and latencies in ms."""
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    stream = f"?n={options.chunks}&s={options.pace}" if options.chunks else ""
    request = _request(options.key, options.model, stream=stream)
    callers = []
    for _ in range(options.connections):
        _, caller = await loop.create_connection(
            lambda: Caller(request, latencies, repeats=not options.chunks), "127.0.0.1", options.port
        )
        callers.append(caller)
    deadline = loop.time() + options.seconds
    while loop.time() < deadline and not all(caller.is_done for caller in callers):
        await asyncio.sleep(0.05)
    cuts = statistics.quantiles(latencies, n=100) if len(latencies) > 1 else [0.0] * 99
    found = {
        "requests": len(latencies),
        "failures": sum(caller.failures for caller in callers),
        "chunks": sum(caller.chunks for caller in callers),
        "p50_ms": cuts[49] * 1e3,
        "p99_ms": cuts[98] * 1e3,
    }
    print(json.dumps(found), flush=True)
    for caller in callers:
        caller.end()


def main() -> None:
    """`load.py server`, or `load.py callers --port …`."""
    if sys.argv[1] == "server":
        uvloop.run(serve())
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--model", default="chat")
    parser.add_argument("--chunks", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.02)
    uvloop.run(call(parser.parse_args(sys.argv[2:])))


if __name__ == "__main__":
    main()

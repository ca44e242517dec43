"""The two ends of a proxy benchmark: a backend that answers at once, and callers that ask as fast as they are answered.

Both are bare protocols, so that the proxy between them is what the machine spends its time on. Each runs in a process
of its own: `python _http_load.py backend`, or `… callers URL-PORT CONNECTIONS SECONDS HEADERS`.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from typing import cast

import httptools
import uvloop

_TEXT = "The quick brown fox jumps over the lazy dog. " * 18
REQUEST_BODY = json.dumps(
    {
        "model": "chat",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": _TEXT}],
        "temperature": 0.2,
        "max_tokens": 64,
        "stream": False,
    }
).encode()
_ANSWER_BODY = json.dumps(
    {"id": "c", "object": "chat.completion", "choices": [{"message": {"content": _TEXT}}]}
).encode()
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_ANSWER_BODY),
    _ANSWER_BODY,
)


class Backend(asyncio.Protocol):
    """Answers every request with the same kilobyte."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A proxy has connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        """Reads on."""
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._transport.write(_ANSWER)


class Caller(asyncio.Protocol):
    """One keep-alive connection: the next request goes out when the last is answered."""

    def __init__(self, request: bytes, latencies: list[float]) -> None:
        self._request = request
        self._latencies = latencies

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts asking."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpResponseParser(self)
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Reads on."""
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """An answer is whole."""
        if self._parser.get_status_code() != 200:
            raise SystemExit(f"answered with status {self._parser.get_status_code()}")
        self._latencies.append(time.perf_counter() - self._asked)
        self._ask()

    def _ask(self) -> None:
        self._asked = time.perf_counter()
        self._transport.write(self._request)


async def serve_backend() -> None:
    """Listens on a free port, prints it, and serves until it is ended."""
    server = await asyncio.get_running_loop().create_server(Backend, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def call(port: int, connections: int, seconds: float, key: str) -> None:
    """Asks for `seconds` over `connections`, then prints requests, and the median and 99th percentile in ms."""
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: chat.example.com\r\nAuthorization: Bearer {key}\r\n"
        "Accept: application/json\r\nAccept-Encoding: gzip, deflate\r\nUser-Agent: OpenAI/Python 2.0.0\r\n"
        "X-Stainless-Lang: python\r\nX-Stainless-Retry-Count: 0\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(REQUEST_BODY)}\r\n\r\n"
    )
    latencies: list[float] = []
    loop, request = asyncio.get_running_loop(), head.encode() + REQUEST_BODY
    made = [
        await loop.create_connection(lambda: Caller(request, latencies), "127.0.0.1", port) for _ in range(connections)
    ]
    await asyncio.sleep(seconds)
    cuts = statistics.quantiles(latencies, n=100)
    print(json.dumps({"requests": len(latencies), "p50_ms": cuts[49] * 1e3, "p99_ms": cuts[98] * 1e3}), flush=True)
    for transport, _ in made:
        transport.abort()


if __name__ == "__main__":
    if sys.argv[1] == "backend":
        uvloop.run(serve_backend())
    else:
        _, _, port, connections, seconds, key = sys.argv
        uvloop.run(call(int(port), int(connections), float(seconds), key))

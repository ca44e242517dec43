"""A model server for tests of routing: a health page, a list of models, small answers; each can be broken alone."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from provisioner.domain.snapshot import Backend
from tests.gateway.stub import Received, Replica

ANSWERS: Mapping[str, Any] = {
    "/v1/chat/completions": {"choices": [{"message": {"content": ""}, "finish_reason": "length"}]},
    "/v1/embeddings": {"data": [{"embedding": [0.5]}]},
    "/v1/audio/transcriptions": {"text": ""},
}


class Engine(Replica):
    """Serves `model`. What it answers besides is in `broken`: a status by path."""

    def __init__(self, name: str, model: str = "served/chat") -> None:
        super().__init__()
        self.name = name
        self.model = model
        self.broken: dict[str, int] = {}
        self.poison: bytes | None = None
        """What makes it fail over a request that holds it."""
        self.body: Any = None
        """Instead of its usual answers."""
        self.seconds = 0.0
        """How long an answer takes."""
        self.asked: Counter[str] = Counter()
        """By path."""
        self.running = 0
        self.script = self._answer

    @property
    def backend(self) -> Backend:
        """As a snapshot names it."""
        return Backend(host=f"{self.name}.example.com", address=f"127.0.0.1:{self.port}", tls=False)

    @property
    def chats(self) -> int:
        """Chat requests that came in."""
        return self.asked["/v1/chat/completions"]

    async def _answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        path = request.line.split(" ")[1]
        self.asked[path] += 1
        self.running += 1
        try:
            status, body = await self._think(path, request.body)
        finally:
            self.running -= 1
        content = json.dumps(body).encode()
        writer.write(
            b"HTTP/1.1 %d Said\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(content))
        )
        writer.write(content)

    async def _think(self, path: str, asked: bytes) -> tuple[int, Any]:
        if path == "/health":
            return self.broken.get(path, 200), {}
        if path == "/v1/models":
            return self.broken.get(path, 200), {"data": [{"id": self.model}]}
        await asyncio.sleep(self.seconds)
        if path not in ANSWERS:
            return 404, {}
        if self.poison is not None and self.poison in asked:
            return 500, {"error": {"message": "out of memory", "type": "server_error"}}
        return self.broken.get(path, 200), ANSWERS[path] if self.body is None else self.body

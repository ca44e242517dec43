"""A replica that answers when it is told to, and requests that are told apart by a name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.gateway.conftest import Answer, Stage, until
from tests.gateway.stub import OK, SECRET, Received


class Held:
    """A replica's script: every request waits for `release`, one after the other."""

    def __init__(self) -> None:
        self.names: list[str] = []
        """Of the requests that have come, in their order."""
        self._released: dict[str, asyncio.Event] = {}

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        """Answers once its time has come; the gateway's own questions at once."""
        name = request.header("x-name")
        if name is None:
            writer.write(OK)
            return
        self.names.append(name)
        await self._event(name).wait()
        writer.write(OK)

    def release(self, *names: str) -> None:
        """Lets these be answered, come or still to come."""
        for name in names:
            self._event(name).set()

    async def came(self, *names: str) -> None:
        """Waits until these have come, in this order, and no other."""
        await until(lambda: len(self.names) >= len(names))
        assert self.names == list(names)

    def _event(self, name: str) -> asyncio.Event:
        return self._released.setdefault(name, asyncio.Event())


class Crowd:
    """Callers who send one request each and wait for its answer."""

    def __init__(self, stage: Stage) -> None:
        self.held = Held()
        self.sent: dict[str, asyncio.Task[Answer]] = {}
        self._stage = stage
        stage.replica.script = self.held

    async def send(
        self, name: str, *, model: str = "chat", secret: str = SECRET, headers: Mapping[str, str] | None = None
    ) -> None:
        """Sends a request and waits until it is on its way, in the queue, or answered."""
        before = self._known()
        task = asyncio.create_task(
            self._stage.chat({"model": model}, secret=secret, headers={"X-Name": name, **(headers or {})})
        )
        self.sent[name] = task
        await until(lambda: task.done() or self._known() > before)

    async def answer(self, name: str) -> Answer:
        """The answer to that request."""
        return await asyncio.wait_for(self.sent[name], 30)

    async def finish(self) -> None:
        """Lets everything be answered."""
        self.held.release(*self.sent)
        await asyncio.gather(*self.sent.values())

    def queued(self, backend: str = "ep-acme-chat") -> tuple[int, int, int]:
        """How many are served, and wait as interactive and as background."""
        row = self._row(backend)
        return row["active"], row["queued"]["interactive"], row["queued"]["background"]

    def _row(self, backend: str) -> Mapping[str, Any]:
        rows = self._stage.gateway._path.queue.status()["backends"]
        return next(row for row in rows if row["backend"] == backend)

    def _known(self) -> int:
        """Requests that have reached the replica, wait for their turn, or were turned away."""
        turned_away = sum(task.done() for name, task in self.sent.items() if name not in self.held.names)
        waiting = sum(sum(row["queued"].values()) for row in self._stage.gateway._path.queue.status()["backends"])
        return len(self.held.names) + waiting + turned_away

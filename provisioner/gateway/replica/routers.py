"""Local routers for endpoints that are balanced by what replicas have in their caches: one process per endpoint.

A router stands in front of exactly the replicas that are healthy now. When these change, requests go to replicas
directly, a new process is started, and once it serves it takes the requests; the old one ends when its last request
has. A process that dies is started again, later each time; until it serves, requests go directly. Each process that
serves is a generation of its endpoint, of this gateway instance. The gateway runs one `Routers` for its life.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from operator import itemgetter

from provisioner.gateway.replica.dialer import Dialer
from provisioner.gateway.replica.router_connection import Passage
from provisioner.gateway.replica.router_process import RouterProcess, is_installed, start_router
from provisioner.gateway.replica.turns import Turns
from provisioner.gateway.replica.worker_set import Generation, WorkerSet, worker_set

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
_STEADY_SECONDS = 60.0
"""A process that has served for so long has not failed at its start."""


class Routers:
    """The routers of one gateway, `most` at most. `passage` is the way from them to the replicas."""

    def __init__(self, passage: Passage, dialer: Dialer, *, instance: str, most: int) -> None:
        self._passage = passage
        self._replicas = passage.replicas
        self._dialer = dialer
        self._instance = instance
        self._most = most
        self._supervisions: dict[str, _Supervision] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._direct: dict[str, str] = {}
        """Why an endpoint has no router though it asks for one; told once."""

    @property
    def generations(self) -> Sequence[Generation]:
        """Those that serve, by endpoint."""
        found = [(endpoint, one.generation) for endpoint, one in sorted(self._supervisions.items())]
        return [generation for _, generation in found if generation is not None]

    async def run(self) -> None:
        """Supervises until it is cancelled, and ends every process then."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._look(loop.time())
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            await asyncio.gather(*(one.close() for one in self._supervisions.values()), *self._ending)

    def _look(self, now: float) -> None:
        wanted = self._wanted()
        for endpoint in [endpoint for endpoint in self._supervisions if endpoint not in wanted]:
            task = asyncio.create_task(self._supervisions.pop(endpoint).close())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        for endpoint, turns in wanted.items():
            one = self._supervisions.get(endpoint)
            if one is None:
                one = _Supervision(endpoint, self._instance, self._passage, self._dialer)
                self._supervisions[endpoint] = one
            one.look(turns, now)

    def _wanted(self) -> dict[str, Turns]:
        """The endpoints that get a router: those that can have one, the first by name when there are too many."""
        wanted: dict[str, Turns] = {}
        reasons: dict[str, str] = {}
        for endpoint, (route, turns) in sorted(self._replicas.cache_aware.items(), key=itemgetter(0)):
            if not is_installed():
                reasons[endpoint] = "it comes with the extra `router`: pip install 'tenantry[router]'"
            elif route.kind != "chat":
                reasons[endpoint] = f"its model keeps nothing of a prompt, being for: {route.kind}"
            elif len(wanted) == self._most:
                reasons[endpoint] = f"no more than {self._most} endpoints have one"
            else:
                wanted[endpoint] = turns
        for endpoint, reason in reasons.items():
            if self._direct.get(endpoint) != reason:
                extra = {"action": "router_refused", "endpoint": endpoint}
                _log.warning("balancing %s directly, without a router: %s", endpoint, reason, extra=extra)
        self._direct = reasons
        return wanted


class _Supervision:
    """The router of one endpoint."""

    def __init__(self, endpoint: str, instance: str, passage: Passage, dialer: Dialer) -> None:
        self.generation: Generation | None = None
        self._endpoint = endpoint
        self._instance = instance
        self._passage = passage
        self._replicas = passage.replicas
        self._dialer = dialer
        self._number = 0
        self._turns: Turns | None = None
        self._serving: RouterProcess | None = None
        self._served_since = 0.0
        self._retiring: list[RouterProcess] = []
        self._starting: asyncio.Task[None] | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._ending: set[asyncio.Task[None]] = set()

    def look(self, turns: Turns, now: float) -> None:
        """Brings the router in line with the replicas that are usable now."""
        self._retire()
        if self._serving is not None and self._serving.has_ended:
            turns.put_in_front(None)
            self._end(self._serving)
            self._serving = self.generation = None
            self._pause(now, was_steady=now - self._served_since >= _STEADY_SECONDS)
        self._turns, wanted = turns, worker_set(turns.usable)
        if self._serving is not None and self._serving.workers == wanted:
            self._put_in_front()
        elif self._starting is None and len(wanted.workers) > 1 and now >= self._retry_at:
            self._starting = asyncio.create_task(self._start(wanted))

    async def close(self) -> None:
        """Ends every process."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        processes = [*self._retiring, *([self._serving] if self._serving is not None else [])]
        await asyncio.gather(*(process.end() for process in processes), *self._ending)

    async def _start(self, workers: WorkerSet) -> None:
        loop, process = asyncio.get_running_loop(), None
        try:
            process = await start_router(workers, self._passage)
            if await process.wait_until_serving(self._dialer):
                self._serve(process, loop.time())
                process = None
            else:
                self._pause(loop.time(), was_steady=False)
        except OSError:
            self._pause(loop.time(), was_steady=False)
        finally:
            self._starting = None
            if process is not None:
                await process.end()

    def _serve(self, process: RouterProcess, now: float) -> None:
        """The process takes the place of the one before, which ends when its last request has."""
        if self._serving is not None:
            self._retiring.append(self._serving)
        self._serving, self._served_since = process, now
        self._put_in_front()
        self._number += 1
        self.generation = Generation(
            endpoint=self._endpoint,
            instance=self._instance,
            number=self._number,
            workers=process.workers.digest,
            replicas=tuple(worker.host for worker in process.workers.workers),
        )
        _log.info(
            "a router serves %s",
            self._endpoint,
            extra={
                "action": "router_serving",
                "endpoint": self._endpoint,
                "instance": self._instance,
                "generation": self._number,
                "workers": process.workers.digest,
            },
        )

    def _put_in_front(self) -> None:
        """Lets the process that serves take the requests, if it knows just those replicas that are usable now."""
        turns, serving = self._turns, self._serving
        if turns is None or serving is None or turns.front is serving.backend:
            return
        if serving.workers == worker_set(turns.usable):
            self._replicas.put_in_front(turns, serving.backend)

    def _pause(self, now: float, *, was_steady: bool) -> None:
        """A process has failed: the next one is started later each time, unless this one had served for long."""
        self._failures = 1 if was_steady else self._failures + 1
        pause = min(_FIRST_PAUSE_SECONDS * 2 ** (self._failures - 1), _LONGEST_PAUSE_SECONDS)
        self._retry_at = now + pause
        extra = {"action": "router_failed", "endpoint": self._endpoint, "pause_seconds": pause}
        _log.warning("balancing %s directly: its router has ended or did not serve", self._endpoint, extra=extra)

    def _retire(self) -> None:
        for process in [one for one in self._retiring if self._replicas.is_router_idle(one.backend)]:
            self._retiring.remove(process)
            self._end(process)

    def _end(self, process: RouterProcess) -> None:
        """Ends a process that has no requests, or is gone."""
        self._replicas.forget_router(process.backend)
        task = asyncio.create_task(process.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

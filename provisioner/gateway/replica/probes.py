"""Asks every replica again and again whether it is well, and proves those that were out before they come back. One
whose requests fail is asked at once.

A fixed number of probes run at once, spread over the interval. The gateway runs one `Probes` for its life and stops it
before it drains.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
from collections.abc import Coroutine
from random import Random

from provisioner.domain.decode_rate import DecodeRate
from provisioner.domain.small_request import LONGEST_ANSWER_TOKENS
from provisioner.domain.snapshot import Snapshot
from provisioner.gateway.config import Probing
from provisioner.gateway.replica.choice import Replicas
from provisioner.gateway.replica.dialer import Dialer
from provisioner.gateway.replica.probe import Probe
from provisioner.gateway.replica.turns import Replica
from provisioner.gateway.secrets import SecretReader

PROBES_AT_ONCE = 64
PROOFS_AT_ONCE = 16
EXAMINED_EVERY_SECONDS = 1.0
"""How often a suspect is examined at most, however many requests of one caller end in errors."""
_PAUSE_SECONDS = 0.05
_JITTER = 0.1


class Probes:
    """The probes of all replicas."""

    def __init__(
        self,
        rules: Probing,
        rate: DecodeRate,
        replicas: Replicas,
        dialer: Dialer,
        *,
        secret: SecretReader,
        random: Random,
    ) -> None:
        self._rules = rules
        self._proof_seconds = rate.seconds_for(LONGEST_ANSWER_TOKENS)
        self._replicas = replicas
        self._dialer = dialer
        self._secret = secret
        self._random = random
        self._alarm = asyncio.Event()
        replicas.alarm = self._alarm.set
        self._seen: Snapshot | None = None
        self._probes: dict[Replica, Probe] = {}
        self._due: list[tuple[float, int, Probe]] = []
        """A heap by time; the number keeps equal times apart."""
        self._number = 0
        self._looking: set[asyncio.Task[None]] = set()
        self._proving: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Probes until it is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                now = loop.time()
                self._replicas.tick(now)
                if self._seen is not self._replicas.surveyed:
                    self._enlist(now)
                self._examine_suspects(now)
                self._begin_due(now)
                await self._rest(min(_PAUSE_SECONDS, self._rules.interval_seconds / 4))
        finally:
            running = [*self._looking, *self._proving]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            for probe in self._probes.values():
                probe.close()

    async def _rest(self, seconds: float) -> None:
        """So long, or until there is a suspect."""
        self._alarm.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._alarm.wait()

    def _enlist(self, now: float) -> None:
        """Takes up the replicas of a new snapshot and drops those that are gone."""
        self._seen = self._replicas.surveyed
        known = set(self._replicas.known)
        for replica in known - self._probes.keys():
            self._probes[replica] = probe = Probe(replica, self._dialer, self._secret)
            self._put(probe, now + self._random.random() * self._rules.interval_seconds)
        for replica in self._probes.keys() - known:
            self._probes.pop(replica).close()

    def _is_current(self, probe: Probe) -> bool:
        return self._probes.get(probe.replica) is probe and self._replicas.knows(probe.replica)

    def _put(self, probe: Probe, at: float) -> None:
        self._number += 1
        heapq.heappush(self._due, (at, self._number, probe))

    def _begin_due(self, now: float) -> None:
        """Begins what is due, as far as the bounds allow."""
        waiting = []
        while self._due and self._due[0][0] <= now and len(self._looking) < PROBES_AT_ONCE:
            _, _, probe = heapq.heappop(self._due)
            if not self._is_current(probe):
                continue
            if not probe.replica.health.wants_proof:
                self._begin(self._looking, probe, self._look(probe))
            elif len(self._proving) < PROOFS_AT_ONCE:
                self._begin(self._proving, probe, self._prove(probe))
            else:
                waiting.append(probe)
        for probe in waiting:
            self._put(probe, now)

    def _examine_suspects(self, now: float) -> None:
        """Begins to examine those whose requests fail, in place of whatever probe of them is due or under way."""
        for replica in tuple(self._replicas.suspects):
            before = self._probes.get(replica)
            if before is None or now < before.examined_at + EXAMINED_EVERY_SECONDS:
                continue
            if len(self._proving) >= PROOFS_AT_ONCE:
                break
            before.close()
            self._probes[replica] = probe = Probe(replica, self._dialer, self._secret)
            probe.examined_at = math.inf
            self._begin(self._proving, probe, self._examine(probe))

    def _begin(self, running: set[asyncio.Task[None]], probe: Probe, work: Coroutine[None, None, None]) -> None:
        def end(task: asyncio.Task[None]) -> None:
            running.discard(task)
            spread = 1 + _JITTER * (2 * self._random.random() - 1)
            # A replica that only has to be proven does not wait for that.
            pause = 0.0 if probe.replica.health.wants_proof else self._rules.interval_seconds * spread
            self._put(probe, asyncio.get_running_loop().time() + pause)

        task = asyncio.create_task(work)
        running.add(task)
        task.add_done_callback(end)

    async def _look(self, probe: Probe) -> None:
        reason = await _bounded(probe.look(), self._rules.timeout_seconds, "Probe")
        if not reason and self._is_current(probe):
            self._replicas.probe_passed(probe.replica)
        elif reason:
            self._failed(probe, reason)

    async def _examine(self, probe: Probe) -> None:
        """Decides whether a suspect stays: its pages, and one real request."""
        try:
            await self._look(probe)
            if probe.replica.health.is_suspect and self._is_current(probe):
                await self._prove(probe)
        finally:
            probe.examined_at = asyncio.get_running_loop().time()

    async def _prove(self, probe: Probe) -> None:
        reason = await _bounded(probe.prove(), self._proof_seconds, "Proof")
        if not reason and self._is_current(probe):
            self._replicas.proven(probe.replica, asyncio.get_running_loop().time())
        elif reason:
            self._failed(probe, reason)

    def _failed(self, probe: Probe, reason: str) -> None:
        probe.close()
        if self._is_current(probe):
            self._replicas.probe_failed(probe.replica, reason)


async def _bounded(question: Coroutine[None, None, str], seconds: float, name: str) -> str:
    """What the question finds within `seconds`; `name` begins the reason when there is no answer."""
    try:
        async with asyncio.timeout(seconds):
            return await question
    except TimeoutError:
        return f"{name}Timeout"
    except OSError:
        return f"{name}ConnectFailed"

"""Delivers usage to the control plane in batches, each under one id for ever, so that none is counted twice.

Records that come in large numbers go straight from memory, as long as the control plane answers at once. All others
go to the spool first, and from there oldest first: a few wait there for more, and what the control plane does not take
waits there until it does. So its slowness holds up nothing, and a process that is killed leaves little behind that is
neither counted nor on the disk. What a disk does not take goes from memory too, within a bound. Made by `sinks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Sequence
from math import ceil

import aiohttp

from provisioner.gateway.config import ControlPlane
from provisioner.gateway.disk import on_disk
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.trouble import Trouble
from provisioner.gateway.usage.batch import BATCH_RECORDS, Batch, fitting, new_id
from provisioner.gateway.usage.outlet import Ended
from provisioner.gateway.usage.record import counted_record, json_line
from provisioner.gateway.usage.spool import Spool, SpoolFullError

_log = logging.getLogger(__name__)

_FEW_RECORDS = BATCH_RECORDS // 4
"""Fewer wait for more: each batch is a transaction of the control plane, which keeps its id for days."""
_PACE_SECONDS = 1.0
"""How long they wait."""
_IN_MEMORY_SECONDS = 0.1
"""Records that go straight are on the disk as well when they have no answer by then."""
_UNSPOOLED_RECORDS = 4 * BATCH_RECORDS
"""So many wait in memory at most, beside those that go straight, while the disk takes none."""
_LOOK_SECONDS = 60.0
"""How often the spool is looked at for what other processes left in it."""
_ANSWER_SECONDS = 60.0
_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 30.0
_CLOSING_SECONDS = 3.0
_BATCH_REFUSED = frozenset((400, 413, 422))


class Delivery:
    """A sink for records whose batches end up in the control plane."""

    def __init__(self, control: ControlPlane, spool: Spool, counters: Counters) -> None:
        self._url = f"{control.url}/internal/usage"
        self._headers = {"Authorization": f"Bearer {control.credential}", "Content-Type": "application/json"}
        self._spool = spool
        self._counters = counters
        self._disk = asyncio.Lock()
        self._arrived = asyncio.Event()
        self._in_memory: deque[Batch] = deque()
        """Batches that go straight, the first of which is being sent; none is on the disk."""
        self._unspooled: list[bytes] = []
        """Records that the disk did not take; they go straight when nothing else does."""
        self._spool_at = 0.0
        """When these go to the spool, in loop time."""
        self._is_spooling = True
        """Whether the spool may have batches in it, behind which others wait."""
        self._looked_at = 0.0
        self._trouble = Trouble()

    def lines(self, ended: Sequence[Ended]) -> list[bytes]:
        """What of requests is counted; nothing of those that named no endpoint."""
        return [
            json_line(counted_record(tally, tally.route, outcome, at))
            for tally, outcome, at in ended
            if tally.route is not None
        ]

    async def write(self, lines: Sequence[bytes]) -> None:
        """Takes records, and counts as lost what neither the control plane nor the spool has room for."""
        waiting, self._unspooled = [*self._unspooled, *lines], []
        if self._is_spooling or self._in_memory or len(waiting) < _FEW_RECORDS:
            await self._keep()
            await self._append(waiting)
        else:
            self._go_straight(waiting)
        self._arrived.set()

    async def run(self) -> None:
        """Delivers until it is cancelled, beginning with what was left from before."""
        retry_seconds = _FIRST_RETRY_SECONDS
        async with self._session() as session:
            while True:
                self._arrived.clear()
                batch = await self._next()
                if batch is None:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_SECONDS):  # wait_for of 3.11 may swallow the end of this task
                            await self._arrived.wait()
                elif await self._deliver(batch, session):
                    retry_seconds = _FIRST_RETRY_SECONDS
                    if self._is_spooling and batch.records < _FEW_RECORDS:
                        await asyncio.sleep(_PACE_SECONDS)
                else:
                    await asyncio.sleep(retry_seconds)
                    retry_seconds = min(2 * retry_seconds, _LAST_RETRY_SECONDS)

    async def close(self) -> None:
        """Delivers what can be delivered in a few seconds; the rest stays for the next start."""
        try:
            async with asyncio.timeout(_CLOSING_SECONDS), self._session() as session:
                while (batch := await self._next()) is not None and await self._deliver(batch, session):
                    pass
        except TimeoutError:
            self._note_failure("ControlPlaneAway", "it does not answer")
        self._go_straight(self._unspooled)
        if (reason := await self._keep()) is not None:
            self._counters.usage_lost[reason] += sum(batch.records for batch in self._in_memory)
        try:
            async with self._disk:
                await on_disk(self._spool.seal)
        except OSError as error:
            self._note_failure("SpoolUnwritable", str(error))

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            headers=self._headers, timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS, connect=5.0)
        )

    def _go_straight(self, lines: list[bytes]) -> None:
        """Has records, which it takes out of `lines`, be sent next."""
        self._spool_at = asyncio.get_running_loop().time() + _IN_MEMORY_SECONDS
        batches = ceil(len(lines) / BATCH_RECORDS) or 1
        records = ceil(len(lines) / batches)  # so that none is small
        while lines:
            part = fitting(lines, records=records)
            self._in_memory.append(Batch(new_id(), b"".join(part)[:-1]))
            del lines[: len(part)]

    async def _append(self, lines: list[bytes]) -> None:
        """Has records wait in the spool, and a number of them in memory where the disk does not take them."""
        try:
            async with self._disk:
                self._is_spooling = True
                await on_disk(self._spool.append, lines)
        except SpoolFullError as error:
            self._counters.usage_lost[self._unkept(error)] += len(lines)
        except OSError as broken:
            reason = self._unkept(broken)
            self._unspooled = lines[:_UNSPOOLED_RECORDS]
            if lost := lines[_UNSPOOLED_RECORDS:]:
                self._counters.usage_lost[reason] += len(lost)

    async def _keep(self) -> str | None:
        """Has the batches in memory wait in the spool; a CamelCase word for why they cannot, and stay in memory."""
        try:
            async with self._disk:
                while self._in_memory:
                    self._is_spooling = True
                    await on_disk(self._spool.keep, self._in_memory[0])
                    self._in_memory.popleft()
        except OSError as error:
            return self._unkept(error)
        return None

    def _unkept(self, error: OSError) -> str:
        if isinstance(error, SpoolFullError):
            return "SpoolFull"
        self._note_failure("SpoolUnwritable", str(error))
        return "SpoolUnwritable"

    async def _next(self) -> Batch | None:
        """The batch that has waited longest."""
        if self._unspooled and not self._in_memory:
            self._go_straight(self._unspooled)
        if self._in_memory:
            return self._in_memory[0]
        now = asyncio.get_running_loop().time()
        if not self._is_spooling and now - self._looked_at < _LOOK_SECONDS:
            return None
        try:
            async with self._disk:
                batch = await on_disk(self._spool.oldest)
                self._is_spooling = batch is not None
        except OSError as error:
            self._note_failure("SpoolUnreadable", str(error))
            return None
        self._looked_at = now
        return batch

    async def _deliver(self, batch: Batch, session: aiohttp.ClientSession) -> bool:
        """Whether nothing remains to be done for the batch. What is in memory does not wait for its answer for long."""
        sending = asyncio.ensure_future(self._send(batch, session))
        try:
            if self._in_memory:
                patience = self._spool_at - asyncio.get_running_loop().time()
                await asyncio.wait((sending,), timeout=max(0.0, patience))
                if not sending.done() or not sending.result():
                    await self._keep()
            return await sending and await self._forget(batch)
        finally:
            sending.cancel()

    async def _send(self, batch: Batch, session: aiohttp.ClientSession) -> bool:
        """Whether the control plane has taken the batch, or never will."""
        body = b'{"batch":"%b","records":[%b]}' % (batch.id.encode(), batch.text.replace(b"\n", b","))
        try:
            async with session.post(self._url, data=body, allow_redirects=False) as answer:
                status = answer.status
        except (aiohttp.ClientError, TimeoutError) as error:
            self._note_failure("ControlPlaneAway", str(error) or type(error).__name__)
            return False
        if status in _BATCH_REFUSED:
            self._counters.usage_lost["BatchRefused"] += batch.records
            _log.error(
                "losing a batch of usage: the control plane refuses it with status %d",
                status,
                extra={"action": "usage_refused", "batch": batch.id, "records": batch.records},
            )
        elif status != 200:
            self._note_failure("ControlPlaneAway", f"it answered with status {status}")
            return False
        return True

    async def _forget(self, batch: Batch) -> bool:
        """Whether the batch is gone from where it waited."""
        try:
            async with self._disk:
                if self._in_memory and self._in_memory[0] is batch:
                    self._in_memory.popleft()
                else:
                    await on_disk(self._spool.remove, batch)
        except OSError as error:
            self._note_failure("SpoolUnwritable", str(error))
            return False
        self._note_success()
        return True

    def _note_success(self) -> None:
        if self._trouble.ends():
            _log.info("usage is delivered again", extra={"action": "usage_delivered"})

    def _note_failure(self, reason: str, error: str) -> None:
        self._counters.usage_failures[reason] += 1
        if self._trouble.begins(reason):
            _log.warning("keeping usage: %s", reason, extra={"action": "usage_kept", "error": error})

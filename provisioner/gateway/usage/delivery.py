"""Delivers usage to the control plane: every record goes to the spool first, and from there in batches, oldest first.

While the control plane is away the spool grows up to its bound; afterwards every batch is sent under the id that it
always had, so none is counted twice. Its slowness holds up nothing: adding to the spool does not wait for sending.
Made by `server`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import aiohttp

from provisioner.domain.usage import Outcome
from provisioner.gateway.config import ControlPlane
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.usage.disk import on_disk
from provisioner.gateway.usage.record import counted_record, json_line
from provisioner.gateway.usage.spool import BATCH_RECORDS, Batch, Spool, SpoolFullError
from provisioner.gateway.usage.tally import Tally

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_PACE_SECONDS = 1.0
"""After a small batch, so that the next one is larger."""
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
        self._trouble = ""

    def line(self, tally: Tally, outcome: Outcome, ended: float) -> bytes | None:
        """What of a request is counted; None for one that named no endpoint."""
        if tally.route is None:
            return None
        return json_line(counted_record(tally, tally.route, outcome, ended))

    async def write(self, lines: Sequence[bytes]) -> str | None:
        """Takes records; a word for why they are lost, None when they are not."""
        try:
            await self._on_disk(self._spool.append, lines)
        except SpoolFullError:
            return "SpoolFull"
        except OSError as error:
            self._note_failure("SpoolUnwritable", str(error))
            return "SpoolUnwritable"
        self._arrived.set()
        return None

    async def run(self) -> None:
        """Delivers until it is cancelled, beginning with what was left from before."""
        retry_seconds = _FIRST_RETRY_SECONDS
        async with self._session() as session:
            while True:
                self._arrived.clear()
                batch = await self._oldest()
                if batch is None:
                    await self._arrived.wait()
                elif await self._deliver(batch, session):
                    retry_seconds = _FIRST_RETRY_SECONDS
                    if batch.records < BATCH_RECORDS // 2:
                        await asyncio.sleep(_PACE_SECONDS)
                else:
                    await asyncio.sleep(retry_seconds)
                    retry_seconds = min(2 * retry_seconds, _LAST_RETRY_SECONDS)

    async def close(self) -> None:
        """Delivers what can be delivered in a few seconds; the rest stays for the next start."""
        try:
            async with asyncio.timeout(_CLOSING_SECONDS), self._session() as session:
                while (batch := await self._oldest()) is not None and await self._deliver(batch, session):
                    pass
        except TimeoutError:
            self._note_failure("ControlPlaneAway", "it does not answer")
        try:
            await self._on_disk(self._spool.seal)
        except OSError as error:
            self._note_failure("SpoolUnwritable", str(error))

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            headers=self._headers, timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS, connect=5.0)
        )

    async def _oldest(self) -> Batch | None:
        try:
            return await self._on_disk(self._spool.oldest)
        except OSError as error:
            self._note_failure("SpoolUnreadable", str(error))
            return None

    async def _deliver(self, batch: Batch, session: aiohttp.ClientSession) -> bool:
        """Whether nothing remains to be done for the batch."""
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
        try:
            await self._on_disk(self._spool.remove, batch)
        except OSError as error:
            self._note_failure("SpoolUnwritable", str(error))
            return False
        self._note_success()
        return True

    async def _on_disk(self, call: Callable[..., _Result], *arguments: object) -> _Result:
        async with self._disk:
            return await on_disk(call, *arguments)

    def _note_success(self) -> None:
        if self._trouble:
            _log.info("usage is delivered again", extra={"action": "usage_delivered"})
        self._trouble = ""

    def _note_failure(self, reason: str, error: str) -> None:
        self._counters.usage_failures[reason] += 1
        if reason != self._trouble:  # a trouble that goes on is told once
            _log.warning("keeping usage: %s", reason, extra={"action": "usage_kept", "error": error})
        self._trouble = reason

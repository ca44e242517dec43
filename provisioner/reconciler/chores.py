"""Drops records whose time is over, once an hour: audit events after the installation's retention, and what watches,
idempotency keys and gateways' batches need for some days only.

Runs beside the reconciler; several may run. Each transaction drops a bounded number, so that nobody waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import timedelta

from provisioner.domain.clock import Clock
from provisioner.domain.errors import TenantryError
from provisioner.domain.origin import KEPT_DAYS
from provisioner.store.interface.records import Records, RecordStore

DROPPED_AT_ONCE = 1000

_KEPT: Mapping[Records, timedelta] = {
    Records.CHANGED_ENDPOINTS: timedelta(days=1),
    Records.MUTATIONS: timedelta(days=KEPT_DAYS),
    Records.USAGE_BATCHES: timedelta(days=7),
    Records.FALLBACK_EVIDENCE: timedelta(days=30),
    Records.BUDGETS: timedelta(days=30),
    Records.RESERVATIONS: timedelta(days=3),
    Records.GATEWAYS: timedelta(days=1),
}
_REST_SECONDS = 3600.0
_REST_AFTER_FAILURE_SECONDS = 60.0

_log = logging.getLogger(__name__)


class Chores:
    """What has to be done from time to time. `audit_retention_days` is how long audit events are kept."""

    def __init__(self, records: RecordStore, *, clock: Clock, audit_retention_days: int) -> None:
        self._records = records
        self._clock = clock
        self._kept = {**_KEPT, Records.AUDIT_EVENTS: timedelta(days=audit_retention_days)}

    async def run(self) -> None:
        """Do them every hour until cancelled."""
        while True:
            try:
                await self.trim()
            except TenantryError as error:
                _log.warning("dropping old records: %s", error, extra={"action": "chores_missed"})
                await asyncio.sleep(_REST_AFTER_FAILURE_SECONDS)
            else:
                await asyncio.sleep(_REST_SECONDS)

    async def trim(self) -> Mapping[Records, int]:
        """Drop every record whose time is over; how many, by table. Raises what the store raises."""
        now = self._clock.now()
        dropped = {}
        for records, kept in self._kept.items():
            dropped[records] = 0
            while count := await self._records.trim(records, now - kept, limit=DROPPED_AT_ONCE):
                dropped[records] += count
            if dropped[records]:
                told = {"action": "records_dropped"}
                _log.info("dropped %d of %s, older than %s", dropped[records], records, kept, extra=told)
        return dropped

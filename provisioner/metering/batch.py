"""Counts a gateway's batch of records: names first, then the sums and the batch's id in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from provisioner.domain.usage import UsageRecord
from provisioner.metering.sums import sum_records
from provisioner.store.interface_accounts import UsageStore


async def count_batch(batch: str, records: Sequence[UsageRecord], store: UsageStore, *, now: datetime) -> bool:
    """Add the records to the hourly sums; False for a batch that was counted before, which changes nothing."""
    endpoints, keys = {record.endpoint for record in records}, {record.key for record in records}
    names = await store.names(endpoints, keys)
    return await store.add(batch, sum_records(records, names), now)

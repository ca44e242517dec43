"""Counts a gateway's batch of records: names first, then sums, evidence and the batch's id in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from provisioner.domain.fallback import FallbackEvidence
from provisioner.domain.ids import KeyId
from provisioner.domain.usage import Names, UsageRecord
from provisioner.metering.sums import key_names, sum_records
from provisioner.store.interface.usage import UsageStore

MOST_DENIALS = 20
"""Of one endpoint, reason and batch; more of them say nothing new. What went outside is bounded by its budget."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What became of a batch: `is_new` False when it was counted before; `keys` are those that it tells the use of."""

    is_new: bool
    keys: frozenset[KeyId]


async def count_batch(batch: str, records: Sequence[UsageRecord], store: UsageStore, *, now: datetime) -> Counted:
    """Add the records to the hourly sums; a batch that was counted before changes nothing."""
    endpoints, keys = {record.endpoint for record in records}, {record.key for record in records}
    names = await store.names(endpoints, keys)
    is_new = await store.add(batch, sum_records(records, names), now, evidence=evidence_of(records, names))
    return Counted(is_new, frozenset(KeyId(known.id) for known in names.keys.values()))


def evidence_of(records: Iterable[UsageRecord], names: Names) -> list[FallbackEvidence]:
    """What is kept of each request that went outside, and of the first ones that were not let."""
    denials: dict[tuple[str, str], int] = {}
    kept = []
    for record in records:
        if not record.target and not record.denial:
            continue
        if not record.target:
            place = (record.endpoint, record.denial)
            denials[place] = denials.get(place, 0) + 1
            if denials[place] > MOST_DENIALS:
                continue
        kept.append(_evidence(record, names))
    return kept


def _evidence(record: UsageRecord, names: Names) -> FallbackEvidence:
    return FallbackEvidence(
        at=record.at,
        tenant=record.tenant,
        endpoint=record.endpoint,
        key=key_names(record, names).id,
        request_id=record.request_id,
        target=record.target,
        denial=record.denial,
        status=record.status,
        outcome=record.outcome.value,
    )

"""Audit rows: one for every accepted operation and one for how it ended, written in the transaction they tell of."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.operation import Operation
from provisioner.store.schema import AUDIT_EVENTS


async def record_audit(
    connection: AsyncConnection, operation: Operation | Row[Any], outcome: str, *, now: datetime
) -> None:
    """Record that the operation was `accepted`, or how it ended."""
    values = {
        "at": now,
        "tenant": operation.tenant,
        "subject": operation.subject,
        "action": operation.verb.value,
        "outcome": outcome,
        "actor": operation.actor,
        "request_id": operation.request_id,
        "operation": operation.id,
    }
    await connection.execute(insert(AUDIT_EVENTS).values(values))

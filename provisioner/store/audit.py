"""Audit rows: one for every change that was asked for and one for how an operation ended, written in the transaction
they tell of. Append only, but for the oldest, which `trim` drops when their time is over.

`record_operation` is for operations, `record_audit` for changes made at once: keys, teams, models.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Row, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.audit import AuditEvent, AuditFilter
from provisioner.domain.errors import InvariantError
from provisioner.domain.operation import Operation
from provisioner.store.database import Database
from provisioner.store.rows import columns_of, event_from
from provisioner.store.schema import AUDIT_EVENTS

_UNTOLD = {"digest", "last_used_at", "version"}
"""Fields that no digest is made of: what a secret could be checked against, and what changes by itself."""

_ADAPTERS: dict[type, TypeAdapter[Any]] = {}

_INSERT = insert(AUDIT_EVENTS)


class SqlAudit:
    """The AuditStore on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tell(self, event: AuditEvent) -> None:
        """See AuditStore."""
        async with self._database.write() as connection:
            await record_audit(connection, event)

    async def newest(self, wanted: AuditFilter, *, before: int | None = None, limit: int = 100) -> Sequence[AuditEvent]:
        """See AuditStore."""
        older = () if before is None else (AUDIT_EVENTS.c.id < before,)
        return await self._find(wanted, *older, order=AUDIT_EVENTS.c.id.desc(), limit=limit)

    async def oldest(self, wanted: AuditFilter, *, after: int = 0, limit: int = 1000) -> Sequence[AuditEvent]:
        """See AuditStore."""
        return await self._find(wanted, AUDIT_EVENTS.c.id > after, order=AUDIT_EVENTS.c.id.asc(), limit=limit)

    async def _find(
        self, wanted: AuditFilter, *more: ColumnElement[bool], order: ColumnElement[Any], limit: int
    ) -> Sequence[AuditEvent]:
        found = select(AUDIT_EVENTS).where(*_conditions(wanted), *more).order_by(order).limit(limit)
        async with self._database.read() as connection:
            rows = (await connection.execute(found)).all()
        return [event_from(row) for row in rows]


async def record_audit(connection: AsyncConnection, event: AuditEvent) -> None:
    """Record a change. Its `id` is the database's to give."""
    await connection.execute(_INSERT, columns_of(event, "id"))


async def record_operation(
    connection: AsyncConnection,
    operation: Operation | Row[Any],
    outcome: str,
    *,
    now: datetime,
    digests: tuple[str, str] = ("", ""),
) -> None:
    """Record that the operation was `accepted`, is `cancelling`, or how it ended. `digests` are of what was asked for:
    its subject before and after; the others have none."""
    values = {
        "at": now,
        "tenant": operation.tenant,
        "subject": operation.subject,
        "action": operation.verb.value,
        "outcome": outcome,
        "actor": operation.actor,
        "request_id": operation.request_id,
        "operation": operation.id,
        "before_digest": digests[0],
        "after_digest": digests[1],
    }
    await connection.execute(_INSERT, values)


def digest_of_row(value: Any) -> str:
    """The SHA-256 of what a row says, as canonical JSON without what could betray a secret; empty where there is no
    row, or none that can be read."""
    if value is None or isinstance(value, InvariantError):
        return ""
    kind = type(value)
    if kind not in _ADAPTERS:  # making one takes longer than all the rest
        _ADAPTERS[kind] = TypeAdapter(kind)
    fields = _ADAPTERS[kind].dump_python(value, mode="json", exclude=_UNTOLD)
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _conditions(wanted: AuditFilter) -> list[ColumnElement[bool]]:
    columns = AUDIT_EVENTS.c
    equal = ("tenant", "actor", "action", "subject")
    return [
        *([columns.at >= wanted.since] if wanted.since else []),
        *([columns.at < wanted.until] if wanted.until else []),
        *(columns[name] == value for name in equal if (value := getattr(wanted, name)) is not None),
    ]

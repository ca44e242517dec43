"""Rows of external fallback: which endpoint chose which policy, and what became of its requests.

The API writes choices, the reconciler reads them; evidence comes with the gateways' batches of usage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.audit import AuditEvent
from provisioner.domain.errors import NotFoundError
from provisioner.domain.fallback import FallbackChoice, FallbackEvidence
from provisioner.domain.origin import Origin
from provisioner.store.audit import digest_of_row, record_audit
from provisioner.store.changes import count_change, read_changes
from provisioner.store.database import Database
from provisioner.store.repeats import earlier_subject
from provisioner.store.rows import columns_of
from provisioner.store.schema_fallback import FALLBACK_EVIDENCE, FALLBACKS

_INSERTS: Mapping[str, Callable[..., Any]] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


class SqlFallbacks:
    """The FallbackStore on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, endpoint: str) -> FallbackChoice | None:
        """See FallbackStore."""
        async with self._database.read() as connection:
            return await _find(connection, endpoint)

    async def list(self) -> Sequence[FallbackChoice]:
        """See FallbackStore."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(FALLBACKS).order_by(FALLBACKS.c.endpoint))
            return [FallbackChoice(**row._asdict()) for row in rows]

    async def changes(self) -> int:
        """See FallbackStore."""
        async with self._database.read() as connection:
            return await read_changes(connection, FALLBACKS)

    async def choose(self, choice: FallbackChoice, origin: Origin) -> FallbackChoice:
        """See FallbackStore."""
        now, values = choice.changed_at, columns_of(choice)
        stored = _INSERTS[self._database.dialect](FALLBACKS).values(values)
        stored = stored.on_conflict_do_update(index_elements=[FALLBACKS.c.endpoint], set_=values)
        try:
            async with self._database.write() as connection:
                repeated = await earlier_subject(
                    connection, origin, tenant=choice.tenant, subject=choice.endpoint, now=now
                )
                before = await _find(connection, choice.endpoint)
                if repeated is not None and before is not None:
                    return before
                await connection.execute(stored)
                await record_audit(connection, _event("fallback.choose", before, choice, origin, now))
                await count_change(connection, FALLBACKS)
        except IntegrityError:
            raise NotFoundError(f"choosing a fallback: the endpoint is gone: {choice.endpoint}") from None
        return choice

    async def remove(self, endpoint: str, tenant: str, origin: Origin, now: datetime) -> None:
        """See FallbackStore."""
        async with self._database.write() as connection:
            repeated = await earlier_subject(connection, origin, tenant=tenant, subject=endpoint, now=now)
            before = await _find(connection, endpoint)
            if repeated is not None or before is None:
                return
            await connection.execute(delete(FALLBACKS).where(FALLBACKS.c.endpoint == endpoint))
            await record_audit(connection, _event("fallback.remove", before, None, origin, now))
            await count_change(connection, FALLBACKS)

    async def evidence(
        self, endpoint: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[FallbackEvidence]:
        """See FallbackStore."""
        columns = FALLBACK_EVIDENCE.c
        older = () if before is None else (columns.id < before,)
        found = select(FALLBACK_EVIDENCE).where(columns.endpoint == endpoint, *older)
        async with self._database.read() as connection:
            rows = await connection.execute(found.order_by(columns.id.desc()).limit(limit))
            return [FallbackEvidence(**row._asdict()) for row in rows]


async def _find(connection: AsyncConnection, endpoint: str) -> FallbackChoice | None:
    row = (await connection.execute(select(FALLBACKS).where(FALLBACKS.c.endpoint == endpoint))).one_or_none()
    return None if row is None else FallbackChoice(**row._asdict())


def _event(
    action: str, before: FallbackChoice | None, after: FallbackChoice | None, origin: Origin, now: datetime
) -> AuditEvent:
    choice = after or before
    return AuditEvent(
        at=now,
        actor=origin.actor,
        action=action,
        tenant=choice.tenant if choice else "",
        subject=choice.endpoint if choice else "",
        outcome="succeeded",
        request_id=origin.request_id,
        before_digest=digest_of_row(before),
        after_digest=digest_of_row(after),
    )

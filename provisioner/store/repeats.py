"""Idempotency keys of changes made at once: a repeated request finds what the first one made.

Row modules of what is changed without an operation (keys, teams, models) call `earlier_subject` first in their
transaction; when the transaction fails, the key is forgotten with it. Operations keep their keys in their own rows.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.errors import RejectedError
from provisioner.domain.origin import KEPT_DAYS, Origin
from provisioner.store.schema import MUTATIONS

_INSERTS: dict[str, Callable[..., Any]] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


async def earlier_subject(
    connection: AsyncConnection, origin: Origin, *, tenant: str, subject: str, now: datetime
) -> str | None:
    """What the same request made before; None when this is the first, and `subject` is then remembered.

    `tenant` is empty for what belongs to the provider. A concurrent twin waits here until the first one has ended.
    RejectedError (`IdempotencyKeyReused`) when the key stands for another request.
    """
    columns = MUTATIONS.c
    values = {"request_digest": origin.request_digest, "subject": subject, "at": now}
    claimed = (
        _INSERTS[connection.dialect.name](MUTATIONS)
        .values(tenant=tenant, idempotency_key=origin.idempotency_key, **values)
        .on_conflict_do_update(
            index_elements=[columns.tenant, columns.idempotency_key],
            set_=values,
            where=columns.at <= now - timedelta(days=KEPT_DAYS),
        )
        .returning(columns.subject)
    )
    if (await connection.execute(claimed)).one_or_none() is not None:
        return None
    known = (columns.tenant == tenant) & (columns.idempotency_key == origin.idempotency_key)
    row = (await connection.execute(select(columns.request_digest, columns.subject).where(known))).one()
    if row.request_digest != origin.request_digest:
        raise RejectedError(
            f"repeating a request: the idempotency key stands for another one, about: {row.subject}",
            reason="IdempotencyKeyReused",
            hint="send a new idempotency key with every new request",
        )
    return str(row.subject)

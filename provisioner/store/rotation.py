"""Rotating keys: a new one is stored and the old ones are given an end, in the transaction of the operation that sees
to it; and how many keys somebody may make within a minute, by whatever way."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.errors import RetryableError
from provisioner.domain.key import Rotation
from provisioner.store.changes import count_change
from provisioner.store.rows import columns_of
from provisioner.store.schema import API_KEYS

KEYS_PER_MINUTE = 5
"""How many keys one caller may make within a minute."""

_MINUTE = timedelta(minutes=1)


async def rotate(connection: AsyncConnection, rotation: Rotation) -> None:
    """Store the new key and have the old ones expire; one that expires earlier is left as it is. RetryableError
    (`TooManyKeys`)."""
    await count_change(connection, API_KEYS)
    key, columns = rotation.key, API_KEYS.c
    await require_patience(connection, key.created_by, key.created_at)
    await connection.execute(insert(API_KEYS).values(columns_of(key)))
    is_later = or_(columns.expires_at.is_(None), columns.expires_at > rotation.until)
    old = update(API_KEYS).where(columns.id.in_(rotation.replaced), is_later)
    await connection.execute(old.values(expires_at=rotation.until))


async def require_patience(connection: AsyncConnection, maker: str, now: datetime) -> None:
    """RetryableError (`TooManyKeys`) when the maker made as many within the last minute as may be made."""
    newest = select(API_KEYS.c.created_at).where(API_KEYS.c.created_by == maker, API_KEYS.c.created_at > now - _MINUTE)
    newest = newest.order_by(API_KEYS.c.created_at.desc()).limit(KEYS_PER_MINUTE)
    moments = (await connection.scalars(newest)).all()
    if len(moments) < KEYS_PER_MINUTE:
        return
    raise RetryableError(
        f"making a key: one caller may make this many in a minute: {KEYS_PER_MINUTE}",
        reason="TooManyKeys",
        hint="wait as long as `Retry-After` says",
        retry_after_seconds=(moments[-1] + _MINUTE - now).total_seconds(),
    )

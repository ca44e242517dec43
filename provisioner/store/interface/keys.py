"""What the rest of the product needs of the rows of API keys; `interface` tells the rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from provisioner.domain.ids import EndpointId, KeyId
from provisioner.domain.key import ApiKey
from provisioner.domain.origin import Origin
from provisioner.domain.page import Page, Position


@dataclass(frozen=True, slots=True)
class StoredKey:
    """The key that stands for the request; `is_new` False when the idempotency key was known already."""

    key: ApiKey
    is_new: bool


class KeyStore(Protocol):
    """Rows of API keys. Never sees a secret."""

    async def add(self, key: ApiKey) -> None:
        """Store a new key within an operation, whose own audit events tell of it."""
        ...

    async def add_first(self, key: ApiKey, now: datetime) -> bool:
        """Store an administrator's key unless there is one that may be used; whether it was stored. Of several
        processes that start together one is told True."""
        ...

    async def make(self, key: ApiKey, origin: Origin) -> StoredKey:
        """Store a key on request, with an audit event. The same idempotency key and request digest finds the key that
        was made before; another digest raises RejectedError (`IdempotencyKeyReused`). NotFoundError (`TenantUnknown`),
        RetryableError (`TooManyKeys`) after five by the same caller within a minute."""
        ...

    async def get(self, key: KeyId) -> ApiKey:
        """By id. NotFoundError."""
        ...

    async def find(self, digest: str) -> ApiKey | None:
        """By the digest of its secret."""
        ...

    async def has_administrator(self, now: datetime) -> bool:
        """Whether there is a key with which others can be made."""
        ...

    async def list(self, *, tenant: str | None = None) -> Sequence[ApiKey]:
        """All, newest first, revoked ones included."""
        ...

    async def page(self, *, tenant: str | None = None, after: Position | None = None, limit: int = 100) -> Page[ApiKey]:
        """Those after the position, newest first."""
        ...

    async def changes(self) -> int:
        """A number that grows with every change of a row."""
        ...

    async def withdraw(self, key: KeyId, origin: Origin, now: datetime) -> ApiKey:
        """Revoke a key on request, with an audit event; again is fine. NotFoundError, ConflictError (`LastAdminKey`)
        for the last one with which keys can be made."""
        ...

    async def revoke(self, key: KeyId, now: datetime) -> ApiKey:
        """Mark it revoked within an operation, whose own audit events tell of it; again is fine. NotFoundError."""
        ...

    async def change_expiry(self, key: KeyId, *, found: datetime, expires_at: datetime | None) -> None:
        """Have it expire at another moment within an operation, if it expires at the one that was `found`."""
        ...

    async def tell_use(self, keys: Collection[KeyId], now: datetime) -> None:
        """Say that the keys were used; written for each at most every five minutes."""
        ...

    async def remove(self, key: KeyId) -> None:
        """Remove the row of a key that nobody was given; one that is gone is fine."""
        ...

    async def revoke_endpoint(self, endpoint: EndpointId, now: datetime) -> None:
        """Revoke every key that is bound to this endpoint alone."""
        ...

"""API keys: 256 random bits, shown once, stored as a SHA-256 with a short visible prefix.

High-entropy secrets need no slow hash. One key works for HTTP and the command line. Pure.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from provisioner.domain.access import DEFAULT_SCOPES, ROLE_SCOPES, AccessRole, Principal, Scope
from provisioner.domain.ids import KeyId
from provisioner.domain.snapshot import Allowance

_VISIBLE_LENGTH = 10
"""Characters of a key that lists may show: `tnt-` and six of 43 random ones."""

_LONG_ENOUGH = 40
"""A key from elsewhere that is shorter may be easier to guess than ours: of that nothing is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A stored key. Never holds the secret.

    `tenant` None means every tenant, for the provider's own keys; a customer's has one. `endpoints` None means every
    endpoint of the tenant, `scopes` None every scope of the role. `allowance` is what may be sent with it in a
    minute, None no bound of its own. `last_used_at` is true to within some minutes; `created_by` is the id of the key
    that made it, empty for one that the server or an operation made.
    """

    id: KeyId
    name: str
    digest: str
    prefix: str
    tenant: str | None
    created_at: datetime
    role: AccessRole = AccessRole.CUSTOMER
    scopes: tuple[Scope, ...] | None = None
    team: str | None = None
    endpoints: tuple[str, ...] | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    created_by: str = ""
    allowance: Allowance | None = None

    def is_usable(self, now: datetime) -> bool:
        """Whether the key may be used at `now`."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    @property
    def permitted(self) -> frozenset[Scope]:
        """The permissions of its own list, as far as its role has them, or else its role's."""
        return DEFAULT_SCOPES[self.role] if self.scopes is None else ROLE_SCOPES[self.role] & set(self.scopes)

    @property
    def principal(self) -> Principal:
        """The caller that the key stands for."""
        return Principal(
            key=self.id,
            name=self.name,
            role=self.role,
            scopes=self.permitted,
            tenant=self.tenant,
            team=self.team,
            endpoints=self.endpoints,
        )

    def administers(self, now: datetime) -> bool:
        """Whether somebody can make other keys of every kind with it at `now`."""
        is_admin = self.role is AccessRole.ADMIN and self.tenant is None and Scope.KEYS_WRITE in self.permitted
        return is_admin and self.is_usable(now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """A new key takes the place of others, which may be used until a moment, or until their own expiry before it."""

    key: ApiKey
    replaced: tuple[KeyId, ...]
    until: datetime


def without_teams(keys: Iterable[ApiKey]) -> list[ApiKey]:
    """The same keys, each for the whole of its tenant, where an installation does not tell teams apart."""
    return [replace(key, team=None) for key in keys]


def visible_prefix(secret: str) -> str:
    """What lists show of a key, so that people know which one it is."""
    return secret[:_VISIBLE_LENGTH] if len(secret) >= _LONG_ENOUGH else ""


def key_digest(secret: str | bytes) -> str:
    """The lower-case hex SHA-256 of a key, which is all that is ever stored or sent to a gateway."""
    return hashlib.sha256(secret.encode() if isinstance(secret, str) else secret).hexdigest()


PRIORITY_PREFIX = "priority-"
"""Begins the name of the secret that signs a tenant's claims of priority; the tenant's name follows."""


def priority_key(gateway_key: str, tenant: str) -> str:
    """The key that signs a tenant's claims of priority: made of the gateways' key, which both sides of every
    installation hold, so that it is the same wherever and however often it is asked for. It tells nothing of the
    gateways' key nor of another tenant's."""
    return hmac.new(gateway_key.encode(), f"tenantry/{PRIORITY_PREFIX}{tenant}".encode(), hashlib.sha256).hexdigest()

"""API keys on the wire. Only `KeyCreated` ever carries a secret, and only once."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from provisioner.wire.message import Message
from provisioner.wire.operation import OperationView


class AllowanceView(Message):
    """What may be sent in a minute; null is no bound."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class KeyView(Message):
    """A stored key by its visible prefix. `scopes` are what it may do; `tenant` null reaches every tenant; `allowance`
    null has no bound of its own. `lastUsedAt` is true to within some minutes."""

    id: str
    name: str
    prefix: str
    role: str = "customer"
    scopes: tuple[str, ...] = ()
    tenant: str | None = None
    team: str | None = None
    endpoints: tuple[str, ...] | None = None
    allowance: AllowanceView | None = None
    created_at: datetime
    created_by: str = ""
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class KeyCreated(Message):
    """The answer to a create: the secret is shown this one time. A repeated request is answered with `secret` null and
    a `hint`: nobody has the secret any more."""

    secret: Annotated[str | None, Field(repr=False)] = None
    key: KeyView
    hint: str | None = None


class KeyRotationView(OperationView):
    """The operation of a rotation, with the new key, whose secret is shown this one time. A repeated request is
    answered with `secret` null and a `hint`. `replaced` are the old keys, with their `expiresAt`."""

    secret: Annotated[str | None, Field(repr=False)] = None
    key: KeyView
    replaced: tuple[KeyView, ...] = ()

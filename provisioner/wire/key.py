"""API keys on the wire. Only `KeyCreated` ever carries a secret, and only once."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from provisioner.wire.message import Message


class KeyView(Message):
    """A stored key by its visible prefix."""

    id: str
    name: str
    prefix: str
    tenant: str
    team: str | None = None
    endpoints: tuple[str, ...] | None = None
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class KeyCreated(Message):
    """The answer to a create: the secret is shown this one time."""

    secret: Annotated[str, Field(repr=False)]
    key: KeyView

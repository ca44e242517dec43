"""API keys on the wire. Only `KeyCreated` ever carries a secret, and only once."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, Field

from provisioner.admission.form import TeamName, TenantName
from provisioner.catalog.entry import Entry
from provisioner.wire.message import Message


class KeyForm(Entry):
    """What a key is asked for with. `endpoints` are ids or names; without them the key is for all of the tenant's."""

    tenant: TenantName
    name: Annotated[str, Field(min_length=1, max_length=63, description="what the key is for, at most 63 characters")]
    team: TeamName | None = None
    endpoints: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63)], ...] | None,
        Field(min_length=1, max_length=100, description="ids or names of endpoints of the tenant, at most 100"),
    ] = None
    expires_at: Annotated[
        AwareDatetime | None, Field(description="moment with a time zone from which the key is refused")
    ] = None


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

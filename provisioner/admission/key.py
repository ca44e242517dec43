"""The form of a new API key. What it names is checked where the store is at hand. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, Field

from provisioner.admission.form import ONE_LINE_PATTERN, TeamName, TenantName
from provisioner.catalog.entry import Entry

_LAST_EXPIRY = datetime(9999, 1, 1, tzinfo=UTC)
"""A moment later than this may have no name in another time zone."""


class KeyForm(Entry):
    """What a key is asked for with. `endpoints` are ids or names; without them the key is for all of the tenant's."""

    tenant: TenantName
    name: Annotated[
        str,
        Field(
            pattern=ONE_LINE_PATTERN, max_length=63, description="what the key is for, one line of 1 to 63 characters"
        ),
    ]
    team: TeamName | None = None
    endpoints: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63)], ...] | None,
        Field(min_length=1, max_length=100, description="ids or names of endpoints of the tenant, at most 100"),
    ] = None
    expires_at: Annotated[
        AwareDatetime | None,
        Field(lt=_LAST_EXPIRY, description="moment with a time zone from which the key is refused, before year 9999"),
    ] = None

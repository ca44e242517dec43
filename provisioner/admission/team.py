"""The forms of a new team and of its change. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from provisioner.admission.form import ONE_LINE_PATTERN, TeamName, TenantName
from provisioner.catalog.entry import Entry

_DisplayName = Annotated[
    str, Field(pattern=ONE_LINE_PATTERN, max_length=120, description="name for people, one line of 1 to 120 characters")
]


class TeamForm(Entry):
    """What a team is asked for with."""

    tenant: TenantName
    name: TeamName
    display_name: _DisplayName | None = None


class TeamChangeForm(Entry):
    """What of a team may be changed."""

    display_name: _DisplayName

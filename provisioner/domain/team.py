"""A team: a part of a tenant, to which endpoints and keys may belong. Type only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """One team. `name` is unique in its tenant and does not change."""

    tenant: str
    name: str
    display_name: str
    created_at: datetime

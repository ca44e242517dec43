"""A team: a part of a tenant, to which endpoints and keys may belong. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from provisioner.domain.errors import NotFoundError


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """One team. `name` is unique in its tenant and does not change."""

    tenant: str
    name: str
    display_name: str
    created_at: datetime

    @property
    def state(self) -> str:
        """Stands for everything of it that can be changed: another text after each change."""
        return hashlib.sha256(self.display_name.encode()).hexdigest()[:16]


def unknown_team(tenant: str, name: str) -> NotFoundError:
    """The error for a team that nobody made, or that is not the caller's to know of."""
    return NotFoundError(
        f"finding the team: tenant `{tenant}` has none named: {name}",
        reason="TeamUnknown",
        hint=f"`tenantry team list` shows all; `tenantry team create {tenant}/{name}` makes it",
    )

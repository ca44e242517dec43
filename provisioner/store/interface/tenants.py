"""What the rest of the product needs of the rows of tenants and of their teams; `interface` tells the rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from provisioner.domain.errors import InvariantError
from provisioner.domain.ids import OperationId
from provisioner.domain.lease import Fence
from provisioner.domain.origin import Origin
from provisioner.domain.page import Page, Position
from provisioner.domain.team import Team
from provisioner.domain.tenant import Tenant


class TenantStore(Protocol):
    """Rows of tenants."""

    async def find(self, name: str) -> Tenant | None:
        """By name."""
        ...

    async def list(self) -> Sequence[Tenant]:
        """All, by name."""
        ...

    async def browse(self) -> Sequence[Tenant | InvariantError]:
        """The same, with an error in the place of a row that cannot be decoded."""
        ...

    async def page(self, *, name: str | None = None, after: Position | None = None, limit: int = 100) -> Page[Tenant]:
        """Those after the position, by name: all of them, or the one with the name."""
        ...

    async def save(self, tenant: Tenant, *, operation: OperationId, fence: Fence) -> None:
        """Store `ready` and `tiers`, while the operation's lease has this fence."""
        ...

    async def remove(self, name: str, *, operation: OperationId, fence: Fence) -> None:
        """Remove the row; one that is gone is fine. RejectedError (`TenantInUse`) while something belongs to it."""
        ...

    async def erase(self, name: str, *, operation: OperationId, fence: Fence) -> None:
        """Remove the row with its keys and teams; one that is gone is fine. ConflictError (`TenantInUse`) while an
        endpoint belongs to it."""
        ...


class TeamStore(Protocol):
    """Rows of teams."""

    async def get(self, tenant: str, name: str) -> Team:
        """By the name it has in its tenant. NotFoundError (`TeamUnknown`)."""
        ...

    async def page(self, *, tenant: str | None = None, after: Position | None = None, limit: int = 100) -> Page[Team]:
        """Those after the position, by tenant and name."""
        ...

    async def make(self, team: Team, origin: Origin) -> Team:
        """Store a team on request, with an audit event. The same idempotency key and request digest finds the team that
        was made before. RejectedError (`NameTaken`), NotFoundError (`TenantUnknown`), ConflictError
        (`TenantOffboarding`)."""
        ...

    async def rename(
        self, renamed: Team, origin: Origin, now: datetime, *, states: Collection[str] | None = None
    ) -> Team:
        """Store its name for people on request, with an audit event. ConflictError (`PreconditionFailed`) where its
        state is none of these; NotFoundError."""
        ...

    async def remove(self, tenant: str, name: str, origin: Origin, now: datetime) -> None:
        """Remove it on request, with an audit event. ConflictError (`TeamInUse`) while an endpoint names it, or a key
        that may be used; NotFoundError, but not for the same request again."""
        ...

"""A tenant: one customer of the provider. Per tenant and tier there is one Project on vCluster Platform."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime

from provisioner.domain.ids import OperationId

POOL_TENANT = "pool"
"""The name under which a shared pool stands where tenants' names stand; no tenant may have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One tenant. `tiers` are the tiers it may use, and until an update is through, those that may have Projects
    too; `ready` is said when every Project exists; one that is `offboarding` takes no new endpoints and keys."""

    name: str
    display_name: str
    tiers: tuple[str, ...]
    created_at: datetime
    operation: OperationId
    ready: bool = False
    offboarding: bool = False

    @property
    def state(self) -> str:
        """Stands for everything of it that changes: another text after each change."""
        told = json.dumps([self.display_name, self.tiers, self.operation, self.ready, self.offboarding])
        return hashlib.sha256(told.encode()).hexdigest()[:16]


def project_name(tenant: str, tier: str) -> str:
    """The name of the tenant's Project for a tier."""
    return f"{tenant}-{tier}"

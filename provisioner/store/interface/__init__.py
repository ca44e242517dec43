"""What the rest of the product needs of the database.

Every method is one transaction. Writes of a worker carry the fence of its lease; a late one raises ConflictError with
reason `FenceStale`. A database that cannot be reached raises RetryableError, a row that this version cannot decode
InvariantError with reason `RowUnreadable`; `list` raises it for all, `browse` has it in that row's place.
"""

from __future__ import annotations

from typing import Protocol

from provisioner.store.interface.endpoints import EndpointStore
from provisioner.store.interface.fallback import BudgetStore, FallbackStore, GatewayStore
from provisioner.store.interface.keys import KeyStore
from provisioner.store.interface.models import ModelStore
from provisioner.store.interface.operations import OperationStore
from provisioner.store.interface.orphans import OrphanStore
from provisioner.store.interface.records import AuditStore, RecordStore
from provisioner.store.interface.snapshots import SnapshotStore
from provisioner.store.interface.tenants import TeamStore, TenantStore
from provisioner.store.interface.usage import GaugeStore, UsageStore


class Store(Protocol):
    """All of it, and its life."""

    operations: OperationStore
    endpoints: EndpointStore
    tenants: TenantStore
    keys: KeyStore
    models: ModelStore
    orphans: OrphanStore
    audit: AuditStore
    records: RecordStore
    snapshots: SnapshotStore
    gauges: GaugeStore
    teams: TeamStore
    usage: UsageStore
    fallbacks: FallbackStore
    budgets: BudgetStore
    gateways: GatewayStore

    async def close(self) -> None:
        """Give every connection back."""
        ...

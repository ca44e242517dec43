"""The Store on SQLite or PostgreSQL. `open_store` is the door: it migrates first, then hands the whole store out."""

from __future__ import annotations

from provisioner.domain.clock import Clock
from provisioner.store.audit import SqlAudit
from provisioner.store.budgets import SqlBudgets
from provisioner.store.database import Database, open_database
from provisioner.store.endpoints import SqlEndpoints
from provisioner.store.fallbacks import SqlFallbacks
from provisioner.store.gateways import SqlGateways
from provisioner.store.gauges import SqlGauges
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
from provisioner.store.keys import SqlKeys
from provisioner.store.migrate import migrate, require_schema
from provisioner.store.models import SqlModels
from provisioner.store.operations import SqlOperations
from provisioner.store.orphans import SqlOrphans
from provisioner.store.records import SqlRecords
from provisioner.store.snapshots import SqlSnapshots
from provisioner.store.teams import SqlTeams
from provisioner.store.tenants import SqlTenants
from provisioner.store.usage import SqlUsage


class SqlStore:
    """Every row module on one database. `clock` stamps rows; what decides something takes its `now` by argument."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self.operations: OperationStore = SqlOperations(database, clock=clock)
        self.endpoints: EndpointStore = SqlEndpoints(database, clock=clock)
        self.tenants: TenantStore = SqlTenants(database, clock=clock)
        self.keys: KeyStore = SqlKeys(database)
        self.models: ModelStore = SqlModels(database)
        self.orphans: OrphanStore = SqlOrphans(database)
        self.audit: AuditStore = SqlAudit(database)
        self.records: RecordStore = SqlRecords(database)
        self.snapshots: SnapshotStore = SqlSnapshots(database)
        self.gauges: GaugeStore = SqlGauges(database, clock=clock)
        self.teams: TeamStore = SqlTeams(database)
        self.usage: UsageStore = SqlUsage(database)
        self.fallbacks: FallbackStore = SqlFallbacks(database)
        self.budgets: BudgetStore = SqlBudgets(database)
        self.gateways: GatewayStore = SqlGateways(database)

    async def close(self) -> None:
        """Give every connection back."""
        await self._database.close()


async def open_store(url: str, *, clock: Clock) -> SqlStore:
    """The store at `url` (`sqlite:///file` or `postgresql://…`), migrated to this version's schema.

    RejectedError for any other URL, RetryableError when the database cannot be reached.
    """
    database = open_database(url)
    try:
        await migrate(database)
        await require_schema(database)
    except BaseException:
        await database.close()
        raise
    return SqlStore(database, clock=clock)

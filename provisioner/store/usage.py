"""Hourly sums of usage, and the batches of gateways that are in them already.

A batch is added in one transaction with its id. Rows are written in the order of their key, so that two batches that
meet in the same hours wait for each other instead of locking each other out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Column, ColumnElement, Select, Subquery, and_, func, insert, literal_column, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.endpoint import EndpointRequest
from provisioner.domain.fallback import FallbackEvidence
from provisioner.domain.page import Page, Position
from provisioner.domain.usage import EndpointNames, KeyNames, Names, UsageFilter, UsageHour, UsageLabel, UsageSum
from provisioner.store.database import Database
from provisioner.store.paging import Order
from provisioner.store.rows import columns_of
from provisioner.store.schema import API_KEYS, ENDPOINTS, USAGE_BATCHES, USAGE_HOURS
from provisioner.store.schema_fallback import FALLBACK_EVIDENCE

_SUMS = ("requests", "failures", "unmeasured", "prompt_tokens", "completion_tokens", "duration_ms")
_INSERTS: Mapping[str, Callable[..., Any]] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}
_ROWS_AT_ONCE = 500
"""Rows of one statement: thirteen parameters each, of which a database takes some ten thousand."""


class SqlUsage:
    """The UsageStore on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def names(self, endpoints: Collection[str], keys: Collection[str]) -> Names:
        """See UsageStore."""
        columns = API_KEYS.c
        told = or_(columns.id.in_(keys), columns.digest.in_(keys))
        held = select(columns.id, columns.digest, columns.team).where(told)
        here = select(ENDPOINTS.c.id, ENDPOINTS.c.request).where(ENDPOINTS.c.id.in_(endpoints))
        async with self._database.read() as connection:
            found = (await connection.execute(here)).all()
            known = (await connection.execute(held)).all()
        requests = {row.id: row.request for row in found if isinstance(row.request, EndpointRequest)}
        return Names(
            endpoints={id_: EndpointNames(one.name, one.tier, one.team) for id_, one in requests.items()},
            keys={name: KeyNames(row.id, row.team) for row in known for name in (row.id, row.digest)},
        )

    async def add(
        self, batch: str, hours: Sequence[UsageHour], now: datetime, *, evidence: Sequence[FallbackEvidence] = ()
    ) -> bool:
        """See UsageStore."""
        ordered = sorted(hours, key=lambda one: (one.hour, one.endpoint, one.key))
        async with self._database.write() as connection:
            if not await _claim_batch(connection, batch, now):
                return False
            for start in range(0, len(ordered), _ROWS_AT_ONCE):
                await _add_rows(connection, ordered[start : start + _ROWS_AT_ONCE])
            if evidence:
                await connection.execute(insert(FALLBACK_EVIDENCE), [columns_of(one, "id") for one in evidence])
        return True

    async def page(
        self, wanted: UsageFilter, by: Collection[UsageLabel], *, after: Position | None = None, limit: int = 100
    ) -> Page[UsageSum]:
        """See UsageStore."""
        sums = _sums(wanted, by)
        order = Order(tuple(cast("Column[Any]", sums.c[label.value]) for label in UsageLabel if label in by))
        async with self._database.read() as connection:
            found = (await connection.execute(order.rows_after(select(sums), after, limit=limit))).all()
        rows, following = order.cut(found, limit=limit)
        return Page([UsageSum(**row._asdict()) for row in rows], following)


async def _claim_batch(connection: AsyncConnection, batch: str, now: datetime) -> bool:
    """Whether the batch is new; a twin that is being added waits here until this one has ended."""
    claimed = _INSERTS[connection.dialect.name](USAGE_BATCHES).values(id=batch, at=now).on_conflict_do_nothing()
    return (await connection.execute(claimed.returning(USAGE_BATCHES.c.id))).one_or_none() is not None


async def _add_rows(connection: AsyncConnection, hours: Sequence[UsageHour]) -> None:
    statement = _INSERTS[connection.dialect.name](USAGE_HOURS).values([columns_of(one) for one in hours])
    # Names stay as they were first told: an endpoint that is gone by now was known when its hour began.
    added = {name: USAGE_HOURS.c[name] + statement.excluded[name] for name in _SUMS}
    key = USAGE_HOURS.primary_key.columns
    await connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=added))


def _sums(wanted: UsageFilter, by: Collection[UsageLabel]) -> Subquery:
    """Sums by label. The condition on a page's position is one on labels, so that a database sums no others."""
    columns = USAGE_HOURS.c
    labels: dict[UsageLabel, ColumnElement[Any]] = {label: columns[label.value] for label in UsageLabel}
    # Written out: as a parameter, it would be another one in the list of columns than in the grouping.
    labels[UsageLabel.TEAM] = func.coalesce(columns.team, literal_column("''"))
    chosen = [labels[label].label(label.value) for label in UsageLabel if label in by]
    names = [func.max(columns.endpoint_name).label("endpoint_name")] if UsageLabel.ENDPOINT in by else []
    if UsageLabel.ENDPOINT in by and UsageLabel.TIER not in by:
        names.append(func.max(columns.tier).label("tier"))
    sums = [_whole(columns[name]).label(name) for name in _SUMS]
    listed: Select[Any] = select(*chosen, *names, *sums).where(and_(*_conditions(wanted)))
    return listed.group_by(*(labels[label] for label in UsageLabel if label in by)).subquery()


def _whole(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The sum, of the column's own type: PostgreSQL makes a decimal number of a sum of whole ones."""
    return func.sum(column, type_=column.type).cast(column.type)


def _conditions(wanted: UsageFilter) -> list[ColumnElement[bool]]:
    columns = USAGE_HOURS.c
    return [
        columns.hour >= wanted.since,
        columns.hour < wanted.until,
        *([columns.tenant == wanted.tenant] if wanted.tenant is not None else []),
        *([columns.team == wanted.team] if wanted.team is not None else []),
        *([columns.endpoint.in_(wanted.endpoints)] if wanted.endpoints is not None else []),
    ]

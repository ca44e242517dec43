"""Rows of budgets: what gateways reserved of a policy in a period, and each reservation by the id it was asked with.

A reservation takes the budget's row for the time of its transaction, and is stored only where the row still says what
was read: whatever a database does, no more is reserved than the policy allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.errors import InvariantError, RejectedError
from provisioner.domain.fallback import FallbackPolicy, Reservation, batch_of
from provisioner.store.database import Database
from provisioner.store.schema_fallback import BUDGETS, RESERVATIONS

_INSERTS: Mapping[str, Callable[..., Any]] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


class SqlBudgets:
    """The BudgetStore on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def reserve(
        self, reservation: str, policy: FallbackPolicy, wanted: int, now: datetime, *, gateways: int
    ) -> Reservation:
        """See BudgetStore."""
        period = policy.period.begin(now)
        async with self._database.write() as connection:
            budget = await _held_budget(connection, policy.name, period)
            earlier = await _find(connection, reservation)
            if earlier is not None:
                return _answer(earlier, policy)
            left = policy.left(budget.requests, budget.cost)
            granted = batch_of(wanted, left=left, gateways=gateways)
            if granted:
                await _add(connection, budget, granted, granted * policy.request_cost)
                made = {"id": reservation, "policy": policy.name, "period": period, "requests": granted, "at": now}
                await connection.execute(insert(RESERVATIONS).values(made | {"request_cost": policy.request_cost}))
        return Reservation(id=reservation, policy=policy.name, requests=granted, until=policy.period.end(now))

    async def give_back(self, reservation: str, unused: int) -> None:
        """See BudgetStore."""
        async with self._database.write() as connection:
            made = await _find(connection, reservation)
            if made is None:
                return
            freed = min(unused, made.requests)
            budget = await _held_budget(connection, made.policy, made.period)
            first = (RESERVATIONS.c.id == reservation) & RESERVATIONS.c.unused.is_(None)
            told = await connection.execute(update(RESERVATIONS).where(first).values(unused=freed))
            if told.rowcount == 1:  # a twin that waited for the budget's row came second
                await _add(connection, budget, -freed, -freed * made.request_cost)

    async def reserved(self, policy: str, period: datetime) -> int:
        """See BudgetStore."""
        this = select(BUDGETS.c.requests).where(BUDGETS.c.policy == policy, BUDGETS.c.at == period)
        async with self._database.read() as connection:
            return int(await connection.scalar(this) or 0)


async def _held_budget(connection: AsyncConnection, policy: str, period: datetime) -> Row[Any]:
    """The budget's row, made where there is none, and held until the transaction ends."""
    fresh = {"policy": policy, "at": period, "requests": 0, "cost": 0}
    await connection.execute(_INSERTS[connection.dialect.name](BUDGETS).values(fresh).on_conflict_do_nothing())
    this = select(BUDGETS).where(BUDGETS.c.policy == policy, BUDGETS.c.at == period)
    return (await connection.execute(this.with_for_update())).one()


async def _add(connection: AsyncConnection, budget: Row[Any], requests: int, cost: int) -> None:
    columns = BUDGETS.c
    as_read = (columns.policy == budget.policy) & (columns.at == budget.at) & (columns.requests == budget.requests)
    values = {"requests": budget.requests + requests, "cost": budget.cost + cost}
    changed = await connection.execute(update(BUDGETS).where(as_read).values(values))
    if changed.rowcount != 1:
        raise InvariantError(f"reserving of the budget of policy `{budget.policy}`: its row changed while it was held")


async def _find(connection: AsyncConnection, reservation: str) -> Row[Any] | None:
    return (await connection.execute(select(RESERVATIONS).where(RESERVATIONS.c.id == reservation))).one_or_none()


def _answer(earlier: Row[Any], policy: FallbackPolicy) -> Reservation:
    """What the reservation gave before, less what was given back of it since."""
    if earlier.policy != policy.name:
        raise RejectedError(
            f"reserving of the budget of policy `{policy.name}`: the reservation's id stands for: {earlier.policy}",
            reason="ReservationReused",
            hint="take a new id for every reservation",
        )
    return Reservation(
        id=earlier.id,
        policy=earlier.policy,
        requests=earlier.requests - (earlier.unused or 0),
        until=policy.period.end(earlier.period),
    )

"""The writes of every worker's turn: claiming what is due, recording steps, letting go with the audit line of the end.

On PostgreSQL each is one statement and so one round trip. SQLite knows no statement that writes two tables and has no
round trips: there the same is a transaction. The statements are built once, since building one costs more than running
it; what is bound to them has the names of columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    Integer,
    Row,
    Text,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql.dml import ReturningUpdate

from provisioner.domain.ids import OperationId
from provisioner.domain.lease import LEASE_SECONDS, Fence
from provisioner.domain.operation import OperationState, StepRecord, Verb
from provisioner.store.audit import record_operation
from provisioner.store.database import Database
from provisioner.store.hold import stale
from provisioner.store.interface.operations import Turn
from provisioner.store.rows import columns_of
from provisioner.store.schema import AUDIT_EVENTS, FENCES, IS_OPEN, OPERATIONS, STEPS

LEASE = timedelta(seconds=LEASE_SECONDS)
FARTHEST = timedelta(minutes=10)
"""Nobody waits as long: what is due later was stamped by a clock that has been set back since, and is due now."""

NOT_LEASED = {"lease_holder": None, "lease_fence": None, "lease_renewed_at": None}

_COLUMNS = OPERATIONS.c
_NOW, _FARTHEST = (bindparam(name, type_=_COLUMNS.next_attempt_at.type) for name in ("now", "farthest"))
_IS_CANCELLING = _COLUMNS.state == OperationState.CANCELLING
_CLAIMED = case((_IS_CANCELLING, _COLUMNS.state), else_=literal(OperationState.RUNNING, _COLUMNS.state.type))


@cache
def _claim(verbs: tuple[Verb, ...], dialect: str) -> ReturningUpdate[Any]:
    """The claim of a worker that knows these verbs; on SQLite the fence is bound to it."""
    fence = func.nextval("fences_fence_seq") if dialect == "postgresql" else bindparam("fence")
    known = text(f"verb IN ({', '.join(repr(verb.value) for verb in verbs)})")
    due = (
        select(_COLUMNS.id)
        .where(IS_OPEN, known, or_(_COLUMNS.next_attempt_at <= _NOW, _COLUMNS.next_attempt_at > _FARTHEST))
        .order_by(_COLUMNS.next_attempt_at)
        .limit(bindparam("limit", type_=Integer))
        .with_for_update(skip_locked=True)
        .cte("due")  # locks what it reads, so it is read once
    )
    lease = {
        "lease_holder": bindparam("holder"),
        "lease_fence": fence,
        "lease_renewed_at": bindparam("now"),
        "next_attempt_at": bindparam("expires_at"),
        "state": _CLAIMED,
        "attempts": _COLUMNS.attempts + 1,
        "updated_at": bindparam("now"),
    }
    has_steps = exists().where(STEPS.c.operation == _COLUMNS.id).label("has_steps")
    return update(OPERATIONS).where(_COLUMNS.id.in_(select(due.c.id))).values(lease).returning(*OPERATIONS.c, has_steps)


_NEXT_FENCE = insert(FENCES).returning(FENCES.c.fence)
_USED_FENCE = delete(FENCES).where(FENCES.c.fence == bindparam("used"))

_RECORDED = ("attempts", "started_at", "finished_at", "result", "reason", "message")
_RECORD = update(STEPS).where(STEPS.c.operation == bindparam("held"), STEPS.c.name == bindparam("step"))
_RECORD = _RECORD.values({name: bindparam(f"step_{name}") for name in _RECORDED}).returning(STEPS.c.name)
_POSITION = select(func.count()).where(STEPS.c.operation == bindparam("held")).scalar_subquery()
_HOLD = (
    update(OPERATIONS)
    .where(_COLUMNS.id == bindparam("held"), _COLUMNS.lease_fence == bindparam("fence"))
    .values(updated_at=bindparam("now"), attempts=func.coalesce(bindparam("fresh", type_=Integer), _COLUMNS.attempts))
    .returning(_COLUMNS.id)
)


def _insert_step(dialect: str) -> Any:
    """A first record of a step; on PostgreSQL also a later one, and only while the operation is held."""
    values = {name: bindparam(f"step_{name}", type_=STEPS.c[name].type) for name in _RECORDED}
    key = {"operation": bindparam("held", type_=Text), "name": bindparam("step", type_=Text), "position": _POSITION}
    row = key | values
    if dialect == "sqlite":
        return insert(STEPS).values(row)
    held = _HOLD.cte("held")
    made = postgresql.insert(STEPS).from_select(list(row), select(*row.values()).select_from(held))
    again = {name: made.excluded[name] for name in _RECORDED}
    return made.on_conflict_do_update(index_elements=[STEPS.c.operation, STEPS.c.name], set_=again).returning(
        STEPS.c.name
    )


_INSERT_STEP = {dialect: _insert_step(dialect) for dialect in ("postgresql", "sqlite")}

_TURN = ("state", "next_attempt_at", "attempts", "reason", "message", "hint")
_RELEASE = (
    update(OPERATIONS)
    .where(_COLUMNS.id == bindparam("released"), _COLUMNS.lease_fence == bindparam("fence"))
    .values({**NOT_LEASED, "updated_at": bindparam("now"), **{name: bindparam(f"turn_{name}") for name in _TURN}})
    .returning(*(_COLUMNS[name] for name in ("id", "tenant", "subject", "verb", "actor", "request_id")))
)
_END = {
    "at": bindparam("now", type_=AUDIT_EVENTS.c.at.type),
    "outcome": bindparam("turn_state", type_=_COLUMNS.state.type),
    "before_digest": literal(""),
    "after_digest": literal(""),
}


def _release_with_audit() -> Any:
    """The release of an operation that is over, and its audit line from what the release returned."""
    ended = _RELEASE.cte("ended").c
    told = {name: ended[name] for name in ("tenant", "subject", "actor", "request_id")}
    line = {**_END, **told, "action": ended.verb, "operation": ended.id}
    return insert(AUDIT_EVENTS).from_select(list(line), select(*line.values())).returning(AUDIT_EVENTS.c.id)


_RELEASE_WITH_AUDIT = _release_with_audit()


async def claim_due(
    database: Database, holder: str, now: datetime, *, verbs: Collection[Verb], limit: int
) -> Sequence[Row[Any]]:
    """The rows of at most `limit` operations, those that are due longest, claimed, with `has_steps`; on SQLite, where
    nothing is gained by more, of one."""
    statement = _claim(tuple(verbs), database.dialect)
    values: dict[str, Any] = {
        "holder": holder,
        "now": now,
        "expires_at": now + LEASE,
        "farthest": now + FARTHEST,
        "limit": limit,
    }
    if database.dialect == "postgresql":
        return await database.write_once(statement, values)
    async with database.write() as connection:
        fence = await connection.scalar(_NEXT_FENCE)
        await connection.execute(_USED_FENCE, {"used": fence})
        rows: Sequence[Row[Any]] = (await connection.execute(statement, {**values, "fence": fence, "limit": 1})).all()
        return rows


async def record_step(
    database: Database, operation: OperationId, fence: Fence, record: StepRecord, now: datetime
) -> None:
    """Store a step's record; a finished one renews the attempts. ConflictError (`FenceStale`)."""
    values: dict[str, Any] = {f"step_{name}": getattr(record, name) for name in _RECORDED}
    values |= {"held": operation, "fence": fence, "now": now, "fresh": 1 if record.is_done else None}
    values["step"] = record.name
    if database.dialect == "postgresql":
        if not await database.write_once(_INSERT_STEP["postgresql"], values):
            raise stale(operation, fence)
        return
    async with database.write() as connection:
        if (await connection.execute(_HOLD, values)).one_or_none() is None:
            raise stale(operation, fence)
        if (await connection.execute(_RECORD, values)).one_or_none() is None:
            await connection.execute(_INSERT_STEP["sqlite"], values)


async def release(database: Database, operation: OperationId, fence: Fence, turn: Turn, now: datetime) -> None:
    """Store the operation's new state without a lease, and tell of its end. ConflictError (`FenceStale`)."""
    values = {"released": operation, "fence": fence, "now": now}
    values |= {f"turn_{name}": value for name, value in columns_of(turn).items()}
    if database.dialect == "postgresql" or not turn.state.is_final:
        if not await database.write_once(_RELEASE_WITH_AUDIT if turn.state.is_final else _RELEASE, values):
            raise stale(operation, fence)
        return
    async with database.write() as connection:
        released = (await connection.execute(_RELEASE, values)).one_or_none()
        if released is None:
            raise stale(operation, fence)
        await record_operation(connection, released, turn.state, now=now)

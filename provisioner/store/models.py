"""Rows of models' versions: what files and the API said of each model, one after the other. The API writes them.

Every change takes the row that counts changes first: so two processes agree on which version comes next, and on which
one an update was made of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from provisioner.domain.audit import AuditEvent
from provisioner.domain.errors import ConflictError, InvariantError, NotFoundError, RejectedError
from provisioner.domain.model_version import ModelDocument, ModelVersion, VersionOrigin
from provisioner.domain.origin import Origin
from provisioner.domain.page import Page, Position
from provisioner.store.audit import digest_of_row, record_audit
from provisioner.store.changes import count_change, read_changes
from provisioner.store.database import Database
from provisioner.store.paging import Order
from provisioner.store.repeats import earlier_subject
from provisioner.store.rows import columns_of, model_version_from, value_or_error
from provisioner.store.schema import MODEL_VERSIONS

_COLUMNS = MODEL_VERSIONS.c
_BY_MODEL = Order((_COLUMNS.model,))
_IMPORTER = Origin(idempotency_key="", request_digest="", actor="server", request_id="")
"""Who brings in what files say."""


class SqlModels:
    """The ModelStore on a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def bring_in(self, files: Collection[ModelDocument], now: datetime) -> None:
        """See ModelStore."""
        async with self._database.read() as connection:
            if not list(_news(files, await _newest(connection))):
                return  # as at most starts: nobody has to wait for anybody
        async with self._database.write() as connection:
            await count_change(connection, MODEL_VERSIONS)
            for before, file in _news(files, await _newest(connection)):
                made = _following(before, file, VersionOrigin.FILE, now)
                await _store(connection, "model.import", before, made, _IMPORTER, now)

    async def get(self, model: str) -> ModelVersion:
        """See ModelStore."""
        async with self._database.read() as connection:
            return await _get(connection, model)

    async def find(self, model: str) -> ModelVersion | None:
        """See ModelStore."""
        async with self._database.read() as connection:
            return await _find(connection, model)

    async def newest(self) -> Sequence[ModelVersion | InvariantError]:
        """See ModelStore."""
        async with self._database.read() as connection:
            rows = (await connection.execute(_newest_rows().order_by(_COLUMNS.model))).all()
        return [value_or_error(model_version_from, row) for row in rows]

    async def page(
        self, *, archived: bool = False, after: Position | None = None, limit: int = 100
    ) -> Page[ModelVersion]:
        """See ModelStore."""
        listed = _newest_rows() if archived else _newest_rows().where(_COLUMNS.archived_at.is_(None))
        async with self._database.read() as connection:
            found = (await connection.execute(_BY_MODEL.rows_after(listed, after, limit=limit))).all()
        rows, following = _BY_MODEL.cut(found, limit=limit)
        return Page([value_or_error(model_version_from, row) for row in rows], following)

    async def versions(
        self, model: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[ModelVersion | InvariantError]:
        """See ModelStore."""
        older = () if before is None else (_COLUMNS.version < before,)
        listed = select(MODEL_VERSIONS).where(_COLUMNS.model == model, *older)
        async with self._database.read() as connection:
            rows = (await connection.execute(listed.order_by(_COLUMNS.version.desc()).limit(limit))).all()
        return [value_or_error(model_version_from, row) for row in rows]

    async def imported(self) -> frozenset[tuple[str, str]]:
        """See ModelStore."""
        brought = select(_COLUMNS.model, _COLUMNS.digest).where(_COLUMNS.origin == VersionOrigin.FILE)
        async with self._database.read() as connection:
            return frozenset((row.model, row.digest) for row in await connection.execute(brought))

    async def changes(self) -> int:
        """See ModelStore."""
        async with self._database.read() as connection:
            return await read_changes(connection, MODEL_VERSIONS)

    async def add(self, document: ModelDocument, origin: Origin, now: datetime) -> ModelVersion:
        """See ModelStore."""
        async with self._database.write() as connection:
            await count_change(connection, MODEL_VERSIONS)
            newest = await _find(connection, document.model)
            made = _following(None, document, VersionOrigin.API, now)
            if earlier := await _earlier(connection, made, origin, now):
                return earlier
            if newest is not None:
                raise _taken(newest)
            await _store(connection, "model.create", None, made, origin, now)
        return made

    async def change(
        self, document: ModelDocument, origin: Origin, now: datetime, *, expected: Collection[int] | None
    ) -> ModelVersion:
        """See ModelStore."""
        async with self._database.write() as connection:
            await count_change(connection, MODEL_VERSIONS)
            newest = await _get(connection, document.model)
            is_said = newest.digest == document.digest
            made = newest if is_said else _following(newest, document, VersionOrigin.API, now)
            if earlier := await _earlier(connection, made, origin, now):
                return earlier
            _require_changeable(newest, expected)
            if not is_said:
                await _store(connection, "model.update", newest, made, origin, now)
        return made

    async def archive(self, model: str, origin: Origin, now: datetime) -> ModelVersion:
        """See ModelStore."""
        async with self._database.write() as connection:
            await count_change(connection, MODEL_VERSIONS)
            newest = await _get(connection, model)
            if await _earlier(connection, newest, origin, now) or newest.archived_at is not None:
                return newest
            return await _mark(connection, "model.archive", newest, replace(newest, archived_at=now), origin, now=now)

    async def restore(self, model: str, origin: Origin, now: datetime) -> ModelVersion:
        """See ModelStore."""
        async with self._database.write() as connection:
            await count_change(connection, MODEL_VERSIONS)
            newest = await _get(connection, model)
            if await _earlier(connection, newest, origin, now) or newest.archived_at is None:
                return newest
            return await _mark(connection, "model.restore", newest, replace(newest, archived_at=None), origin, now=now)


def _news(
    files: Collection[ModelDocument], newest: Mapping[str, ModelVersion | InvariantError]
) -> Iterator[tuple[ModelVersion | None, ModelDocument]]:
    """What files say that is to be the next version, with the one before. A row that a newer version of the server
    wrote is left to that one."""
    for file in files:
        before = newest.get(file.model)
        if before is None:
            yield None, file
        elif isinstance(before, ModelVersion) and (before.digest == file.digest) is (
            before.origin is VersionOrigin.API
        ):
            yield before, file


def _following(
    before: ModelVersion | None, document: ModelDocument, origin: VersionOrigin, now: datetime
) -> ModelVersion:
    return ModelVersion(
        model=document.model,
        version=1 if before is None else before.version + 1,
        origin=origin,
        digest=document.digest,
        body=document.body,
        created_at=now,
        archived_at=None if before is None else before.archived_at,
    )


def _newest_rows() -> Select[Any]:
    others = MODEL_VERSIONS.alias("others")
    newest = select(func.max(others.c.version)).where(others.c.model == _COLUMNS.model).scalar_subquery()
    return select(MODEL_VERSIONS).where(_COLUMNS.version == newest)


async def _newest(connection: AsyncConnection) -> dict[str, ModelVersion | InvariantError]:
    rows = (await connection.execute(_newest_rows())).all()
    return {row.model: value_or_error(model_version_from, row) for row in rows}


async def _find(connection: AsyncConnection, model: str) -> ModelVersion | None:
    row = (await connection.execute(_newest_rows().where(_COLUMNS.model == model))).one_or_none()
    return None if row is None else model_version_from(row)


async def _get(connection: AsyncConnection, model: str) -> ModelVersion:
    found = await _find(connection, model)
    if found is None:
        raise NotFoundError(
            f"finding the model: there is none with the id: {model}",
            reason="ModelUnknown",
            hint="`tenantry model list` shows those offered, `GET /v1/model-masters?archived=true` archived ones too",
        )
    return found


async def _earlier(
    connection: AsyncConnection, made: ModelVersion, origin: Origin, now: datetime
) -> ModelVersion | None:
    """The version that the same request made or marked before; None when this is the first."""
    earlier = await earlier_subject(connection, origin, tenant="", subject=f"{made.model}@{made.version}", now=now)
    if earlier is None:
        return None
    model, _, number = earlier.rpartition("@")
    found = select(MODEL_VERSIONS).where(_COLUMNS.model == model, _COLUMNS.version == int(number))
    return model_version_from((await connection.execute(found)).one())


async def _store(
    connection: AsyncConnection,
    action: str,
    before: ModelVersion | None,
    made: ModelVersion,
    origin: Origin,
    now: datetime,
) -> None:
    """Store a version. The mark of an archived model moves on to it."""
    if before is not None and before.archived_at is not None:
        await connection.execute(update(MODEL_VERSIONS).where(_is(before)).values(archived_at=None))
    await connection.execute(insert(MODEL_VERSIONS).values(columns_of(made)))
    await record_audit(connection, _event(action, before, made, origin, now))


async def _mark(
    connection: AsyncConnection,
    action: str,
    before: ModelVersion,
    after: ModelVersion,
    origin: Origin,
    *,
    now: datetime,
) -> ModelVersion:
    await connection.execute(update(MODEL_VERSIONS).where(_is(before)).values(archived_at=after.archived_at))
    await record_audit(connection, _event(action, before, after, origin, now))
    return after


def _is(version: ModelVersion) -> Any:
    return (_COLUMNS.model == version.model) & (_COLUMNS.version == version.version)


def _event(action: str, before: ModelVersion | None, after: ModelVersion, origin: Origin, now: datetime) -> AuditEvent:
    return AuditEvent(
        at=now,
        actor=origin.actor,
        action=action,
        tenant="",
        subject=after.model,
        outcome="succeeded",
        request_id=origin.request_id,
        before_digest=digest_of_row(before),
        after_digest=digest_of_row(after),
    )


def _require_changeable(newest: ModelVersion, expected: Collection[int] | None) -> None:
    if newest.archived_at is not None:
        raise ConflictError(
            f"changing the model: it is archived: {newest.model}",
            reason="ModelArchived",
            hint=f"restore it first: `POST /v1/model-masters/{newest.model}:restore`",
        )
    if expected is not None and newest.version not in expected:
        raise ConflictError(
            f"changing the model: it was changed since the state that If-Match names, its version is: {newest.version}",
            reason="PreconditionFailed",
            hint="read it again, decide again, and send the new ETag",
        )


def _taken(newest: ModelVersion) -> RejectedError:
    is_archived = newest.archived_at is not None
    return RejectedError(
        f"adding the model: there is {'an archived' if is_archived else 'a'} one with this id: {newest.model}",
        reason="NameTaken",
        hint="restore it with `:restore`" if is_archived else "change it with PUT or PATCH, or choose another id",
    )

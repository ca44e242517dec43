"""Versions of models: imported once per digest, changed over the API from the version that was read, never lost."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from provisioner.domain.audit import AuditFilter
from provisioner.domain.errors import ConflictError, InvariantError, NotFoundError, RejectedError
from provisioner.domain.model_version import ModelDocument, ModelVersion, VersionOrigin
from provisioner.domain.origin import Origin
from provisioner.store.sql import SqlStore, open_store
from tests.store.examples import NOON, SteppedClock
from tests.store.statements import run_statement

API, FILE = VersionOrigin.API, VersionOrigin.FILE


def said(what: str, *, model: str = "acme/chat") -> ModelDocument:
    """A document of a model that says something."""
    return ModelDocument(model=model, digest=f"digest of {what}", body={"id": model, "description": what})


def origin(key: str, *, digest: str = "digest") -> Origin:
    return Origin(idempotency_key=key, request_digest=digest, actor="admin:ci", request_id=f"req-{key}")


async def change(store: SqlStore, what: str, key: str, **changes: Any) -> ModelVersion:
    """Change the model, whatever version it has."""
    return await store.models.change(said(what), origin(key), NOON, **({"expected": None} | changes))


async def history(store: SqlStore, model: str = "acme/chat") -> list[tuple[int, str, Any]]:
    """Every version, oldest first: number, origin and what is said."""
    found = await store.models.versions(model)
    assert all(isinstance(one, ModelVersion) for one in found)
    return [(one.version, one.origin, one.body["description"]) for one in reversed(found)]  # type: ignore[union-attr]


async def test_a_file_is_imported_once_and_again_when_it_changed(store: SqlStore) -> None:
    for what in ("a", "a", "b", "b", "a"):
        await store.models.bring_in([said(what), said("other", model="other")], NOON)
    assert await history(store) == [(1, FILE, "a"), (2, FILE, "b"), (3, FILE, "a")]
    assert await history(store, "other") == [(1, FILE, "other")]
    assert await store.models.imported() == {
        ("acme/chat", "digest of a"),
        ("acme/chat", "digest of b"),
        ("other", "digest of other"),
    }


async def test_servers_that_start_together_import_a_file_once(store: SqlStore, url: str, clock: SteppedClock) -> None:
    other = await open_store(url, clock=clock)
    try:
        files = [said("a"), said("b", model="b"), said("c", model="c")]
        await asyncio.gather(*(one.models.bring_in(files, NOON) for one in (store, other) * 4))
        assert [(one.model, one.version) for one in await store.models.newest()] == [  # type: ignore[union-attr]
            ("acme/chat", 1),
            ("b", 1),
            ("c", 1),
        ]
        assert len(await store.audit.oldest(AuditFilter(action="model.import"))) == 3
    finally:
        await other.close()


async def test_a_start_without_news_changes_nothing(store: SqlStore) -> None:
    await store.models.bring_in([said("a")], NOON)
    before = await store.models.changes()
    await store.models.bring_in([said("a")], NOON)
    assert await store.models.changes() == before


async def test_a_file_never_takes_the_place_of_what_the_api_said(store: SqlStore) -> None:
    await store.models.bring_in([said("a")], NOON)
    await change(store, "mine", "1")
    await store.models.bring_in([said("b")], NOON)
    assert await history(store) == [(1, FILE, "a"), (2, API, "mine")]
    await store.models.bring_in([said("mine")], NOON)
    await store.models.bring_in([said("c")], NOON)
    assert (await history(store))[2:] == [(3, FILE, "mine"), (4, FILE, "c")]


async def test_an_id_that_is_there_cannot_be_added_again(store: SqlStore) -> None:
    """Ledger: CAT-04."""
    assert (await store.models.add(said("a"), origin("1"), NOON)).version == 1
    for state in ("there", "archived"):
        with pytest.raises(RejectedError) as refused:
            await store.models.add(said("b"), origin(state), NOON)
        assert refused.value.reason == "NameTaken"
        await store.models.archive("acme/chat", origin("archive"), NOON)
    assert await history(store) == [(1, API, "a")]


async def test_of_several_that_add_a_model_one_does(store: SqlStore) -> None:
    asked = [store.models.add(said(f"{number}"), origin(f"{number}"), NOON) for number in range(5)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, ModelVersion) for answer in answers) == 1
    assert len(await history(store)) == 1


async def test_a_change_is_made_of_the_version_that_was_read(store: SqlStore) -> None:
    """Ledger: CAT-04."""
    await store.models.add(said("a"), origin("1"), NOON)
    changed = await change(store, "b", "2", expected={1})
    assert (changed.version, changed.origin, changed.body["description"]) == (2, API, "b")
    with pytest.raises(ConflictError) as refused:
        await change(store, "c", "3", expected={1})
    assert refused.value.reason == "PreconditionFailed"
    assert (await change(store, "b", "4", expected={2})).version == 2
    with pytest.raises(NotFoundError) as unknown:
        await store.models.change(said("x", model="nobody"), origin("5"), NOON, expected=None)
    assert unknown.value.reason == "ModelUnknown"


async def test_of_several_that_change_one_version_one_does(store: SqlStore, url: str, clock: SteppedClock) -> None:
    other = await open_store(url, clock=clock)
    try:
        await store.models.add(said("a"), origin("a"), NOON)
        asked = [change((store, other)[number % 2], f"{number}", f"{number}", expected={1}) for number in range(6)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(answer, ModelVersion) for answer in answers) == 1
        assert len(await history(store)) == 2
    finally:
        await other.close()


async def test_a_repeated_request_finds_the_version_it_made(store: SqlStore) -> None:
    """Ledger: OPS-01."""
    first = await store.models.add(said("a"), origin("1"), NOON)
    second = await change(store, "b", "2", expected={1})
    assert await store.models.add(said("a"), origin("1"), NOON) == first
    await change(store, "c", "3")
    assert await change(store, "b", "2", expected={1}) == second
    assert [version for version, _, _ in await history(store)] == [1, 2, 3]
    with pytest.raises(RejectedError) as refused:
        await store.models.change(said("d"), origin("2", digest="another"), NOON, expected=None)
    assert refused.value.reason == "IdempotencyKeyReused"


async def test_an_archived_model_is_hidden_unchanged_and_can_be_restored(store: SqlStore) -> None:
    """Ledger: CAT-04."""
    await store.models.bring_in([said("a"), said("o", model="other")], NOON)
    later = NOON + timedelta(hours=1)
    assert (await store.models.archive("acme/chat", origin("1"), later)).archived_at == later
    assert (await store.models.archive("acme/chat", origin("2"), later + timedelta(hours=1))).archived_at == later
    assert [one.model for one in (await store.models.page()).rows] == ["other"]  # type: ignore[union-attr]
    assert len((await store.models.page(archived=True)).rows) == 2
    with pytest.raises(ConflictError) as refused:
        await change(store, "b", "3")
    assert refused.value.reason == "ModelArchived"
    await store.models.bring_in([said("b")], NOON)
    newest, before = await store.models.versions("acme/chat")
    assert isinstance(newest, ModelVersion) and isinstance(before, ModelVersion)
    assert (newest.version, newest.archived_at, before.archived_at) == (2, later, None)
    assert (await store.models.restore("acme/chat", origin("4"), NOON)).archived_at is None
    assert (await change(store, "c", "5")).version == 3
    with pytest.raises(NotFoundError):
        await store.models.archive("nobody", origin("6"), NOON)


async def test_every_change_leaves_an_audit_event_and_is_counted(store: SqlStore) -> None:
    """Ledger: SEC-03."""
    counts = [await store.models.changes()]
    await store.models.bring_in([said("a")], NOON)
    counts.append(await store.models.changes())
    await change(store, "b", "1")
    counts.append(await store.models.changes())
    await store.models.archive("acme/chat", origin("2"), NOON)
    counts.append(await store.models.changes())
    await store.models.restore("acme/chat", origin("3"), NOON)
    counts.append(await store.models.changes())
    assert counts == sorted(set(counts))
    events = await store.audit.oldest(AuditFilter(subject="acme/chat"))
    assert [(event.action, event.actor, event.request_id) for event in events] == [
        ("model.import", "server", ""),
        ("model.update", "admin:ci", "req-1"),
        ("model.archive", "admin:ci", "req-2"),
        ("model.restore", "admin:ci", "req-3"),
    ]
    assert [event.before_digest for event in events[1:]] == [event.after_digest for event in events[:-1]]
    assert events[3].after_digest == events[1].after_digest != events[2].after_digest


async def test_versions_and_models_come_page_by_page(store: SqlStore) -> None:
    for number in range(5):
        await store.models.bring_in([said(f"{number}"), said("o", model=f"m{number}")], NOON)
    first = await store.models.page(limit=4)
    rest = await store.models.page(limit=4, after=first.next)
    listed = [one.model for page in (first, rest) for one in page.rows]  # type: ignore[union-attr]
    assert listed == ["acme/chat", "m0", "m1", "m2", "m3", "m4"]
    older = await store.models.versions("acme/chat", before=4, limit=2)
    assert [one.version for one in older] == [3, 2]  # type: ignore[union-attr]


async def test_a_version_that_cannot_be_read_hides_no_other_and_is_left_to_who_wrote_it(
    store: SqlStore, url: str
) -> None:
    await store.models.bring_in([said("a"), said("o", model="other")], NOON)
    await run_statement(url, "UPDATE model_versions SET origin = 'elsewhere' WHERE model = 'other'")
    broken = (await store.models.newest())[1]
    assert isinstance(broken, InvariantError) and "version `1` of model `other`" in broken.message
    await store.models.bring_in([said("news", model="other")], NOON)
    assert len(await store.models.versions("other")) == 1

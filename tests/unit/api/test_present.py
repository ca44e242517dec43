"""The catalog of a process: looked for twice a second, and at once by the process that changed it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from provisioner.api import present
from provisioner.api.present import PresentCatalog
from provisioner.catalog.written import document_of
from provisioner.domain.origin import Origin
from provisioner.store.interface.models import ModelStore
from provisioner.store.sql import SqlStore
from tests.store.examples import NOON, SteppedClock
from tests.store.fresh import open_fresh
from tests.unit.catalog.packs import small_catalog


class Watched:
    """A store of models that counts looks and can hold one up that has read all versions."""

    def __init__(self, store: ModelStore) -> None:
        self._store = store
        self.looks = 0
        self.has_read = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def changes(self) -> int:
        """As the store, counted."""
        self.looks += 1
        return await self._store.changes()

    async def imported(self) -> frozenset[tuple[str, str]]:
        """As the store, held up."""
        self.has_read.set()
        await self.may_go_on.wait()
        return await self._store.imported()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    """A store without models."""
    store = await open_fresh(tmp_path / "store.sqlite", clock=SteppedClock())
    yield store
    await store.close()


async def add(store: SqlStore, name: str) -> None:
    """Add a model like `tiny` over the API."""
    document = document_of(small_catalog().models["tiny"].model_copy(update={"id": name}))
    origin = Origin(idempotency_key=name, request_digest="", actor="", request_id="")
    await store.models.add(document, origin, NOON)


async def test_many_requests_look_once(store: SqlStore) -> None:
    models = Watched(store.models)
    catalog = PresentCatalog(small_catalog(), cast(ModelStore, models))
    for _ in range(20):
        assert (await catalog.overlay()).catalog.models == small_catalog().models
    assert models.looks == 1


async def test_a_look_from_before_a_change_is_not_believed_after_it(store: SqlStore) -> None:
    models = Watched(store.models)
    catalog = PresentCatalog(small_catalog(), cast(ModelStore, models))
    models.may_go_on.clear()
    early = asyncio.create_task(catalog.overlay())
    await models.has_read.wait()
    await add(store, "new")
    catalog.forget()
    models.may_go_on.set()
    await early
    assert "new" in (await catalog.overlay()).catalog.models


async def test_what_there_is_to_know_of_a_model_is_logged_once(
    store: SqlStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(present, "KNOWN_SECONDS", 0)
    await store.models.bring_in([replace(document_of(small_catalog().models["tiny"]), model="gone")], NOON)
    catalog = PresentCatalog(small_catalog(), store.models)
    with caplog.at_level(logging.WARNING, logger=present.__name__):
        for name in ("a", "b"):
            await add(store, name)
            await catalog.overlay()
    assert [record.__dict__["reason"] for record in caplog.records] == ["FileGone"]

"""The first administrator's key: made once, kept in its file, never logged."""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from provisioner.domain.access import AccessRole
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import KeyId, RandomIds
from provisioner.domain.key import ApiKey, key_digest
from provisioner.settings import Settings, read_settings
from provisioner.store.sql import SqlStore, open_store
from provisioner.wiring.bootstrap import BOOTSTRAP, ensure_administrator, write_first
from tests.store.examples import SteppedClock, api_key

OWN_SECRET = "0123456789abcdef" * 4


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def store(tmp_path: Path, clock: SteppedClock) -> AsyncIterator[SqlStore]:
    store = await open_store(f"sqlite:///{tmp_path}/store.sqlite", clock=clock)
    yield store
    await store.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings({"TENANTRY_STATE": str(tmp_path / "deep" / "state")})


async def start(store: SqlStore, settings: Settings, clock: SteppedClock) -> None:
    await ensure_administrator(store.keys, settings, clock=clock, ids=RandomIds())


async def test_first_start_makes_one_key_into_a_file_that_only_we_may_read(
    store: SqlStore, settings: Settings, clock: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Ledger: SEC-07."""
    caplog.set_level(logging.DEBUG)
    await start(store, settings, clock)
    file = settings.operator_key_file
    secret = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (file.parent, file.parent.parent)} == {0o700}
    assert list(file.parent.iterdir()) == [file]
    (key,) = await store.keys.list()
    assert (key.name, key.role, key.tenant, key.digest) == (BOOTSTRAP, AccessRole.ADMIN, None, key_digest(secret))
    assert secret not in caplog.text
    await start(store, settings, clock)
    assert await store.keys.list() == [key]
    assert file.read_text().strip() == secret


async def test_a_file_that_is_there_is_registered_even_when_it_cannot_be_written(
    store: SqlStore, settings: Settings, clock: SteppedClock
) -> None:
    folder = settings.operator_key_file.parent
    folder.mkdir(parents=True)
    settings.operator_key_file.write_text(OWN_SECRET)
    settings.operator_key_file.chmod(0o440)
    folder.chmod(0o550)
    try:
        await start(store, settings, clock)
    finally:
        folder.chmod(0o700)
    (key,) = await store.keys.list()
    assert (key.digest, key.prefix) == (key_digest(OWN_SECRET), OWN_SECRET[:10])


async def test_servers_that_start_together_with_one_file_make_one_key(
    store: SqlStore, settings: Settings, clock: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    await asyncio.gather(*(start(store, settings, clock) for _ in range(4)))
    (key,) = await store.keys.list()
    assert key_digest(settings.operator_key_file.read_text().strip()) == key.digest
    assert not caplog.records


async def test_a_server_with_a_file_of_its_own_that_comes_second_leaves_none(
    store: SqlStore, settings: Settings, clock: SteppedClock, tmp_path: Path
) -> None:
    others = [replace(settings, operator_key_file=tmp_path / f"server-{number}" / "key") for number in range(4)]
    await asyncio.gather(*(start(store, other, clock) for other in others))
    (key,) = await store.keys.list()
    (file,) = [other.operator_key_file for other in others if other.operator_key_file.exists()]
    assert key_digest(file.read_text().strip()) == key.digest


async def test_who_wrote_the_file_keeps_it_when_another_server_was_first_to_store_its_key(
    store: SqlStore, settings: Settings, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_first = store.keys.add_first

    async def second(key: ApiKey, now: datetime) -> bool:
        assert await add_first(replace(key, id=KeyId("key-of-the-other")), now)
        return await add_first(key, now)

    monkeypatch.setattr(store.keys, "add_first", second)
    await start(store, settings, clock)
    (key,) = await store.keys.list()
    assert key.digest == key_digest(settings.operator_key_file.read_text().strip())


async def test_a_revoked_bootstrap_key_stays_revoked_while_another_administers(
    store: SqlStore, settings: Settings, clock: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    await start(store, settings, clock)
    (first,) = await store.keys.list()
    await store.keys.add(api_key("tnt-other", id=KeyId("key-o"), role=AccessRole.ADMIN, tenant=None))
    await store.keys.revoke(first.id, clock.now())
    await start(store, settings, clock)
    assert {key.id: key.revoked_at is None for key in await store.keys.list()} == {first.id: False, "key-o": True}
    assert "no key of this installation, or no longer" in caplog.text


async def test_without_any_administrator_a_new_key_in_the_file_lets_somebody_in_again(
    store: SqlStore, settings: Settings, clock: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    await start(store, settings, clock)
    (first,) = await store.keys.list()
    await store.keys.revoke(first.id, clock.now())
    await start(store, settings, clock)
    assert "put a new one there" in caplog.text
    assert len(await store.keys.list()) == 1
    settings.operator_key_file.write_text(OWN_SECRET)
    await start(store, settings, clock)
    assert await store.keys.has_administrator(clock.now())


async def test_a_key_that_could_be_guessed_is_refused(store: SqlStore, settings: Settings, clock: SteppedClock) -> None:
    settings.operator_key_file.parent.mkdir(parents=True)
    settings.operator_key_file.write_text("password")
    with pytest.raises(RejectedError, match="shorter than") as raised:
        await start(store, settings, clock)
    assert "password" not in str(raised.value)
    assert await store.keys.list() == []


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with pytest.raises(RejectedError, match="plain/key"):
        write_first(tmp_path / "plain" / "key", "secret")

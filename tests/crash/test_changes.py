"""Changes that do not go the usual way under kills: without room for two revisions, never loaded, or wider."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioner.domain.ids import OperationId
from provisioner.domain.operation import Verb
from tests.crash.endpoint_lives import Prepare, engine_only, starting
from tests.crash.harness import assert_survives_every_kill
from tests.unit.endpoints.changes import another, bounds
from tests.unit.endpoints.installation import Installation

pytestmark = pytest.mark.timeout(600)  # a hundred lives each, on a machine that may be busy


async def replaced(laptop: Installation) -> OperationId:
    """An update for which there is no room beside the revision that serves."""
    await laptop.finish(await laptop.submit_create())
    return await laptop.submit_change(Verb.ENDPOINT_UPDATE, another(mode="replace"))


async def replaced_by_never_loaded(laptop: Installation) -> OperationId:
    """The same with a revision that never loads."""
    laptop.platform.stuck.add("def456")
    return await replaced(laptop)


async def widened(laptop: Installation) -> OperationId:
    """A scale to more replicas than run."""
    await laptop.finish(await laptop.submit_create())
    return await laptop.submit_change(Verb.ENDPOINT_SCALE, bounds(2, 3))


@pytest.fixture
def hurrying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes quickly between two turns, and a revision is given little of it; a lost lease alone costs 30 s."""
    settle = Installation.settle

    async def hurry(laptop: Installation) -> None:
        laptop.clock.advance(6)
        await settle(laptop)

    monkeypatch.setattr(Installation, "settle", hurry)
    monkeypatch.setattr("provisioner.endpoints.change_arrival.ARRIVAL_SECONDS", 40.0)


@pytest.mark.usefixtures("hurrying")
@pytest.mark.parametrize("prepare", [replaced, replaced_by_never_loaded, widened])
async def test_killed_at_every_moment_the_end_is_the_same(tmp_path: Path, prepare: Prepare) -> None:
    """Ledger: OPS-07"""
    names = await assert_survives_every_kill(await starting(tmp_path, prepare, engine_only))
    assert {"after make_room", "after await_revision", "after restore", "after tidy"} <= set(names)

"""Endpoint verbs under kills where the way is not the usual one; `test_every_verb` has the usual ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioner.domain.ids import OperationId
from tests.crash.endpoint_lives import engine_only, starting
from tests.crash.harness import assert_survives_every_kill
from tests.unit.endpoints.installation import Installation

pytestmark = pytest.mark.timeout(400)  # a hundred lives each, on a machine that may be busy


async def half_made(laptop: Installation) -> OperationId:
    """A delete of an endpoint whose creation is stuck."""
    laptop.platform.reached -= {"capacity"}
    await laptop.submit_create()
    await laptop.turns(6)
    return await laptop.submit_delete()


async def refused(laptop: Installation) -> OperationId:
    """A create that the project refuses."""
    laptop.platform.cluster.objects.pop(("VirtualClusterTemplate", None, "tenantry-dedicated"))
    return await laptop.submit_create()


async def test_create_that_is_refused_killed_at_every_moment_ends_failed(tmp_path: Path) -> None:
    names = await assert_survives_every_kill(await starting(tmp_path, refused, engine_only))
    assert "after on_failed" in names


async def test_delete_of_a_half_made_endpoint_killed_at_every_moment_leaves_nothing(tmp_path: Path) -> None:
    await assert_survives_every_kill(await starting(tmp_path, half_made, engine_only))

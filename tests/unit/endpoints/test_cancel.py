"""Cancelling the creation of an endpoint, wherever it has come to."""

from __future__ import annotations

import pytest

from provisioner.domain.endpoint import Phase
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import OperationId
from provisioner.domain.operation import OperationState
from provisioner.endpoints import create, delete
from provisioner.endpoints.verbs import endpoint_verbs
from provisioner.operations.cancel import NOT_CANCELLABLE
from provisioner.platform.kinds import NODE_CLAIM
from tests.unit.endpoints.installation import Installation
from tests.unit.endpoints.stand_in import STAGES
from tests.unit.endpoints.test_delete import left


async def cancel(laptop: Installation, operation: OperationId) -> None:
    await laptop.store.operations.cancel(operation, laptop.clock.now(), actor="ops", request_id="req-9")


@pytest.mark.parametrize(
    ("held_back", "turns"), [*((stage, 6) for stage in STAGES), *(("tenant_cluster", turns) for turns in range(4))]
)
async def test_cancelled_create_leaves_nothing(laptop: Installation, held_back: str, turns: int) -> None:
    laptop.platform.reached -= {held_back}
    operation = await laptop.submit_create()
    for _ in range(turns):
        await laptop.turn()
    await cancel(laptop, operation)
    cancelled = await laptop.finish(operation)
    assert (cancelled.state, cancelled.reason) == (OperationState.CANCELLED, "Cancelled")
    assert await left(laptop) == []


async def test_endpoint_is_shown_as_deleting_with_what_is_waited_for(laptop: Installation) -> None:
    laptop.platform.reached -= {"loading"}
    operation = await laptop.submit_create()
    await laptop.turns(5)
    assert laptop.platform.cluster.names(NODE_CLAIM)
    laptop.platform.keeps = True
    await cancel(laptop, operation)
    row = await laptop.turns(5)
    assert (row.phase, row.reason) == (Phase.DELETING, "Reclaiming")
    assert (await laptop.store.operations.get(operation)).state is OperationState.CANCELLING
    laptop.platform.keeps = False
    assert (await laptop.finish(operation)).state is OperationState.CANCELLED


async def test_cancelling_that_is_refused_is_said_on_the_row_and_delete_goes_on(laptop: Installation) -> None:
    operation = await laptop.submit_create()
    await laptop.turns(1)
    laptop.platform.cluster.trouble = RejectedError("deleting: forbidden", reason="Forbidden")
    await cancel(laptop, operation)
    await laptop.turns(3)
    failed = await laptop.store.operations.get(operation)
    assert (failed.state, failed.reason) == (OperationState.FAILED, "Forbidden")
    row = await laptop.endpoint()
    assert row is not None and (row.phase, row.reason) == (Phase.DELETING, "Forbidden")
    laptop.platform.cluster.trouble = None
    await laptop.finish(await laptop.submit_delete())
    assert await left(laptop) == []


async def test_delete_takes_over_from_a_create_that_is_being_cancelled(laptop: Installation) -> None:
    laptop.platform.keeps = True
    laptop.platform.reached -= {"loading"}
    operation = await laptop.submit_create()
    await laptop.turns(4)
    await cancel(laptop, operation)
    await laptop.turns(2)
    deleting = await laptop.submit_delete()
    superseded = await laptop.store.operations.get(operation)
    assert (superseded.state, superseded.reason) == (OperationState.CANCELLED, "Superseded")
    laptop.platform.keeps = False
    assert (await laptop.finish(deleting)).state is OperationState.SUCCEEDED
    assert await left(laptop) == []


def test_every_verb_is_cancelled_by_steps_of_its_own_names_or_says_why_not(laptop: Installation) -> None:
    for verb, definition in endpoint_verbs(laptop.world).items():
        assert (definition.cancel_steps is None) == (verb in NOT_CANCELLABLE), verb
        names = [step.name for step in (*definition.steps, *(definition.cancel_steps or ()))]
        assert len(set(names)) == len(names), verb
        assert all(step.name.startswith("cancel_") for step in definition.cancel_steps or ()), verb


def test_cancelling_a_create_does_what_deleting_does() -> None:
    assert [step.name for step in create.CANCEL_STEPS] == [f"cancel_{step.name}" for step in delete.STEPS]

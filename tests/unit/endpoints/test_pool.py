"""An endpoint that a pool serves: what its verbs do, what they leave to the pool, and what they refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.domain.conditions import StageState
from provisioner.domain.endpoint import Change, Endpoint, Phase
from provisioner.domain.errors import ConflictError, RejectedError
from provisioner.domain.ids import EndpointId, OperationId
from provisioner.domain.operation import OperationState, Verb
from provisioner.domain.plan import EndpointPlan
from provisioner.domain.snapshot import Route
from provisioner.endpoints.pool import require_unused
from provisioner.endpoints.submit import new_change, new_create, new_delete, new_operation
from tests.store.examples import endpoint, plan
from tests.unit.endpoints.changes import bounds
from tests.unit.endpoints.installation import ENDPOINT, Installation, installation, origin

ALIAS = EndpointId("ep-b")


def on_pool(endpoint_id: EndpointId = ALIAS) -> EndpointPlan:
    """The plan of a pool, or of an alias on it: as it was when the pool had other bounds and another revision."""
    made = replace(plan(), tenancy="pool", pool=ENDPOINT, limits={"requestsPerMinute": 600})
    if endpoint_id == ENDPOINT:
        return made
    runtime = replace(made.runtime, revision="zzz999", min_replicas=2, max_replicas=8)
    address = replace(made.address, hostname="code.acme.example.com", url="https://code.acme.example.com/v1")
    return replace(made, endpoint=endpoint_id, name="code", runtime=runtime, address=address)


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation with a pool that serves."""
    async with installation(tmp_path) as made:
        assert (await made.finish(await made.submit_create(on_pool(ENDPOINT)))).state is OperationState.SUCCEEDED
        made.platform.effects.clear()
        yield made


async def alias(laptop: Installation) -> Endpoint:
    return await laptop.store.endpoints.get(ALIAS)


async def create(laptop: Installation) -> OperationId:
    made, row = new_create(
        replace(endpoint().request, name="code"),
        on_pool(),
        origin=origin("b"),
        clock=laptop.clock,
        ids=laptop.world.ids,
    )
    await laptop.store.operations.submit(made, endpoint=row)
    return made.id


async def do(laptop: Installation, verb: Verb) -> OperationState:
    row, clock, ids = await alias(laptop), laptop.clock, laptop.world.ids
    if verb is Verb.ENDPOINT_DELETE:
        made, changed = new_delete(row, origin=origin(verb), clock=clock, ids=ids)
    else:
        made, changed = new_operation(verb, row, {}, origin=origin(f"{verb} {row.version}"), clock=clock, ids=ids)
    await laptop.store.operations.submit(made, endpoint=changed)
    return (await laptop.finish(made.id)).state


async def routes(laptop: Installation) -> dict[str, Route]:
    snapshot = await laptop.store.snapshots.current()
    return {route.alias: route for route in snapshot.routes} if snapshot else {}


async def test_an_alias_adds_a_route_and_nothing_else(laptop: Installation) -> None:
    """Ledger: TEN-02, TEN-04"""
    done = await laptop.finish(await create(laptop))
    assert done.state is OperationState.SUCCEEDED, done
    row, found = await alias(laptop), await routes(laptop)
    assert (row.phase, {stage.state for stage in row.stages}) == (Phase.READY, {StageState.DONE})
    assert laptop.effects == ["apply HTTPRoute ep-b"]
    assert found["code"].backends == found["chat"].backends != ()
    assert (found["code"].endpoint, found["code"].hostname) == (ALIAS, "code.acme.example.com")


async def test_an_alias_waits_for_the_stage_that_its_pool_lacks(laptop: Installation) -> None:
    """Ledger: LIF-04"""
    laptop.platform.reached.discard("route")
    await create(laptop)
    row = (await laptop.turns(6)) and await alias(laptop)
    assert row.phase is Phase.CREATING
    assert {stage.name for stage in row.stages if stage.state is not StageState.DONE} == {
        "route",
        "loading",
        "published",
    }


@pytest.mark.parametrize(("phase", "reason"), [(Phase.FAILED, "PoolNotFound"), (Phase.CREATING, "PoolCreating")])
async def test_an_alias_needs_a_pool_that_serves(
    laptop: Installation, phase: Phase, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, operation, get = await laptop.store.endpoints.get(ENDPOINT), await create(laptop), laptop.store.endpoints.get

    async def find(endpoint: EndpointId) -> Endpoint:
        return replace(pool, phase=phase) if endpoint == ENDPOINT else await get(endpoint)

    monkeypatch.setattr(laptop.store.endpoints, "get", find)
    await laptop.turn()
    assert (await laptop.store.operations.get(operation)).reason == reason
    assert laptop.effects == []


async def test_draining_an_alias_leaves_its_pool_to_others(laptop: Installation) -> None:
    """Ledger: LIF-05"""
    await laptop.finish(await create(laptop))
    laptop.platform.effects.clear()
    assert await do(laptop, Verb.ENDPOINT_DRAIN) is OperationState.SUCCEEDED
    found = await routes(laptop)
    assert (await alias(laptop)).phase is Phase.DRAINED
    assert found["code"].backends == () != found["chat"].backends
    assert await do(laptop, Verb.ENDPOINT_WARM) is OperationState.SUCCEEDED
    assert (await routes(laptop))["code"].backends == found["chat"].backends
    assert laptop.effects == []


async def test_bounds_and_pods_of_a_pool_are_not_an_aliass_to_change(laptop: Installation) -> None:
    await laptop.finish(await create(laptop))
    row, clock, ids = await alias(laptop), laptop.clock, laptop.world.ids
    with pytest.raises(RejectedError, match="replicas are those of a pool") as refused:
        new_operation(Verb.ENDPOINT_RESTART, row, {}, origin=origin("r"), clock=clock, ids=ids)
    assert (refused.value.reason, refused.value.hint) == (
        "PoolHasReplicas",
        "ask who operates tier `dedicated` to do it to the pool",
    )


async def test_an_alias_follows_its_pool(laptop: Installation) -> None:
    """Ledger: AUT-05. A pool that is scaled has its new replicas behind every alias."""
    await laptop.finish(await create(laptop))
    pool = replace(bounds(2, 2), plan=replace(bounds(2, 2).plan, tenancy="pool", pool=ENDPOINT))
    await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_SCALE, pool))
    await laptop.settle()
    assert len((await routes(laptop))["code"].backends) == 2


async def test_an_alias_changes_its_team_without_touching_the_pool(laptop: Installation) -> None:
    await laptop.finish(await create(laptop))
    laptop.platform.effects.clear()
    row = await alias(laptop)
    wanted = Change(request=replace(row.request, team=None), plan=replace(row.plan, team="search"))
    made, changed = new_change(
        Verb.ENDPOINT_UPDATE, row, wanted, origin=origin("u"), clock=laptop.clock, ids=laptop.world.ids
    )
    await laptop.store.operations.submit(made, endpoint=changed)
    assert (await laptop.finish(made.id)).state is OperationState.SUCCEEDED
    await laptop.settle()
    assert ((await routes(laptop))["code"].teams, laptop.effects) == (("search",), [])
    assert (await alias(laptop)).change is None


async def test_deleting_an_alias_leaves_the_pool_and_its_other_callers(laptop: Installation) -> None:
    """Ledger: TEN-05"""
    await laptop.finish(await create(laptop))
    laptop.platform.effects.clear()
    assert await do(laptop, Verb.ENDPOINT_DELETE) is OperationState.SUCCEEDED
    assert laptop.effects == ["delete HTTPRoute ep-b"]
    assert set(await routes(laptop)) == {"chat"}


async def test_a_pool_is_not_deleted_while_it_serves(laptop: Installation) -> None:
    await laptop.finish(await create(laptop))
    rows = await laptop.store.endpoints.list()
    with pytest.raises(ConflictError, match="it serves endpoints: acme/code"):
        require_unused(await laptop.store.endpoints.get(ENDPOINT), rows)
    operation = await laptop.submit_delete()  # an alias came in between: the pool waits for it, and serves it meanwhile
    await laptop.turns(3)
    assert (await laptop.store.operations.get(operation)).reason == "PoolInUse"
    assert (await routes(laptop))["code"].backends
    assert await do(laptop, Verb.ENDPOINT_DELETE) is OperationState.SUCCEEDED
    assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED

"""For every verb the life in which it is killed and cancelled. Who adds a verb adds its life here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from provisioner.domain.ids import KeyId, OperationId
from provisioner.domain.operation import Verb
from provisioner.endpoints.reclaim import new_reclaim
from tests.crash import endpoint_lives, tenant_lives
from tests.crash.harness import Start
from tests.store.examples import api_key
from tests.unit.endpoints.changes import another, bounds
from tests.unit.endpoints.installation import ENDPOINT, Installation, origin


def _endpoint(prepare: endpoint_lives.Prepare) -> Callable[[Path], Awaitable[Start]]:
    return lambda folder: endpoint_lives.starting(folder, prepare)


async def _delete(laptop: Installation) -> OperationId:
    """Of an endpoint that is Ready."""
    await laptop.finish(await laptop.submit_create())
    return await laptop.submit_delete()


async def _reclaim(laptop: Installation) -> OperationId:
    """Of an endpoint whose creation failed when everything was there."""
    laptop.platform.reached -= {"loading"}
    creation = await laptop.submit_create()
    await laptop.turns(8)
    laptop.clock.advance(3 * 3600)
    await laptop.finish(creation)
    row = await laptop.store.endpoints.get(ENDPOINT)
    places = (("control-plane", "p-acme-dedicated"),)
    made, deleting = new_reclaim(
        ENDPOINT, row, tenant="acme", places=places, origin=origin("reclaim"), clock=laptop.clock, ids=laptop.world.ids
    )
    await laptop.store.operations.submit(made, endpoint=deleting)
    return made.id


async def _scale(laptop: Installation) -> OperationId:
    """To fewer replicas than run."""
    await laptop.finish(await laptop.submit_create(bounds(2, 2).plan))
    return await laptop.submit_change(Verb.ENDPOINT_SCALE, bounds(1, 1))


async def _update(laptop: Installation) -> OperationId:
    """To another model, beside the one that serves."""
    await laptop.finish(await laptop.submit_create())
    return await laptop.submit_change(Verb.ENDPOINT_UPDATE, another())


async def _restart(laptop: Installation) -> OperationId:
    """Of an endpoint with two replicas."""
    await laptop.finish(await laptop.submit_create(bounds(2, 2).plan))
    return await laptop.submit_verb(Verb.ENDPOINT_RESTART)


async def _rotate_key(laptop: Installation) -> OperationId:
    """In the place of another."""
    await laptop.finish(await laptop.submit_create())
    old = api_key("old", id=KeyId("key-old"), endpoints=(ENDPOINT,))
    await laptop.store.keys.add(old)
    return await laptop.submit_rotation(old, overlap_seconds=3600)


async def _drain(laptop: Installation) -> OperationId:
    """Of an endpoint that serves."""
    await laptop.finish(await laptop.submit_create())
    return await laptop.submit_verb(Verb.ENDPOINT_DRAIN)


async def _warm(laptop: Installation) -> OperationId:
    """Of one that was drained."""
    await laptop.finish(await _drain(laptop))
    return await laptop.submit_verb(Verb.ENDPOINT_WARM)


LIVES: Mapping[Verb, Callable[[Path], Awaitable[Start]]] = {
    Verb.TENANT_CREATE: tenant_lives.creating,
    Verb.TENANT_UPDATE: tenant_lives.changing,
    Verb.TENANT_OFFBOARD: tenant_lives.leaving,
    Verb.ENDPOINT_CREATE: _endpoint(Installation.submit_create),
    Verb.ENDPOINT_DELETE: _endpoint(_delete),
    Verb.ENDPOINT_DRAIN: _endpoint(_drain),
    Verb.ENDPOINT_RECLAIM: _endpoint(_reclaim),
    Verb.ENDPOINT_RESTART: _endpoint(_restart),
    Verb.ENDPOINT_ROTATE_KEY: _endpoint(_rotate_key),
    Verb.ENDPOINT_SCALE: _endpoint(_scale),
    Verb.ENDPOINT_UPDATE: _endpoint(_update),
    Verb.ENDPOINT_WARM: _endpoint(_warm),
}
"""Each makes the beginning of all lives in a folder: the world as the verb finds it, and the operation submitted."""

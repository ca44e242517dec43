"""Stage 9: the endpoint is in the route directory and proven from outside, and only then Ready.

The step makes a key of its own that lives for minutes, asks with it and without it, and removes it. The secret stays in
this process's memory. A key that a killed worker left behind is removed by the next attempt and expires anyway.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from provisioner.domain.conditions import Stage, StageName, StageState, update_stages
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.ids import EndpointId
from provisioner.domain.key import ApiKey, key_digest, visible_prefix
from provisioner.domain.snapshot import Backend
from provisioner.endpoints.observe import wanted_replicas
from provisioner.endpoints.pool import serving_plan
from provisioner.endpoints.progress import load_endpoint, record_stages, save_endpoint, wait_for
from provisioner.endpoints.world import EndpointAttempt
from provisioner.operations.step import Done, Wait

_KEY_LIFE = timedelta(minutes=10)
_KEY_PATIENCE_SECONDS = 10.0
"""How long a new key may take to reach the gateways."""
_ASK_AGAIN_SECONDS = 0.1


async def publish(attempt: EndpointAttempt) -> Done | Wait:
    """Wait until the current snapshot holds the endpoint with live backends, prove it, say Ready."""
    endpoint = await load_endpoint(attempt)
    if endpoint.phase is Phase.READY:
        return Done({"url": endpoint.plan.address.url})
    backends = await published(attempt, endpoint)
    wanted = wanted_replicas(await serving_plan(attempt.world, endpoint.plan))
    if len(backends) < wanted:
        attempt.world.wake_reconciler(EndpointId(endpoint.plan.serving_id))
        message = f"live replicas in the snapshot: {len(backends)} of {wanted}"
        return await _unproven(attempt, endpoint, StageState.PENDING, "SnapshotPending", message)
    trouble = await prove(attempt, endpoint, backends)
    if trouble:
        return await _unproven(attempt, endpoint, StageState.ERROR, *trouble)
    proven = Stage(name=StageName.PUBLISHED, state=StageState.DONE)
    stages = update_stages(endpoint.stages, (proven,), attempt.world.clock.now())
    ready = replace(endpoint, phase=Phase.READY, observed_generation=endpoint.generation, reason="", message="")
    await save_endpoint(attempt, endpoint, replace(ready, stages=stages))
    return Done({"url": endpoint.plan.address.url})


async def published(attempt: EndpointAttempt, endpoint: Endpoint) -> tuple[Backend, ...]:
    """The endpoint's backends in the current snapshot."""
    snapshot = await attempt.world.store.snapshots.current()
    routes = snapshot.routes if snapshot else ()
    return next((route.backends for route in routes if route.endpoint == endpoint.id), ())


async def _unproven(attempt: EndpointAttempt, endpoint: Endpoint, state: StageState, reason: str, message: str) -> Wait:
    await record_stages(
        attempt, endpoint, (Stage(name=StageName.PUBLISHED, state=state, reason=reason, message=message),)
    )
    return wait_for(attempt, "publish", reason=reason, message=f"{StageName.PUBLISHED}: {message}")


async def prove(attempt: EndpointAttempt, endpoint: Endpoint, backends: tuple[Backend, ...]) -> tuple[str, str] | None:
    """What an outside caller finds wrong, as reason and message; None when everything is as it should be."""
    world, plan = attempt.world, endpoint.plan
    stranger = await world.probe.refuses_stranger(backends[0])
    if not stranger.ok:
        return stranger.reason, stranger.message
    status, told = await world.probe.outside(plan.address.url, alias=endpoint.name, kind=plan.runtime.kind, secret=None)
    wanted = 200 if plan.traffic.is_open else 401
    if status != wanted:
        return _unexpected("without a key", wanted, status, told)
    return await _prove_with_key(attempt, endpoint)


async def _prove_with_key(attempt: EndpointAttempt, endpoint: Endpoint) -> tuple[str, str] | None:
    world = attempt.world
    await _remove_left_behind(attempt, endpoint)
    secret = world.ids.secret()
    key = _probe_key(attempt, endpoint, secret)
    await attempt.guard()
    await world.store.keys.add(key)
    world.wake_reconciler()
    try:
        status, told = await _ask_until_known(attempt, endpoint, secret)
    finally:
        await world.store.keys.remove(key.id)
    return None if status == 200 else _unexpected("with a key", 200, status, told)


async def _ask_until_known(attempt: EndpointAttempt, endpoint: Endpoint, secret: str) -> tuple[int, str]:
    """Ask with the key until the gateways know it; the last answer when they take too long."""
    probe, plan = attempt.world.probe, endpoint.plan
    time = asyncio.get_running_loop().time
    deadline = time() + _KEY_PATIENCE_SECONDS
    while True:
        answer = await probe.outside(plan.address.url, alias=endpoint.name, kind=plan.runtime.kind, secret=secret)
        if answer[0] not in (0, 401) or time() >= deadline:
            return answer
        await asyncio.sleep(_ASK_AGAIN_SECONDS)


async def _remove_left_behind(attempt: EndpointAttempt, endpoint: Endpoint) -> None:
    for key in await attempt.world.store.keys.list(tenant=endpoint.tenant):
        if key.name == _key_name(attempt):
            await attempt.world.store.keys.remove(key.id)


def _probe_key(attempt: EndpointAttempt, endpoint: Endpoint, secret: str) -> ApiKey:
    now = attempt.world.clock.now()
    return ApiKey(
        id=attempt.world.ids.key(),
        name=_key_name(attempt),
        digest=key_digest(secret),
        prefix=visible_prefix(secret),
        tenant=endpoint.tenant,
        team=endpoint.plan.team,
        endpoints=(endpoint.id,),
        created_at=now,
        expires_at=now + _KEY_LIFE,
    )


def _key_name(attempt: EndpointAttempt) -> str:
    return f"probe-{attempt.operation.id}"


def _unexpected(how: str, wanted: int, status: int, told: str) -> tuple[str, str]:
    if status == 0:
        return "AddressUnreachable", f"asking {how}: no answer: {told}"
    return "UnexpectedAnswer", f"asking {how}: wanted status {wanted}, found {status}: {told}"

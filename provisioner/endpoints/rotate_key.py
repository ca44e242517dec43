"""Rotates an endpoint's keys: gateways know the new one, and when the old ones stop.

The new key and the end of the old ones were stored with the operation, and the route directory carries both: the old
keys stop by themselves when the overlap is over, which nobody waits for. The step sees that gateways are told.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from provisioner.domain.clock import Clock
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.domain.ids import Ids, KeyId
from provisioner.domain.key import ApiKey, Rotation, key_digest, visible_prefix
from provisioner.domain.operation import Operation, Verb
from provisioner.domain.origin import Origin
from provisioner.endpoints.progress import wait_for, waiting_out
from provisioner.endpoints.submit import new_operation
from provisioner.endpoints.world import EndpointAttempt, World
from provisioner.operations.step import Done, Step, Wait

OVERLAP_SECONDS = 300
"""How long the old keys may be used beside the new one where nobody says."""


def new_rotation(
    endpoint: Endpoint,
    old: tuple[ApiKey, ...],
    *,
    secret: str,
    overlap_seconds: int,
    origin: Origin,
    clock: Clock,
    ids: Ids,
) -> tuple[Operation, Endpoint, Rotation]:
    """The pending operation, the endpoint's row, and the key with this secret that replaces the `old` ones, all of
    which reach as far; it lives as long as the newest of them was to live.

    RejectedError (`KeysDiffer`) where the old ones do not; ConflictError for an endpoint in a phase without keys.
    """
    now = clock.now()
    until = now + timedelta(seconds=overlap_seconds)
    key = _successor(endpoint, old, secret, made_by=origin.caller, now=now, id_=ids.key())
    asked = {
        "overlapSeconds": overlap_seconds,
        "until": until.isoformat(),
        "key": key.id,
        "replaced": [{"key": one.id, "expiresAt": one.expires_at and one.expires_at.isoformat()} for one in old],
    }
    operation, changed = new_operation(Verb.ENDPOINT_ROTATE_KEY, endpoint, asked, origin=origin, clock=clock, ids=ids)
    return operation, changed, Rotation(key=key, replaced=tuple(one.id for one in old), until=until)


async def announce(attempt: EndpointAttempt) -> Done | Wait:
    """Gateways are told of the new key, and of the old ones' end."""
    request, now = attempt.operation.request, attempt.world.clock.now()
    until, told = datetime.fromisoformat(request["until"]), await _published(attempt)
    new = await _find(attempt, request["key"])
    if new is not None and new.is_usable(now) and new.digest not in told:  # one that was revoked comes no more
        return _wait(attempt, "gateways are told of the new key")
    for replaced in request["replaced"]:
        old = await _find(attempt, replaced["key"])
        ends = told[old.digest] if old is not None and old.digest in told else until
        if ends is None or ends > until:
            return _wait(attempt, "gateways are told when the old keys stop")
    return Done()


async def cancel_rotation(attempt: EndpointAttempt) -> Done | Wait:
    """The old keys live on as long as they were to live, and the new one is revoked."""
    request, keys = attempt.operation.request, attempt.world.store.keys
    until = datetime.fromisoformat(request["until"])
    for told in request["replaced"]:
        before = told["expiresAt"] and datetime.fromisoformat(told["expiresAt"])
        if before is None or before > until:
            await attempt.guard()
            await keys.change_expiry(KeyId(told["key"]), found=until, expires_at=before)
    if await _find(attempt, request["key"]):
        await attempt.guard()
        await keys.revoke(KeyId(request["key"]), attempt.world.clock.now())
    return Done()


async def on_failed(attempt: EndpointAttempt, reason: str, message: str) -> None:
    """Nothing to say beyond the operation itself: the keys are as the caller was told."""


def _successor(
    endpoint: Endpoint, old: tuple[ApiKey, ...], secret: str, *, made_by: str, now: datetime, id_: KeyId
) -> ApiKey:
    if len({(key.team, key.scopes, key.allowance) for key in old}) > 1:
        names = ", ".join(key.id for key in old)
        raise RejectedError(
            f"rotating the keys of endpoint `{endpoint.name}`: they may not do the same: {names}",
            reason="KeysDiffer",
            hint="rotate them one by one: name one as `key`",
        )
    like = max(old, key=lambda key: key.created_at, default=None)
    lifetime = like.expires_at - like.created_at if like and like.expires_at else None
    return ApiKey(
        id=id_,
        name=like.name if like else endpoint.name,
        digest=key_digest(secret),
        prefix=visible_prefix(secret),
        tenant=endpoint.tenant,
        team=like.team if like else endpoint.plan.team,
        scopes=like.scopes if like else None,
        endpoints=(endpoint.id,),
        created_at=now,
        created_by=made_by,
        expires_at=now + lifetime if lifetime else None,
        allowance=like.allowance if like else None,
    )


async def _find(attempt: EndpointAttempt, key: str) -> ApiKey | None:
    try:
        return await attempt.world.store.keys.get(KeyId(key))
    except NotFoundError:
        return None


async def _published(attempt: EndpointAttempt) -> dict[str, datetime | None]:
    """The keys that gateways are told of, by digest, with their end."""
    snapshot = await attempt.world.store.snapshots.current()
    return {key.digest: key.expires_at for key in snapshot.keys} if snapshot else {}


def _wait(attempt: EndpointAttempt, message: str) -> Wait:
    attempt.world.wake_reconciler()
    return wait_for(attempt, attempt.step, reason="SnapshotPending", message=message)


STEPS: tuple[Step[World], ...] = (Step(name="announce", run=waiting_out(announce)),)

CANCEL_STEPS: tuple[Step[World], ...] = (Step(name="cancel_rotation", run=waiting_out(cancel_rotation)),)
"""Whoever has the new key already is refused from then on."""

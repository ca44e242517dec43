"""Rotates an endpoint's keys: gateways know the new one, the old ones stop when the overlap is over.

The new key and the end of the old ones were stored with the operation, and the route directory carries both, so that
gateways follow even where no worker runs any more. The steps see that they did.
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

LONGEST_OVERLAP_SECONDS = 7 * 86400

DEADLINE_SECONDS = LONGEST_OVERLAP_SECONDS + 3600.0

_LOOK_AGAIN_SECONDS = 60.0


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
    """Gateways are told of the new key."""
    key = await _find(attempt, attempt.operation.request["key"])
    if key is None or not key.is_usable(attempt.world.clock.now()) or key.digest in await _published(attempt):
        return Done()  # one that somebody revoked meanwhile comes no more
    attempt.world.wake_reconciler()
    return wait_for(attempt, attempt.step, reason="SnapshotPending", message="gateways are told of the new key")


async def retire(attempt: EndpointAttempt) -> Done | Wait:
    """The overlap is over, and no gateway is told of the old keys any more."""
    old = [await _find(attempt, told["key"]) for told in attempt.operation.request["replaced"]]
    now, published = attempt.world.clock.now(), await _published(attempt)
    usable = [key for key in old if key is not None and key.is_usable(now)]
    if usable:
        left = max((key.expires_at - now).total_seconds() for key in usable if key.expires_at)
        message = f"the old keys may be used for seconds: {left:.0f}"
        return Wait(reason="Overlap", message=message, retry_after_seconds=min(left, _LOOK_AGAIN_SECONDS))
    if any(key is not None and key.digest in published for key in old):
        attempt.world.wake_reconciler()
        message = "the route directory still holds the old keys"
        return wait_for(attempt, attempt.step, reason="SnapshotPending", message=message)
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
    if len({(key.team, key.scopes) for key in old}) > 1:
        names = ", ".join(key.id for key in old)
        raise RejectedError(
            f"rotating the keys of endpoint `{endpoint.name}`: they do not reach equally far: {names}",
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
    )


async def _find(attempt: EndpointAttempt, key: str) -> ApiKey | None:
    try:
        return await attempt.world.store.keys.get(KeyId(key))
    except NotFoundError:
        return None


async def _published(attempt: EndpointAttempt) -> set[str]:
    snapshot = await attempt.world.store.snapshots.current()
    return {key.digest for key in snapshot.keys} if snapshot else set()


STEPS: tuple[Step[World], ...] = (
    Step(name="announce", run=waiting_out(announce)),
    Step(name="retire", run=waiting_out(retire)),
)

CANCEL_STEPS: tuple[Step[World], ...] = (Step(name="cancel_rotation", run=waiting_out(cancel_rotation)),)
"""Whoever has the new key already is refused from then on."""

"""Routes and queues from lanes. Pure.

Lanes share a queue when they share a backend or name the same group, directly or through others: the slots are those of
the machines, however many names lead there. `source` joins the result with the keys to a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from urllib.parse import urlsplit

from provisioner.domain.errors import RejectedError
from provisioner.domain.snapshot import Backend, QueueGroup, Route
from provisioner.gateway.standalone.lane import FALLING_BACK, GENERAL, LANES, Lane, Standalone

_SLOTS = 1
_DEPTH = 32


def plan_groups(standalone: Standalone) -> tuple[QueueGroup, ...]:
    """A queue per set of lanes that share one. Raises `RejectedError` where two of them want another size or name."""
    return tuple(
        QueueGroup(
            name=name,
            slots=_agreed("CONCURRENCY", ((lane, lane.slots) for lane in lanes), _SLOTS),
            depth=_agreed("QUEUE_DEPTH", ((lane, lane.depth) for lane in lanes), _DEPTH),
            wait_seconds=standalone.wait_seconds,
        )
        for name, lanes in _grouped(standalone.lanes)
    )


def plan_routes(standalone: Standalone, created_at: datetime) -> tuple[Route, ...]:
    """A route per name that callers may ask for. Raises `RejectedError` for a name that two lanes want."""
    lanes = {lane.name: lane for lane in standalone.lanes}
    queue = {lane.name: name for name, members in _grouped(standalone.lanes) for lane in members}
    owners: dict[str, Lane] = {}
    routes = []
    for lane in standalone.lanes:
        serving = lane if lane.urls or lane.name not in FALLING_BACK else lanes[GENERAL]
        teams = lane.teams if lane.teams is not None else serving.teams
        for alias in (lane.name, *lane.models):
            _claim(owners, alias, lane)
            if not serving.urls:
                continue
            routes.append(
                Route(
                    alias=alias,
                    tenant="",
                    endpoint=serving.name,
                    upstream_model=serving.upstream_model or (alias if serving is lane else serving.name),
                    created_at=created_at,
                    teams=teams or (),
                    backends=_backends(serving, is_mutual=standalone.is_mutual),
                    kind=LANES[serving.name],
                    balance=serving.balance,
                    is_open=standalone.keys_file is None,
                    group=queue[serving.name],
                    max_tokens=standalone.max_tokens if LANES[serving.name] == "chat" else None,
                )
            )
    return tuple(routes)


def idle_settings(standalone: Standalone) -> tuple[str, ...]:
    """The settings of lanes without a backend that do nothing: they are for a backend, or for a lane that is served."""
    idle = []
    for lane in standalone.lanes:
        if lane.urls:
            continue
        told: dict[str, object] = {
            "CONCURRENCY": lane.slots,
            "QUEUE_DEPTH": lane.depth,
            "QUEUE_GROUP": lane.group,
            "BALANCE": lane.balance,
            "UPSTREAM_MODEL": lane.upstream_model,
        }
        if lane.name not in FALLING_BACK:
            told |= {"MODELS": lane.models or None, "TEAMS": lane.teams}
        idle += [lane.variable(what) for what, value in told.items() if value is not None]
        idle += [f"{lane.variable('UPSTREAM_API_KEY')}_FILE"] if lane.api_key_file is not None else []
    return tuple(idle)


def _grouped(lanes: Sequence[Lane]) -> Iterator[tuple[str, Sequence[Lane]]]:
    """Sets of lanes that share something, each with its name: the group that one of them names, or the first lane."""
    sets: list[tuple[list[Lane], set[str]]] = []
    for lane in lanes:
        if not lane.urls:
            continue
        members, shared = [lane], {*lane.urls, lane.group or lane.name}
        for other in [one for one in sets if one[1] & shared]:
            sets.remove(other)
            members, shared = other[0] + members, shared | other[1]
        sets.append((members, shared))
    for members, _ in sets:
        yield _name_of(members), members


def _name_of(members: Sequence[Lane]) -> str:
    told = {lane.variable("QUEUE_GROUP"): lane.group for lane in members if lane.group}
    if len(set(told.values())) > 1:
        raise RejectedError(
            f"planning the lanes: they share a backend but not a queue: {_listed(told)}",
            reason="BadSetting",
            hint="name one group for all of them, or give the lanes backends of their own",
        )
    return next(iter(told.values()), members[0].name)


def _listed(told: Mapping[str, object]) -> str:
    return " and ".join(f"{variable}={value}" for variable, value in told.items())


def _agreed(what: str, wanted: Iterable[tuple[Lane, int | None]], default: int) -> int:
    """The value of those that want one."""
    asked = {lane.variable(what): value for lane, value in wanted if value is not None}
    if len(set(asked.values())) > 1:
        raise RejectedError(
            f"planning the lanes: they share one queue but differ: {_listed(asked)}",
            reason="BadSetting",
            hint="set one of them only, or give the lanes backends and groups of their own",
        )
    return next(iter(asked.values()), default)


def _claim(owners: dict[str, Lane], alias: str, lane: Lane) -> None:
    """Notes whose name `alias` is."""
    owner = owners.setdefault(alias, lane)
    if owner is not lane or (alias in LANES and alias != lane.name):
        raise RejectedError(
            f"planning the lanes: {lane.variable('MODELS')} names a model of another lane: {alias}",
            reason="BadSetting",
            hint=f"a name leads to one lane, and these are their own: {', '.join(LANES)}",
        )


def _backends(lane: Lane, *, is_mutual: bool) -> tuple[Backend, ...]:
    backends = []
    for url in lane.urls:
        parts = urlsplit(url)
        has_tls = parts.scheme == "https"
        backends.append(
            Backend(
                host=parts.netloc,
                address=parts.netloc if parts.port else f"{parts.netloc}:{443 if has_tls else 80}",
                tls=has_tls,
                is_public=has_tls and not is_mutual,
                credential=lane.name if lane.api_key_file is not None else None,
            )
        )
    return tuple(backends)

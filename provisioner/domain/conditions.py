"""The nine stages that an endpoint passes before it is Ready, and how one is shown.

Stages 1-3 are things we do, 4-8 are conditions observed together, 9 is proven from outside. The stage shown is the
first unmet one; its reason comes from whichever later condition is in error. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum


class StageName(StrEnum):
    """The stages, in order. The values are part of the API."""

    PROJECT = "project"
    DELIVERY = "delivery"
    PLACEMENT = "placement"
    TENANT_CLUSTER = "tenant_cluster"
    CAPACITY = "capacity"
    ARGO_SYNC = "argo_sync"
    ROUTE = "route"
    LOADING = "loading"
    PUBLISHED = "published"


class StageState(StrEnum):
    """Where one stage stands."""

    PENDING = "pending"
    DONE = "done"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage. `reason` is a CamelCase noun, `since` when `state` was last changed; `objects` names what was seen of
    what the stage waits for, where that has names of its own (node claims)."""

    name: StageName
    state: StageState = StageState.PENDING
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    objects: tuple[str, ...] = ()


def initial_stages() -> tuple[Stage, ...]:
    """All nine stages, pending."""
    return tuple(Stage(name=name) for name in StageName)


def update_stages(stages: Sequence[Stage], observed: Sequence[Stage], now: datetime) -> tuple[Stage, ...]:
    """`stages` with the observed ones put in; `since` moves only where the state changed."""
    news = {stage.name: stage for stage in observed}
    return tuple(_updated(stage, news.get(stage.name, stage), now) for stage in stages)


def current_stage(stages: Sequence[Stage]) -> Stage | None:
    """The first unmet stage, with the reason of the first later one in error; None when all are done."""
    unmet = next((stage for stage in stages if stage.state is not StageState.DONE), None)
    if unmet is None or unmet.state is StageState.ERROR:
        return unmet
    failing = next((stage for stage in stages if stage.state is StageState.ERROR), None)
    if failing is None:
        return unmet
    return Stage(
        name=unmet.name, state=StageState.ERROR, reason=failing.reason, message=failing.message, since=unmet.since
    )


def _updated(old: Stage, new: Stage, now: datetime) -> Stage:
    since = old.since if old.state is new.state and old.since else now
    return replace(new, name=old.name, since=since)

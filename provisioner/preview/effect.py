"""What a change does to an endpoint that runs: how bad, when it arrives, and the rule that says so.

The rules themselves stand in `rules`; `judge` is asked for every field that differs. What no rule knows is never taken
for harmless. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Any

from provisioner.catalog.quantity import parse_quantity
from provisioner.rendering.diff import ABSENT


class Effect(IntEnum):
    """What happens to an endpoint, from nothing to the worst."""

    NOTHING = 0
    NEW_VERSION = 1
    CONFIG_RELOAD = 2
    PODS_RESTART = 3
    NODES_REPLACED = 4
    TENANT_RECREATED = 5
    DATA_LOST = 6

    @property
    def key(self) -> str:
        """Its name in JSON."""
        return self.name.lower().replace("_", "-")

    @property
    def words(self) -> str:
        """What a person reads."""
        return _WORDS[self]

    @property
    def is_disruptive(self) -> bool:
        """Whether requests may fail, or capacity is gone for a while."""
        return self >= Effect.PODS_RESTART


_WORDS: Mapping[Effect, str] = {
    Effect.NOTHING: "nothing",
    Effect.NEW_VERSION: "new template version only",
    Effect.CONFIG_RELOAD: "config reload",
    Effect.PODS_RESTART: "pods restart",
    Effect.NODES_REPLACED: "nodes replaced",
    Effect.TENANT_RECREATED: "tenant cluster recreated",
    Effect.DATA_LOST: "data lost",
}


class Reach(StrEnum):
    """When a change arrives at an endpoint that runs."""

    PUBLISH = "publish"
    """At once, when the tier is published: the Platform and Argo CD follow the objects of a tier."""
    ROLLOUT = "rollout"
    """With the next change of the endpoint: its manifests lie on a branch of its own until then."""
    VERSION = "version"
    """When the endpoint is moved to the new version of its template, which nobody does by publishing it."""

    @property
    def words(self) -> str:
        """What a person reads."""
        return {"publish": "at once", "rollout": "with its next roll-out", "version": "when moved to it"}[self.value]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one difference does, and why."""

    effect: Effect
    reason: str


class Way(StrEnum):
    """How a field changes."""

    ANY = "any"
    ADDED = "added"
    REMOVED = "removed"
    RAISED = "raised"
    LOWERED = "lowered"


@dataclass(frozen=True, slots=True)
class Rule:
    """Fields of some kinds whose path begins with a pattern, changed in some way, and what that does."""

    kinds: frozenset[str]
    path: re.Pattern[str]
    effect: Effect
    reason: str
    way: Way = Way.ANY


def rule(kinds: str, path: str, effect: Effect, reason: str, *, way: Way = Way.ANY) -> Rule:
    """A rule for kinds with blanks between them (`*` for every kind); `path` is a regular expression that the path of
    the field begins with, and `$` alone means the object as a whole."""
    return Rule(frozenset(kinds.split()), re.compile(path), effect, reason, way)


def judge(rules: Sequence[Rule], kind: str, path: str, *, before: Any = None, after: Any = None) -> Verdict:
    """What the first rule that knows the field says. A field that none knows may restart pods, and a kind that none
    knows too: that is the worst that a field which Kubernetes lets change in place does."""
    way = way_of(before, after)
    for found in _about(rules, kind):
        if found.way in (Way.ANY, way) and found.path.match(path):
            return Verdict(found.effect, found.reason)
    return Verdict(Effect.PODS_RESTART, "no rule knows this field: taken as if pods restarted")


def way_of(before: Any, after: Any) -> Way:
    """How a value changes; ANY where it is neither added nor removed and has no order."""
    if before is ABSENT:
        return Way.ADDED
    if after is ABSENT:
        return Way.REMOVED
    old, new = _amount(before), _amount(after)
    if old is None or new is None or old == new:
        return Way.ANY
    return Way.RAISED if new > old else Way.LOWERED


@lru_cache(maxsize=512)
def _about(rules: Sequence[Rule], kind: str) -> tuple[Rule, ...]:
    return tuple(found for found in rules if kind in found.kinds or "*" in found.kinds)


def _amount(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    try:
        return parse_quantity(value) if isinstance(value, str) else None
    except ValueError:
        return None

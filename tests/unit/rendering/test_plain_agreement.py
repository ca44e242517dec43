"""Compiled output is what plain Jinja and a YAML parser make of the same templates."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.catalog.pack import PackFiles, pack_root
from provisioner.rendering.compiler import Compiled, Slots, SlotValue, compile_templates
from provisioner.rendering.slots import SlotType
from provisioner.rendering.values import REPLICA_SLOTS, RUNTIME_SLOTS
from tests.unit.rendering.examples import catalog, model_for, pack, plan, site
from tests.unit.rendering.plain import RuntimeTemplates, plain_environment, plain_objects

ENVIRONMENT = plain_environment()
RUNTIMES = sorted(catalog().runtimes)
TIERS = sorted(catalog().tiers)
ARGUMENTS = 3


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(found["kind"], found["metadata"]["name"]): found for found in objects}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_reference_cases_agree(tier: str, runtime: str) -> None:
    planned = plan(tier, model=model_for(runtime))
    plain = RuntimeTemplates(catalog(), site(), planned).plain_objects(ENVIRONMENT, planned)
    filled = [yaml.load(text, Loader=yaml.CSafeLoader) for text in pack().runtime_tree(planned).values()]
    assert by_name(filled) == by_name(plain)
    assert len(filled) == len(plain)


@cache
def templates(tier: str, runtime: str) -> RuntimeTemplates:
    planned = plan("dedicated", model=model_for(runtime))
    return RuntimeTemplates(catalog(), site(), dataclasses.replace(planned, tier=tier))


@cache
def compiled(tier: str, runtime: str, name: str) -> Compiled:
    """One template of a runtime on its own."""
    found = templates(tier, runtime)
    slots = Slots(REPLICA_SLOTS, {}) if name in found.replica else Slots(RUNTIME_SLOTS, {"arguments": ARGUMENTS})
    optional = frozenset({*found.constants, *slots.single, *slots.lists})
    return compile_templates(
        PackFiles((pack_root(),)), [name], constants=found.constants, slots=slots, optional=optional
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
@given(st.data(), st.sampled_from(TIERS), st.sampled_from(RUNTIMES))
def test_random_requests_agree(data: st.DataObject, tier: str, runtime: str) -> None:
    found = templates(tier, runtime)
    name = data.draw(st.sampled_from([*found.endpoint, *found.replica]))
    group = compiled(tier, runtime, name)
    values = data.draw(values_of(dict(group.slots.single)))
    if group.slots.lists:
        values["arguments"] = tuple(data.draw(st.lists(TEXT, min_size=ARGUMENTS, max_size=ARGUMENTS)))
    plain = plain_objects(ENVIRONMENT, name, constants=found.constants, values=values)
    filling = group.slots.filling(values)
    assert [document.object(filling) for document in group.documents] == plain
    assert [yaml.load(text.yaml(filling), Loader=yaml.CSafeLoader) for text in group.documents] == plain

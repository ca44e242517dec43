"""Compiled output is what plain Jinja and a YAML parser make of the same templates."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.catalog.pack import pack_root
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
def compiled(tier: str, runtime: str, part: str) -> Compiled:
    found = templates(tier, runtime)
    names, slots = (
        (found.endpoint, Slots(RUNTIME_SLOTS, {"arguments": ARGUMENTS}))
        if part == "endpoint"
        else (found.replica, Slots(REPLICA_SLOTS, {}))
    )
    everything = frozenset(found.constants)
    return compile_templates(pack_root(), names, constants=found.constants, slots=slots, optional=everything)


TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.text("ab \n\t:#-'\"\\%{}[]&*!|>?@`,=0179.eEx_~yn", max_size=20),
)


def values_of(slots: dict[str, SlotType]) -> st.SearchStrategy[dict[str, SlotValue]]:
    return st.fixed_dictionaries(
        {name: TEXT if kind is SlotType.TEXT else st.integers(-(2**63), 2**63) for name, kind in slots.items()}
    )


@settings(max_examples=1000, deadline=None)
@given(st.data(), st.sampled_from(TIERS), st.sampled_from(RUNTIMES), st.sampled_from(["endpoint", "replica"]))
def test_random_requests_agree(data: st.DataObject, tier: str, runtime: str, part: str) -> None:
    found, group = templates(tier, runtime), compiled(tier, runtime, part)
    values = data.draw(values_of(dict(group.slots.single)))
    if part == "endpoint":
        values["arguments"] = tuple(data.draw(st.lists(TEXT, min_size=ARGUMENTS, max_size=ARGUMENTS)))
    plain = [
        thing
        for name in (found.endpoint if part == "endpoint" else found.replica)
        for thing in plain_objects(ENVIRONMENT, name, constants=found.constants, values=values)
    ]
    assert group.objects(values) == plain
    filling = group.slots.filling(values)
    assert [yaml.load(text.yaml(filling), Loader=yaml.CSafeLoader) for text in group.documents] == plain

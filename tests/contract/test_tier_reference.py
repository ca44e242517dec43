"""The reference of every tier: the linter finds nothing in it, and the tier's own admission policies refuse nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from ruamel.yaml import YAML

from provisioner.admission.policy import load_policies, tree_denials
from provisioner.catalog.pack import pack_root
from provisioner.lint.engine import lint_paths
from tests.contract.test_tier import template_of
from tests.golden.test_tiers import FOLDER, REFERENCE
from tests.unit.rendering.examples import catalog, example_pack, example_plan

TIERS = sorted(catalog().tiers)


@cache
def policies() -> dict[str, Any]:
    return {policy.name: policy for policy in load_policies(pack_root() / "policies" / "admission")}


@pytest.mark.parametrize("version", [(1, 34), (1, 37)], ids=["1.34", "1.37"])
@pytest.mark.parametrize("tier", TIERS)
def test_linter_finds_nothing_in_the_reference(tier: str, version: tuple[int, int]) -> None:
    found = lint_paths([FOLDER / tier / REFERENCE / "out"], catalog=catalog(), kubernetes=version)
    assert [(finding.reason, finding.object, finding.message) for finding in found] == []


@pytest.mark.parametrize("connector", ["akuity", "argocd"])
def test_linter_finds_nothing_in_what_an_installation_needs_once(connector: str) -> None:
    found = lint_paths([FOLDER / "platform" / f"{connector}.yaml"], catalog=catalog(), kubernetes=(1, 37))
    assert [(finding.reason, finding.object, finding.message) for finding in found] == []


@pytest.mark.parametrize("tier", TIERS)
def test_tiers_own_policies_refuse_nothing_that_it_renders(tier: str) -> None:
    planned = example_plan(tier)
    reader = YAML(typ="safe", pure=True)
    objects = [reader.load(text.decode()) for text in example_pack().runtime_tree(planned).values()]
    told = template_of(tier)["template"]["objects"].replace(
        "{{ .Values.tenant }}", planned.placement.parameters["tenant"]
    )
    [settings] = [found for found in reader.load_all(told) if found and found["kind"] == "ConfigMap"]
    bound = [policies()[name] for name in catalog().tiers[tier].policies]
    denied = tree_denials(bound, objects, settings=settings)
    assert [(made["kind"], made["metadata"]["name"], finding.message) for made, finding in denied] == []

"""The reference of every tier: the linter finds nothing in it, and the tier's own admission policies refuse nothing."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from provisioner.admission.manifests import ManifestJudge
from provisioner.lint.engine import lint_paths
from tests.contract.test_tier import template_of
from tests.golden.test_tiers import FOLDER, REFERENCE
from tests.unit.rendering.examples import catalog, example_pack, example_plan

TIERS = sorted(catalog().tiers)


@pytest.mark.parametrize("version", [(1, 34), (1, 37)], ids=["1.34", "1.37"])
@pytest.mark.parametrize("tier", TIERS)
def test_linter_finds_nothing_in_the_reference(tier: str, version: tuple[int, int]) -> None:
    found = lint_paths([FOLDER / tier / REFERENCE / "out"], catalog=catalog(), kubernetes=version)
    assert [(finding.reason, finding.object, finding.message) for finding in found] == []


def test_linter_finds_nothing_in_what_an_installation_needs_once() -> None:
    found = lint_paths([FOLDER / "platform" / REFERENCE / "out"], catalog=catalog(), kubernetes=(1, 37))
    assert [(finding.reason, finding.object, finding.message) for finding in found] == []


@pytest.mark.parametrize("tier", TIERS)
def test_tiers_own_policies_refuse_nothing_that_it_renders(tier: str) -> None:
    assert ManifestJudge(example_pack()).findings(example_plan(tier)) == ()


@pytest.mark.parametrize("tier", TIERS)
def test_policies_are_asked_with_what_the_tenant_cluster_is_told(tier: str) -> None:
    planned = example_plan(tier)
    told = template_of(tier)["template"]["objects"].replace(
        "{{ .Values.tenant }}", planned.placement.parameters["tenant"]
    )
    [published] = [found for found in YAML(typ="safe", pure=True).load_all(told) if found["kind"] == "ConfigMap"]
    asked = ManifestJudge(example_pack()).settings(planned)
    assert asked["data"] == published["data"]
    assert asked["metadata"].items() <= published["metadata"].items()

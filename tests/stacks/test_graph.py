"""The graph that each stack registers, as the offline harness sees it: reviewed in `tests/golden/stacks`.

What an object says is reviewed elsewhere, with its tier; here stand names, parents, order and options.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.pack import example_site
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.pack import compile_pack
from tests.stacks.harness import ROOT, run_stack

GOLDEN = ROOT / "tests" / "golden" / "stacks"
STACKS = sorted(file.name.split(".")[1] for file in ROOT.glob("Pulumi.*.yaml"))
TIERS = sorted(load_catalog().tiers)


@pytest.mark.parametrize("stack", STACKS)
def test_graph_of_a_stack_is_as_reviewed(stack: str, tmp_path: Path, update_golden: bool) -> None:
    graph = run_stack(stack, folder=tmp_path).graph
    if stack != "platform":
        assert_registers_what_rendering_gives(graph["outputs"]["tier"], graph["resources"])
    text = canonical_yaml({**graph, "resources": [_shape(made) for made in graph["resources"]]})
    text = re.sub(r"sha256:[0-9a-f]{64}", "sha256:…", text)
    path = GOLDEN / f"{stack}.yaml"
    if update_golden:
        path.write_text(text)
    assert path.read_text() == text


def test_every_golden_graph_is_of_a_stack() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == STACKS


def test_there_is_a_stack_for_every_tier() -> None:
    assert [name for name in STACKS if name != "platform"] == [f"{tier}-eu" for tier in TIERS]


def test_a_tier_takes_the_platforms_outputs_from_its_program_where_nobody_gives_them(tmp_path: Path) -> None:
    assert run_stack("dedicated-eu", folder=tmp_path, outputs={}).graph["outputs"]["tier"] == "dedicated"


def test_the_same_stack_twice_gives_the_same_graph(tmp_path: Path) -> None:
    first, second = (run_stack("shared-eu", folder=tmp_path).stdout for _ in range(2))
    assert first == second


def assert_registers_what_rendering_gives(tier: str, resources: list[dict[str, Any]]) -> None:
    rendered = compile_pack(load_catalog(), load_site(example_site())).tier_objects(tier)
    registered = [_manifest(made) for made in resources if made["type"].startswith("kubernetes:")]
    assert sorted(registered, key=canonical_yaml) == sorted(rendered, key=canonical_yaml)


def _shape(made: dict[str, Any]) -> dict[str, Any]:
    """The resource without what its object says."""
    if not made["type"].startswith("kubernetes:"):
        return made
    return {key: value for key, value in made.items() if key != "properties"}


def _manifest(made: dict[str, Any]) -> dict[str, Any]:
    """The object without what Pulumi alone reads."""
    manifest: dict[str, Any] = made["properties"]
    metadata = dict(manifest["metadata"])
    annotations = metadata.pop("annotations", {})
    kept = {key: value for key, value in annotations.items() if not key.startswith("pulumi.com/")}
    return {**manifest, "metadata": {**metadata, **({"annotations": kept} if kept else {})}}

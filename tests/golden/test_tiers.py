"""Everything that is rendered for a request, as files: one full tree per tier, all other cases as what differs.

`<tier>/<case>/input.yaml` is the request (`extends: reference` and what changes); `reference/out/` has one file per
object, `<case>/delta.txt` one line per field that differs, `<case>/out/` the objects that the reference does not have.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from provisioner.admission import admit_endpoint
from provisioner.catalog.catalog import Catalog, Versions
from provisioner.catalog.document import read_document
from provisioner.domain.ids import EndpointId
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.diff import differences
from provisioner.rendering.pack import Pack, compile_pack
from tests.unit.rendering.examples import catalog, plan, site

FOLDER = Path(__file__).parent
REFERENCE = "reference"
CASES = sorted(
    {(tier, REFERENCE) for tier in catalog().tiers}
    | {
        (path.parent.parent.name, path.parent.name)
        for tier in catalog().tiers
        for path in FOLDER.glob(f"{tier}/*/*.yaml")
    }
)
ENDPOINT = EndpointId("ep-demo")
REVISION = "a1b2c3"
Tree = dict[str, str]


@cache
def stubbed() -> Catalog:
    """The catalog with versions that never change, so that a new digest touches no golden file."""
    real = catalog()
    images = {key: f"example/{key}:1.0.0@sha256:{'0' * 64}" for key in real.versions.images}
    charts = dict.fromkeys(real.versions.charts, "1.0.0")
    return dataclasses.replace(real, versions=Versions(images=images, charts=charts))


@cache
def pack() -> Pack:
    """The shipped templates, compiled once for all cases."""
    return compile_pack(stubbed(), site())


def request_of(tier: str, case: str) -> dict[str, Any]:
    """The complete request of a case."""
    given = read_document(FOLDER / tier / case / "input.yaml", root=FOLDER).value
    if "extends" not in given:
        return dict(given)
    return merged(request_of(tier, given["extends"]), {key: value for key, value in given.items() if key != "extends"})


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` put in, mappings merged at every depth."""
    nested = {
        key: merged(base[key], value) if isinstance(value, Mapping) and isinstance(base.get(key), Mapping) else value
        for key, value in changes.items()
    }
    return {**base, **nested}


def tree_of(tier: str, case: str) -> Tree:
    """File name -> canonical YAML of everything that a request causes to be published, applied or delivered."""
    _, planned = admit_endpoint(request_of(tier, case), catalog=stubbed(), site=site(), endpoint_id=ENDPOINT)
    planned = dataclasses.replace(planned, runtime=dataclasses.replace(planned.runtime, revision=REVISION))
    objects = [*pack().tier_objects(tier), pack().project(planned.tenant, tier), pack().customer_route(planned)]
    if stubbed().tiers[tier].instance is not None:
        objects.append(pack().instance(planned))
    files = {path.rpartition("/")[2]: text.decode() for path, text in pack().runtime_tree(planned).items()}
    return files | {name_of(found): canonical_yaml(found) for found in objects}


def name_of(found: Mapping[str, Any]) -> str:
    metadata = found["metadata"]
    parts = (metadata.get("namespace"), found["kind"].lower(), metadata["name"])
    return ".".join(part for part in parts if part) + ".yaml"


def expected_files(tier: str, case: str) -> Tree:
    """Every file that a case must have beside its input, and its text."""
    tree = tree_of(tier, case)
    if case == REFERENCE:
        return {f"out/{name}": text for name, text in tree.items()}
    reference = tree_of(tier, REFERENCE)
    lines = [f"- {name}" for name in sorted(reference.keys() - tree.keys())]
    lines += [f"+ {name}" for name in sorted(tree.keys() - reference.keys())]
    for name in sorted(tree.keys() & reference.keys()):
        lines += [f"~ {name} {found}" for found in differences(value_of(reference[name]), value_of(tree[name]))]
    added = {f"out/{name}": tree[name] for name in tree.keys() - reference.keys()}
    return {"delta.txt": "".join(f"{line}\n" for line in lines), **added}


@cache
def value_of(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(io.StringIO(text))


def files_of(folder: Path) -> Tree:
    """The files of a case beside its input."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "input.yaml"
    }


def rewrite(folder: Path, wanted: Tree) -> None:
    """Make the case hold exactly the wanted files, and say what changed."""
    found = files_of(folder)
    for name in sorted(found.keys() - wanted.keys()):
        (folder / name).unlink()
    for name, text in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in sorted(found.keys() | wanted.keys()):
        old, new = found.get(name, "").splitlines(), wanted.get(name, "").splitlines()
        if old != new:
            plus, minus = len(set(new) - set(old)), len(set(old) - set(new))
            print(f"{folder.parent.name}/{folder.name}: ± {name} (+{plus}|-{minus})")


@pytest.mark.parametrize(("tier", "case"), CASES)
def test_what_is_rendered_is_as_reviewed(
    tier: str, case: str, update_golden: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ledger: TEN-04."""
    if update_golden and not (FOLDER / tier / case / "input.yaml").exists():  # a new tier's first time
        (FOLDER / tier / case).mkdir(parents=True)
        (FOLDER / tier / case / "input.yaml").write_text(canonical_yaml(catalog().tiers[tier].example))
    wanted = expected_files(tier, case)
    if update_golden:
        with capsys.disabled():
            rewrite(FOLDER / tier / case, wanted)
    found = files_of(FOLDER / tier / case)
    assert sorted(found) == sorted(wanted)
    for name, text in wanted.items():
        assert found[name] == text, f"{tier}/{case}/{name} differs; if that is wanted, run `make golden`"


@pytest.mark.parametrize("tier", sorted(catalog().tiers))
def test_reference_request_is_the_example_of_the_tier(tier: str) -> None:
    assert request_of(tier, REFERENCE) == catalog().tiers[tier].example


def test_versions_are_as_reviewed(update_golden: bool) -> None:
    """The one golden file that a new digest or chart version changes."""
    real = compile_pack(catalog(), site())
    lines = set()
    for tier in sorted(catalog().tiers):
        for found in real.tier_objects(tier):
            if found["kind"] == "ArgoCDApplicationTemplate":
                sources = found["spec"]["template"]["spec"].get("sources", [])
                lines |= {f"chart {source['chart']} {source['targetRevision']}" for source in sources}
            elif found["kind"] == "VirtualClusterTemplate":
                chart = found["spec"]["versions"][0]["template"]["helmRelease"]["chart"]
                lines.add(f"chart {chart['name']} {chart['version']}")
    for model in catalog().models.values():
        planned = plan(model=model.id)
        workload = value_of(
            real.runtime_tree(planned)[
                f"{planned.delivery_path}/inference.statefulset.{planned.workload}.yaml"
            ].decode()
        )
        [container] = workload["spec"]["template"]["spec"]["containers"]
        lines.add(f"image {container['image']}")
    text = "".join(f"{line}\n" for line in sorted(lines))
    path = FOLDER / "versions" / "rendered.txt"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text

"""Everything that is rendered for a request, as files: one full tree per tier, all other cases as what differs.

`<tier>/<case>/input.yaml` is the request (`extends: reference` and what changes); `reference/out/` has one file per
object, `<case>/delta.txt` one line per field that differs, `<case>/out/` the objects that the reference does not have.
A case may have `options.yaml`: options of the tier and of the site that an installation changed.
"""

from __future__ import annotations

import dataclasses
import difflib
import io
import json
import textwrap
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from provisioner.admission import admit_endpoint
from provisioner.catalog.catalog import Catalog, Versions
from provisioner.catalog.document import read_document
from provisioner.catalog.pack import pack_root
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tier
from provisioner.catalog.tiers import check_tier
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.diff import differences
from provisioner.rendering.pack import Pack, compile_pack
from tests.unit.rendering.examples import catalog, example_pack, example_site, plan

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
def installation(tier: str, case: str) -> tuple[Catalog, Site, Pack]:
    """The shipped templates, compiled for the installation of a case."""
    path = FOLDER / tier / case / "options.yaml"
    if not path.exists():
        return shipped()
    options = read_document(path, root=FOLDER).value
    base = stubbed().tiers[tier].model_dump(mode="json", by_alias=True)
    changed = Tier.model_validate_json(json.dumps(merged(base, options.get("tier", {}))))
    described = example_site().model_dump(mode="json", by_alias=True)
    site = Site.model_validate_json(json.dumps(merged(described, options.get("site", {}))))
    found = dataclasses.replace(stubbed(), tiers={**stubbed().tiers, tier: changed})
    assert list(check_tier(changed, found.components)) == []
    return found, site, compile_pack(found, site)


@cache
def shipped() -> tuple[Catalog, Site, Pack]:
    """The example installation as it ships."""
    return stubbed(), example_site(), compile_pack(stubbed(), example_site())


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
    found, site, pack = installation(tier, case)
    _, planned = admit_endpoint(request_of(tier, case), catalog=found, site=site, endpoint_id=ENDPOINT)
    planned = dataclasses.replace(planned, runtime=dataclasses.replace(planned.runtime, revision=REVISION))
    files = {path.rpartition("/")[2]: text.decode() for path, text in pack.runtime_tree(planned).items()}
    return files | {name_of(made): without_policies(canonical_yaml(made)) for made in objects_of(pack, planned)}


def objects_of(pack: Pack, planned: EndpointPlan) -> list[dict[str, Any]]:
    """What stands on the control plane cluster for the tier and the endpoint."""
    project = pack.project(planned.placement.parameters["tenant"], planned.tier)
    objects = [*pack.tier_objects(planned.tier), project, pack.customer_route(planned)]
    if planned.tenancy != "customer":
        return [*objects, pack.instance(planned)]
    plane = planned.placement.control_plane
    instance = pack.customer_instance(planned.tenant, planned.tier, control_plane=plane)
    return [*objects, instance, pack.application(planned)]


def without_policies(text: str) -> str:
    """The text with admission policies, which have samples of their own, cut down to their names."""
    for name, policy in policies().items():
        text = text.replace(policy, f"# policies/admission/{name}/policy.yaml\n")
    return text


@cache
def policies() -> dict[str, str]:
    """The policies' text by name, as it is indented in a template's `objects`."""
    margin = " " * 10
    return {
        path.parent.name: textwrap.indent(path.read_text(), margin).removeprefix(margin)
        for path in sorted((pack_root() / "policies" / "admission").glob("*/policy.yaml"))
    }


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
        old, new, texts = without_equal_lines(value_of(reference[name]), value_of(tree[name]))
        lines += [f"~ {name} {found}" for found in (*differences(old, new), *texts)]
    added = {f"out/{name}": tree[name] for name in tree.keys() - reference.keys()}
    return {"delta.txt": "".join(f"{line}\n" for line in lines), **added}


def without_equal_lines(old: Any, new: Any, path: str = "") -> tuple[Any, Any, list[str]]:
    """Both values with text of several lines taken out where both have some, and the lines that differ in it."""
    if isinstance(old, dict) and isinstance(new, dict):
        parts = {key: without_equal_lines(old[key], new[key], f"{path}.{key}") for key in old.keys() & new.keys()}
        pair = [{**value, **{key: part[at] for key, part in parts.items()}} for at, value in enumerate((old, new))]
        return pair[0], pair[1], [line for key in sorted(parts) for line in parts[key][2]]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        items = [
            without_equal_lines(one, other, f"{path}[{at}]")
            for at, (one, other) in enumerate(zip(old, new, strict=True))
        ]
        return [item[0] for item in items], [item[1] for item in items], [line for item in items for line in item[2]]
    if isinstance(old, str) and isinstance(new, str) and "\n" in old and "\n" in new:
        changed = difflib.ndiff(old.splitlines(), new.splitlines())
        return "", "", [f"{path.lstrip('.')}: {line}" for line in changed if line[0] in "+-"]
    return old, new, []


@cache
def value_of(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(io.StringIO(text))


def files_of(folder: Path) -> Tree:
    """The files of a case beside its input."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("input.yaml", "options.yaml")
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
    real = example_pack()
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
        lines.add(f"image {plan(model=model.id).runtime.image}")
    text = "".join(f"{line}\n" for line in sorted(lines))
    path = FOLDER / "versions" / "rendered.txt"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text

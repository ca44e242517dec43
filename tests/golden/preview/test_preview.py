"""Reports of previews, whole: small edits of the pack that ships, compared for the tiers that they reach.

`<case>/change.yaml` says what is edited on each side, which tiers are looked at and what runs; `report.md` is what a
pull request is told. Findings of the linter are left out: they have tests of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from provisioner.catalog.document import read_document
from provisioner.domain.ids import EndpointId
from provisioner.preview.cache import Forgetful
from provisioner.preview.compare import compare
from provisioner.preview.compilations import Compilations
from provisioner.preview.document import report_document
from provisioner.preview.markdown import MAX_CHARACTERS, report_markdown
from provisioner.preview.report import Report
from provisioner.preview.sides import Fleet, RunningEndpoint
from provisioner.preview.units import Source, make_sides
from provisioner.preview.verdict import exit_code
from provisioner.wiring.layout import Layout
from provisioner.wiring.sources import open_source

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
CASES = sorted(path.parent.name for path in FOLDER.glob("*/change.yaml"))
SITE = "provisioner/catalog/example-site.yaml"
LAYOUT = Layout(has_pack=True, overlay=None, site=SITE)
STUB = "example/image:1.0.0@sha256:" + "0" * 64
COMPILER = Compilations(Forgetful(), code="").compile
Files = Mapping[str, bytes]
Edit = Mapping[str, str]


@cache
def shipped() -> Files:
    """The files of the pack, with versions that never change."""
    folders = ("templates", "applications", "policies", "provisioner/catalog/models")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in [*paths, ROOT / SITE]}
    charts, images = (ROOT / "versions.yaml").read_text().split("\nimages:")
    charts = re.sub(r"^(  [a-z-]+): .*$", r"\1: 1.0.0", charts, flags=re.MULTILINE)
    images = re.sub(r"^(  [a-z-]+): .*$", rf"\1: {STUB}", images, flags=re.MULTILINE)
    return {**files, "versions.yaml": f"{charts}\nimages:{images}".encode()}


def edited(files: Files, edits: Sequence[Edit]) -> Files:
    """The files with edits made: `find` (a regular expression) becomes `put`; without them a file or folder goes."""
    found = dict(files)
    for edit in edits:
        name = edit["file"]
        if "put" not in edit:
            found = {path: content for path, content in found.items() if not f"{path}/".startswith(f"{name}/")}
            continue
        put = edit["put"].replace("\\", r"\\")
        text, times = re.subn(edit["find"], put, found[name].decode(), flags=re.MULTILINE)
        assert times, f"{name}: nothing to edit: {edit['find']}"
        found[name] = text.encode()
    return found


def fleet_of(change: Mapping[str, Any]) -> Fleet:
    """What runs: each entry is an endpoint that asks for its tier's example."""
    endpoints = []
    for entry in change.get("endpoints", []):
        example = read_document(ROOT / "templates" / entry["tier"] / "tier.yaml", root=ROOT).value["example"]
        endpoints.append(
            RunningEndpoint(
                id=EndpointId(entry["id"]),
                tenant=entry["tenant"],
                request={**example, "tenant": entry["tenant"], "name": entry["id"].removeprefix("ep-")},
                template_version=entry.get("version", "1.0.0"),
                replicas=entry.get("replicas", 1),
            )
        )
    return Fleet(endpoints=tuple(endpoints), free_gpus=change.get("freeGpus", {}))


@pytest.fixture(scope="module")
def main(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """The pack as it ships: what most cases start from."""
    return opened("main", shipped(), tmp_path_factory.mktemp("main"), like=None)


def opened(label: str, files: Files, folder: Path, *, like: tuple[Files, Source] | None) -> Source:
    """One side."""
    return open_source(label, files, layout=LAYOUT, folder=folder, compiler=COMPILER, like=like)


def previewed(change: Mapping[str, Any], folder: Path, main: Source) -> Report:
    """The report of a case."""
    old, new = (edited(shipped(), change.get(side, [])) for side in ("base", "head"))
    base = opened("main", old, folder / "base", like=(shipped(), main))
    head = opened("change", new, folder / "head", like=(old, base))
    fleet = fleet_of(change)
    sides = make_sides(base, head, fleet=fleet, tiers=change["tiers"], judge=lambda *_: (), doing=lambda _: None)
    return compare(*sides, fleet=fleet)


@pytest.mark.parametrize("case", CASES)
def test_report_is_as_reviewed(case: str, tmp_path: Path, main: Source, update_golden: bool) -> None:
    """Ledger: LIF-14, DAY-08."""
    change = read_document(FOLDER / case / "change.yaml", root=FOLDER).value
    report = previewed(change, tmp_path, main)
    text = report_markdown(report, exit_code=exit_code(report))
    path = FOLDER / case / "report.md"
    if update_golden:
        path.write_text(text)
    assert path.read_text() == text
    assert ("Could not be rendered" in text) is (case == "template-error")
    assert len(text) <= MAX_CHARACTERS
    assert report_document(report, exit_code=0)["effect"] == report.effect.key

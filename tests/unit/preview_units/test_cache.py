"""What earlier previews kept makes later ones quick, and never hides a change: warm and cold say the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from provisioner.preview.compilations import Compilations
from provisioner.preview.document import report_document
from provisioner.rendering import compiler
from tests.unit.preview_units.repository import Workplace, git

TIER = "isolated"
POD = "applications/runtimes/_shared/pod.j2"
SERVICE = "applications/runtimes/_shared/endpoint/service-account.yaml.j2"
LABELS = "templates/_parts/labels.j2"
DIGEST = "policies/admission/image-digest/policy.yaml"
GRACE = "terminationGracePeriodSeconds: "


def replaced(name: str, before: str, after: str) -> Callable[[Workplace], None]:
    """An edit that puts one text in the place of another."""
    return lambda workplace: workplace.edit(name, before, after)


def overridden(workplace: Workplace) -> None:
    """A runtime's own template comes to stand before the shared one."""
    text = (workplace.folder / SERVICE).read_text()
    own = SERVICE.replace("_shared", "vllm")
    workplace.write(own, text.replace("metadata:\n", "metadata:\n  annotations: {of: vllm}\n", 1))


def uncovered(workplace: Workplace) -> None:
    """That template goes again."""
    (workplace.folder / SERVICE.replace("_shared", "vllm")).unlink()


EDITS: dict[str, Callable[[Workplace], None]] = {
    "a value of a part": replaced(POD, f"{GRACE}120", f"{GRACE}121"),
    "the same value once more": replaced(POD, f"{GRACE}121", f"{GRACE}122"),
    "the value that it had": replaced(POD, f"{GRACE}122", f"{GRACE}120"),
    "a comment": replaced(POD, GRACE, "{# why #}" + GRACE),
    "a part of every object": replaced(LABELS, "managed-by", "part-of"),
    "a template that is added": overridden,
    "a template that goes": uncovered,
    "a type in the place of another": replaced(POD, f"{GRACE}120", f'{GRACE}"120"'),
    "a policy that says more": replaced(DIGEST, "variables.unpinned.size() == 0", "object.kind == 'Nothing'"),
    "a limit of the tier": replaced(f"templates/{TIER}/tier.yaml", "version: 1.0.0", "version: 1.0.1"),
    "a template that is broken": replaced(POD, GRACE, "{{ nobody }}" + GRACE),
}


def test_cache_hides_no_change_whatever_was_previewed_before(workplace: Workplace, tmp_path: Path) -> None:
    warm = Workplace(workplace.folder, tmp_path / "warm")
    reports = []
    for number, (name, edit) in enumerate(EDITS.items()):
        edit(workplace)
        cold = Workplace(workplace.folder, tmp_path / f"cold-{number}")
        found, expected = (report_document(place.preview(tiers=(TIER,)), exit_code=0) for place in (warm, cold))
        assert found == expected, name
        reports.append(found)
    assert len({str(report) for report in reports}) > len(EDITS) / 2  # they are no edits that come to nothing
    git(workplace.folder, "checkout", "-q", ".")
    assert warm.preview(tiers=(TIER,)).units == 0


def test_group_whose_templates_are_the_same_is_compiled_once_whatever_else_changes(
    workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[tuple[str, ...]] = []

    def compile_templates(files: object, names: tuple[str, ...], **asked: object) -> compiler.Compiled:
        compiled.append(tuple(names))
        return compiler.compile_templates(files, names, **asked)  # type: ignore[arg-type]

    monkeypatch.setattr(f"{Compilations.__module__}.compile_templates", compile_templates)
    warm = Workplace(workplace.folder, tmp_path / "warm")
    replaced(POD, f"{GRACE}120", f"{GRACE}121")(workplace)
    warm.preview(tiers=(TIER,))
    compiled.clear()
    replaced(POD, f"{GRACE}121", f"{GRACE}122")(workplace)
    warm.preview(tiers=(TIER,))
    assert compiled and {name.split("/")[-2] for names in compiled for name in names} == {"workload"}

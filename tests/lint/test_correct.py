"""Folders as a careful team has them, whatever tools it uses: no error and no warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioner.domain.finding import Severity
from tests.lint.worlds import lint, told

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
CORRECT = sorted(path for path in (Path(__file__).parent / "correct").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", CORRECT, ids=lambda path: path.name)
def test_a_correct_folder_has_no_error_and_no_warning(folder: Path) -> None:
    wrong = [finding for finding in lint(folder) if finding.severity is not Severity.INFO]
    assert not wrong, told(wrong)


def test_this_repository_itself_has_no_finding() -> None:
    found = lint(ROOT)
    assert not found, told(found)


@pytest.mark.parametrize("tier", [path.parent.parent.name for path in sorted(GOLDEN.glob("*/reference/out"))])
def test_what_a_shipped_tier_renders_has_no_finding_at_all(tier: str) -> None:
    found = lint(GOLDEN / tier / "reference" / "out")
    assert not found, told(found)

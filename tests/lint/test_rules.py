"""Every rule has samples: in `bad` it finds something, in `good` it finds nothing and nobody finds an error.

Beside `bad` there may be `bad-<what>` folders, a `baseline` folder for what is published already, and a file
`kubernetes-version`. What no repository can hold, such as endless links, is made in `test_reading`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from provisioner.domain.finding import Finding, Severity
from provisioner.lint import rules as package
from provisioner.lint.rules import every_rule
from tests.lint.worlds import lint, told

SAMPLES = Path(__file__).parent / "rules"
MADE_BY_TESTS = {"file-unreadable", "file-link-loop", "file-too-large", "rule-failed"}
RULES = {rule.id: rule for rule in every_rule()}
BAD = [pytest.param(path, id=f"{path.parent.name}-{path.name}") for path in sorted(SAMPLES.glob("*/bad*"))]
GOOD = [pytest.param(path, id=f"{path.parent.name}-{path.name}") for path in sorted(SAMPLES.glob("*/good*"))]


def findings_of(sample: Path) -> tuple[Finding, ...]:
    """What is found in a sample folder."""
    baseline, version = sample.parent / "baseline", sample.parent / "kubernetes-version"
    return lint(
        sample,
        version=version.read_text().strip() if version.is_file() else None,
        baseline=[baseline] if baseline.is_dir() else [],
    )


@pytest.mark.parametrize("sample", BAD)
def test_a_bad_sample_breaks_its_rule(sample: Path) -> None:
    rule = RULES[sample.parent.name]
    findings = findings_of(sample)
    found = [finding for finding in findings if finding.rule == rule.id]
    assert found, told(findings)
    for finding in found:
        assert finding.severity is rule.severity
        assert finding.file
        assert finding.file.startswith(sample.as_posix())
        assert finding.line
        assert finding.message
        assert finding.hint


@pytest.mark.parametrize("sample", GOOD)
def test_a_good_sample_has_no_error_and_does_not_break_its_rule(sample: Path) -> None:
    findings = findings_of(sample)
    wrong = [
        finding for finding in findings if finding.severity is Severity.ERROR or finding.rule == sample.parent.name
    ]
    assert not wrong, told(wrong)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_samples_and_a_page(rule: str) -> None:
    is_made = rule in MADE_BY_TESTS
    assert is_made or any((SAMPLES / rule).glob("bad*")), f"no bad sample in {SAMPLES / rule}"
    assert is_made or any((SAMPLES / rule).glob("good*")), f"no good sample in {SAMPLES / rule}"
    assert RULES[rule].summary.endswith(".")
    assert RULES[rule].explanation


def test_every_sample_belongs_to_a_rule() -> None:
    assert {path.name for path in SAMPLES.iterdir() if path.is_dir()} <= RULES.keys()


def test_rules_share_knowledge_through_private_modules_and_joins_only() -> None:
    folder = Path(package.__file__).parent
    found = {
        path.relative_to(folder).as_posix(): line
        for path in folder.rglob("*.py")
        for line in path.read_text().splitlines()
        if (match := re.match(r"from provisioner\.lint\.rules\.(\w+)\.(\w)", line))
        and (match.group(1) != path.parent.name or match.group(2) != "_")
    }
    assert not found

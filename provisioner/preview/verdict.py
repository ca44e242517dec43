"""The exit code of a preview: whether a pipeline may go on. Pure."""

from __future__ import annotations

from provisioner.domain.finding import Severity
from provisioner.preview.effect import Effect
from provisioner.preview.report import Report
from provisioner.preview.threshold import FailOn

NOT_PREVIEWED, DISRUPTIVE, FINDINGS = 1, 3, 4


_ORDER = tuple(FailOn)


def exit_code(report: Report, fail_on: FailOn = FailOn.DISRUPTIVE) -> int:
    """0 to go on, 3 for a disruptive change, 4 for new error findings or units that cannot be rendered any more, and,
    whatever was asked for, 1 where nothing could be previewed."""
    if report.units and report.failed == report.units:
        return NOT_PREVIEWED
    level = _ORDER.index(fail_on)
    if level >= _ORDER.index(FailOn.FINDING) and _has_new_error(report):
        return FINDINGS
    if level >= _ORDER.index(FailOn.DISRUPTIVE) and report.effect.is_disruptive:
        return DISRUPTIVE
    if level >= _ORDER.index(FailOn.CHANGE) and (
        report.effect > Effect.NOTHING or any(t.changes for t in report.tiers)
    ):
        return DISRUPTIVE
    return 0


def _has_new_error(report: Report) -> bool:
    failed = any(failure.is_new for tier in report.tiers for failure in tier.failures)
    return failed or any(one.finding.severity is Severity.ERROR for one in report.findings.new)

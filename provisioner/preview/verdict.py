"""The exit code of a preview: whether a pipeline may go on. Pure."""

from __future__ import annotations

from provisioner.domain.finding import Severity
from provisioner.preview.report import Report
from provisioner.preview.threshold import FailOn

NOT_PREVIEWED, DISRUPTIVE, FINDINGS = 1, 3, 4


_ORDER = tuple(FailOn)


def exit_code(report: Report, fail_on: FailOn = FailOn.DISRUPTIVE) -> int:
    """0 to go on; 1 where something could not be previewed, or a tier goes while endpoints live on it; 4 for new error
    findings; 3 for a disruptive change. The first that holds, in this order."""
    level = _ORDER.index(fail_on)
    checks = (
        (FailOn.FINDING, NOT_PREVIEWED, _is_broken(report)),
        (FailOn.FINDING, FINDINGS, any(one.finding.severity is Severity.ERROR for one in report.findings.new)),
        (FailOn.DISRUPTIVE, DISRUPTIVE, report.effect.is_disruptive),
        (FailOn.CHANGE, DISRUPTIVE, any(tier.changes for tier in report.tiers)),
    )
    return next((code for needed, code, holds in checks if holds and level >= _ORDER.index(needed)), 0)


def _is_broken(report: Report) -> bool:
    """Whether a unit could not be rendered, on whichever side, or endpoints lose their tier."""
    return any(tier.failures or tier.stranded for tier in report.tiers)

"""Findings as scripts and CI read them: eight keys, always the same ones."""

from __future__ import annotations

from typing import Self

from provisioner.domain.finding import Finding
from provisioner.wire.message import Message


class FindingView(Message):
    """One finding: which rule, how bad, the field's `path`, `file` and `line` (from 1), the `object`, what to do."""

    rule: str
    severity: str
    path: str
    file: str
    line: int | None
    object: str
    message: str
    fix: str

    @classmethod
    def of(cls, finding: Finding) -> Self:
        """The view of a finding."""
        return cls(
            rule=finding.rule,
            severity=finding.severity.value,
            path=finding.field,
            file=finding.file or "",
            line=finding.line,
            object=finding.object,
            message=finding.message,
            fix=finding.hint or "",
        )

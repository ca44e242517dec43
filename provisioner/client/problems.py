"""Problem details back into the domain's errors. Pure."""

from __future__ import annotations

from pydantic import ValidationError

from provisioner.domain.errors import (
    ConflictError,
    InsufficientCapacityError,
    InvariantError,
    NotFoundError,
    RejectedError,
    RetryableError,
    TenantryError,
)
from provisioner.domain.finding import Finding, Severity
from provisioner.wire.problem import Problem


def error_of(status: int, body: bytes, retry_after: str | None) -> TenantryError:
    """The error that an answer stands for, also when it is not ours, for example a proxy's page."""
    try:
        problem = Problem.model_validate_json(body)
    except ValidationError:
        return _foreign(status, retry_after)
    kind = problem.type.rpartition(":")[2]
    message, reason, hint = problem.detail, problem.reason, problem.hint
    if kind == "not-found":
        return NotFoundError(message, reason=reason, hint=hint)
    if kind == "rejected":
        return RejectedError(message, reason=reason, hint=hint, findings=_findings(problem))
    if kind == "conflict":
        return ConflictError(message, reason=reason, hint=hint)
    if kind in ("unavailable", "insufficient-capacity"):
        cls = InsufficientCapacityError if kind == "insufficient-capacity" else RetryableError
        return cls(message, reason=reason, hint=hint, retry_after_seconds=_seconds(retry_after))
    return InvariantError(f"{message} (request {problem.request_id})", reason=reason, hint=hint)


def _findings(problem: Problem) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            reason=finding.reason,
            message=finding.message,
            field=finding.field,
            hint=finding.hint,
            severity=Severity.WARNING if finding.severity == Severity.WARNING else Severity.ERROR,
        )
        for finding in problem.findings
    )


def _foreign(status: int, retry_after: str | None) -> TenantryError:
    message = f"calling the API: an answer that is not the API's, status: {status}"
    hint = "check TENANTRY_URL and what stands between"
    if status in (429, 502, 503, 504):
        return RetryableError(message, hint=hint, retry_after_seconds=_seconds(retry_after))
    return RejectedError(message, reason="NotTheApi", hint=hint)


def _seconds(retry_after: str | None) -> float | None:
    return float(retry_after) if retry_after and retry_after.isdecimal() else None

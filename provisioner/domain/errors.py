"""The one tree of errors, sorted by what the caller should do.

TenantryError
├── RejectedError            fix the request            HTTP 4xx, exit 1
│   └── NotFoundError        name something that exists HTTP 404, exit 1
├── ConflictError            reread, then try again     HTTP 409, exit 1
├── RetryableError           wait, then try again       HTTP 503, exit 5
│   └── InsufficientCapacityError
└── InvariantError           report it, it is our bug   HTTP 500, exit 2

Mapped to HTTP answers in `api/problems.py` and to exit codes in `cli/main.py`, nowhere else. A message is a lower-case
gerund, the object and the fact, with the value last; a hint says what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from provisioner.domain.finding import Finding


class TenantryError(Exception):
    """The root: `reason` is a stable CamelCase word for APIs and metrics, `hint` the next thing to do."""

    default_reason: ClassVar[str] = "Unknown"

    def __init__(self, message: str, *, reason: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or self.default_reason
        self.hint = hint


class RejectedError(TenantryError):
    """The request is at fault; sending it again unchanged cannot help. Carries every finding at once."""

    default_reason = "Rejected"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        hint: str | None = None,
        findings: tuple[Finding, ...] = (),
    ) -> None:
        super().__init__(message, reason=reason, hint=hint)
        self.findings = findings


class NotFoundError(RejectedError):
    """The named thing does not exist, or is not the caller's to see."""

    default_reason = "NotFound"


class ConflictError(TenantryError):
    """What was read is stale (generation, resource version, ref or fence): read again, then decide again."""

    default_reason = "Conflict"


class RetryableError(TenantryError):
    """The same request may succeed later; `retry_after_seconds` says when, None lets the caller choose."""

    default_reason = "Unavailable"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        hint: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, reason=reason, hint=hint)
        self.retry_after_seconds = retry_after_seconds


class InsufficientCapacityError(RetryableError):
    """There is no capacity of the wanted kind at the moment."""

    default_reason = "InsufficientCapacity"


class InvariantError(TenantryError):
    """Something that cannot happen did. Never retried; please report it."""

    default_reason = "Invariant"

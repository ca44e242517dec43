"""Domain errors as problem details (RFC 9457): the one place where they become HTTP answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response

from provisioner.catalog.fields import MOST_FINDINGS, more_findings
from provisioner.domain.errors import (
    ConflictError,
    InsufficientCapacityError,
    InvariantError,
    NotFoundError,
    RejectedError,
    RetryableError,
    TenantryError,
)
from provisioner.wire.problem import CONTENT_TYPE, FindingView, Problem

MOST_TOLD = 2 * MOST_FINDINGS
"""Findings of one answer: those about the form of a body are bounded before, and a few about its sense may follow."""

_KINDS: tuple[tuple[type[TenantryError], str, HTTPStatus], ...] = (
    (NotFoundError, "not-found", HTTPStatus.NOT_FOUND),
    (RejectedError, "rejected", HTTPStatus.UNPROCESSABLE_ENTITY),
    (ConflictError, "conflict", HTTPStatus.CONFLICT),
    (InsufficientCapacityError, "insufficient-capacity", HTTPStatus.SERVICE_UNAVAILABLE),
    (RetryableError, "unavailable", HTTPStatus.SERVICE_UNAVAILABLE),
    (InvariantError, "invariant", HTTPStatus.INTERNAL_SERVER_ERROR),
)
"""The first that fits counts, so a child stands before its parent."""

_STATUS_OF_REASON: Mapping[str, HTTPStatus] = {
    "NotHttp": HTTPStatus.BAD_REQUEST,
    "NotJson": HTTPStatus.BAD_REQUEST,
    "IdempotencyKeyMissing": HTTPStatus.BAD_REQUEST,
    "Unauthorized": HTTPStatus.UNAUTHORIZED,
    "Forbidden": HTTPStatus.FORBIDDEN,
    "ApiOnly": HTTPStatus.FORBIDDEN,
    "CustomerCreateOff": HTTPStatus.FORBIDDEN,
    "TooManyKeys": HTTPStatus.TOO_MANY_REQUESTS,
    "NameTaken": HTTPStatus.CONFLICT,
    "BodyTooSlow": HTTPStatus.REQUEST_TIMEOUT,
    "BodyTooLarge": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "UnsupportedMediaType": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "MethodNotAllowed": HTTPStatus.METHOD_NOT_ALLOWED,
    "PreconditionFailed": HTTPStatus.PRECONDITION_FAILED,
    "PreconditionRequired": HTTPStatus.PRECONDITION_REQUIRED,
    "TooManyWatches": HTTPStatus.TOO_MANY_REQUESTS,
}
"""Reasons that HTTP has a closer word for than that of their kind."""


def nothing_here() -> NotFoundError:
    """For a path that does not exist, or not for this caller: the answer is the same."""
    return NotFoundError("routing: there is nothing here", hint="`/openapi.json` lists every path")


def problem_response(error: TenantryError, *, request_id: str | None) -> Response:
    """The answer for a domain error; None for what never became a request."""
    kind, status = next((kind, status) for cls, kind, status in _KINDS if isinstance(error, cls))
    if isinstance(error, RejectedError | RetryableError | ConflictError):
        status = _STATUS_OF_REASON.get(error.reason, status)
    told = getattr(error, "findings", ())
    if len(told) > MOST_TOLD:
        told = (*told[:MOST_TOLD], *more_findings(len(told) - MOST_TOLD))
    problem = Problem(
        type=f"urn:tenantry:error:{kind}",
        title=status.phrase,
        status=status,
        detail=error.message,
        reason=error.reason,
        hint=error.hint,
        findings=tuple(map(FindingView.model_validate, told)),
        request_id=request_id,
    )
    headers = {"Cache-Control": "no-store"}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, RetryableError):
        headers["Retry-After"] = str(math.ceil(error.retry_after_seconds or 1))
    return Response(
        problem.model_dump_json(by_alias=True), status_code=status, media_type=CONTENT_TYPE, headers=headers
    )

"""Problem details (RFC 9457) with our own members: reason, hint, findings, requestId."""

from __future__ import annotations

from provisioner.wire.message import Message

CONTENT_TYPE = "application/problem+json"


class FindingView(Message):
    """One thing that is wrong: `field` is a dotted path into the body, or into the manifest that `object` names."""

    reason: str
    message: str
    field: str = ""
    hint: str | None = None
    severity: str = "error"
    object: str = ""


class Problem(Message):
    """Why a request was not done. `type` says what the caller should do, `reason` is a stable word for the cause."""

    type: str
    title: str
    status: int
    detail: str
    reason: str
    hint: str | None = None
    findings: tuple[FindingView, ...] = ()
    request_id: str | None = None

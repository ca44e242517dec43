"""The errors of the Kubernetes API: one exception that carries a `Status` object, and a named maker for each case.

Every room of this package raises them; only `routes.dispatch` turns them into answers. Texts and details follow what
clients look at (`details.kind`, `details.causes`, `reason`), since tools decide on those and not on the code alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cause:
    """One finding inside a Status: `reason` is a CamelCase word, `field` a dotted path."""

    reason: str
    message: str
    field: str

    def as_json(self) -> Object:
        """The cause as it stands in `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


@dataclass(frozen=True, slots=True)
class Target:
    """What an error is about. `plural` names it in most errors, `kind` in those about its content."""

    group: str
    plural: str
    kind: str

    @property
    def resource(self) -> str:
        """`deployments.apps`, or `pods` in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class StatusError(Exception):
    """An answer other than success. `code` is the HTTP status, `details` may be None for errors about no object."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Object | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after_seconds = retry_after_seconds

    def as_json(self) -> Object:
        """The `Status` object of the Kubernetes API."""
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        details = dict(self.details or {})
        if self.retry_after_seconds is not None:
            details["retryAfterSeconds"] = self.retry_after_seconds
        if details:
            status["details"] = details
        return status


def success(target: Target, name: str, *, uid: str) -> Object:
    """The `Status` that answers a finished deletion."""
    details = {"name": name, "group": target.group, "kind": target.plural, "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def not_found(target: Target, name: str) -> StatusError:
    """404: there is no such object."""
    return StatusError(404, "NotFound", f'{target.resource} "{name}" not found', details=_about(target, name))


def no_such_path() -> StatusError:
    """404: the path names nothing that is served."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(target: Target, name: str) -> StatusError:
    """409 on create: the name is taken."""
    return StatusError(409, "AlreadyExists", f'{target.resource} "{name}" already exists', details=_about(target, name))


def conflict(target: Target, name: str, *, fact: str) -> StatusError:
    """409: the object is not what the request takes it for."""
    message = f'Operation cannot be fulfilled on {target.resource} "{name}": {fact}'
    return StatusError(409, "Conflict", message, details=_about(target, name))


def stale(target: Target, name: str) -> StatusError:
    """409 on update: the object was changed since it was read."""
    fact = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(target, name, fact=fact)


def precondition(target: Target, name: str, *, field: str, wanted: str, found: str) -> StatusError:
    """409 on delete or update: a precondition (`field` is UID or ResourceVersion) does not hold."""
    fact = f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
    return conflict(target, name, fact=fact)


def apply_conflict(target: Target, name: str, *, causes: Sequence[Cause]) -> StatusError:
    """409 on apply: other managers own fields that would change."""
    count = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    lines = "\n".join(f"- {cause.message}: {cause.field}" for cause in causes)
    text = f"{causes[0].message}: {causes[0].field}" if len(causes) == 1 else f"conflicts:\n{lines}"
    details = {"causes": [cause.as_json() for cause in causes]}
    return StatusError(409, "Conflict", f"Apply failed with {count}: {text}", details=details)


def invalid(target: Target, name: str, *, causes: Sequence[Cause]) -> StatusError:
    """422: the object's content is refused, with every finding at once."""
    subject = f"{target.kind}.{target.group}" if target.group else target.kind
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: Object = {"name": name, "group": target.group, "kind": target.kind}
    details = {key: value for key, value in details.items() if value}
    details["causes"] = [cause.as_json() for cause in causes]
    return StatusError(422, "Invalid", f'{subject} "{name}" is invalid: {text}', details=details)


def bad_request(message: str) -> StatusError:
    """400: the request cannot be understood."""
    return StatusError(400, "BadRequest", message)


def forbidden(
    message: str, *, target: Target | None = None, name: str = "", causes: Sequence[Cause] = ()
) -> StatusError:
    """403: understood and refused."""
    details = _about(target, name) if target else {}
    if causes:
        details["causes"] = [cause.as_json() for cause in causes]
    return StatusError(403, "Forbidden", message, details=details)


def method_not_allowed() -> StatusError:
    """405: the resource does not have this verb."""
    return StatusError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={}
    )


def not_acceptable(offered: str) -> StatusError:
    """406: none of the wanted media types can be written."""
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {offered}")


def unsupported_media_type(found: str) -> StatusError:
    """415: the body's type cannot be read."""
    message = f"the body of the request was in an unknown format - accepted media types include: {found}"
    return StatusError(415, "UnsupportedMediaType", message)


def too_new(wanted: int, newest: int) -> StatusError:
    """504: the wanted revision has not been reached yet."""
    details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
    message = f"Timeout: Too large resource version: {wanted}, current: {newest}"
    return StatusError(504, "Timeout", message, details=details)


def expired(message: str) -> StatusError:
    """410: the wanted revision is no longer kept; list again."""
    return StatusError(410, "Expired", message)


def too_large(message: str) -> StatusError:
    """413: more than the server takes in or keeps."""
    return StatusError(413, "RequestEntityTooLarge", message)


def unavailable(message: str, *, retry_after_seconds: int) -> StatusError:
    """503: try again later."""
    return StatusError(503, "ServiceUnavailable", message, retry_after_seconds=retry_after_seconds)


def _about(target: Target, name: str) -> Object:
    details = {"name": name, "group": target.group, "kind": target.plural}
    return {key: value for key, value in details.items() if value}

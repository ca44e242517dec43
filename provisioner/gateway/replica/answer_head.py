"""The header block of a replica's answer, in the form in which all others need it.

`replica.upstream` makes one per answer, from what its parser found or from an earlier one of its connection that said
the same; `caller.exchange` passes it on. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from provisioner.gateway.usage.answer import Form, form_of

_STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_LIMITS: Final = re.compile(rb"(?<=\n)x-ratelimit-[^\n]*\n")


class AnswerHead:
    """`opening` is the status line and the lines that the caller gets, `opening_without_limits` the same where the
    gateway tells of limits of its own, `fields` are those of interest by lower-case name, `length` is what was told of
    the body's length, None when nothing was."""

    __slots__ = ("fields", "form", "length", "opening", "opening_without_limits", "status")

    def __init__(
        self,
        status: int,
        opening: bytes,
        opening_without_limits: bytes,
        fields: Mapping[bytes, bytes],
        length: bytes | None,
        form: Form,
    ) -> None:
        self.status = status
        self.opening = opening
        self.opening_without_limits = opening_without_limits
        self.fields = fields
        self.length = length
        self.form = form

    @classmethod
    def of(cls, status: int, lines: Sequence[bytes], fields: Mapping[bytes, bytes]) -> AnswerHead:
        """The head with these lines to pass on and these fields of interest."""
        status_line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
        opening = b"".join((status_line, *lines))
        length = fields.get(b"content-length") if status != 204 else None  # which has none (RFC 9110, 8.6)
        return cls(status, opening, _LIMITS.sub(b"", opening), fields, length, form_of(status, fields))

    def again(self, length: int) -> AnswerHead:
        """The same with another length."""
        told = str(length).encode()
        return AnswerHead(self.status, self.opening, self.opening_without_limits, self.fields, told, self.form)

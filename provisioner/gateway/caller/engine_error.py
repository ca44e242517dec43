"""Errors of an engine that the caller does not get as they are, because they would mislead: put into the OpenAI shape.

An engine that refuses us says nothing about the caller's key, and clients cannot read an error that is not JSON. Used
by `exchange` for an answer whose status says that it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from provisioner.gateway.refusal import Refusal, engine_error, upstream_auth

_QUOTED_BYTES = 1024
_MOST_BYTES = 64 * 1024
_URL = re.compile(r"\b[a-z]+://[^\s)>\"']+")
"""A proxy in front of the engine may tell where it stands, which is no caller's business."""


def is_misleading(status: int, fields: Mapping[bytes, bytes]) -> bool:
    """Whether an answer of this `status` (400 and above), with these fields of its head, must be put differently.

    What is JSON passes, and a 429 that says when to come back; 401 and 403 never do.
    """
    if status in (401, 403):
        return True
    if status == 429 and b"retry-after" in fields:
        return False
    media_type = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return media_type != b"application/json" and not media_type.endswith(b"+json")


class EngineError:
    """Collects the text of such an answer, as far as it is quoted, and gives the refusal that stands for it."""

    __slots__ = ("_fields", "_is_quoted", "_read_bytes", "_text", "status")

    def __init__(self, status: int, fields: Mapping[bytes, bytes]) -> None:
        self.status = status
        self._fields = fields
        is_plain = fields.get(b"content-type", b"").lower().startswith(b"text/plain")
        self._is_quoted = is_plain and b"content-encoding" not in fields
        self._text = b""
        self._read_bytes = 0

    def read(self, piece: bytes) -> bool:
        """Takes the next piece; False when there is more than anybody would read."""
        self._read_bytes += len(piece)
        if self._is_quoted and len(self._text) < _QUOTED_BYTES:
            self._text = (self._text + piece)[:_QUOTED_BYTES]
        return self._read_bytes <= _MOST_BYTES

    def refusal(self) -> Refusal:
        """What the caller is told."""
        if self.status in (401, 403):
            return upstream_auth()
        text = _URL.sub("…", " ".join(self._text.decode(errors="replace").split()))
        retry_after = self._fields.get(b"retry-after")
        return engine_error(self.status, text, retry_after.decode("latin-1") if retry_after else None)

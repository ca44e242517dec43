"""Errors of an engine that the caller does not get as they are, because they would mislead: put into the OpenAI shape.

An engine that refuses us says nothing about the caller's key, and clients cannot read an error that is not JSON. Used
by `exchange` for an answer whose status says that it is an error.
"""

from __future__ import annotations

import re
from enum import Enum, auto

import msgspec

from provisioner.gateway.refusal import Refusal, engine_error, upstream_auth
from provisioner.gateway.replica.answer_head import AnswerHead

_QUOTED_BYTES = 1024
_MOST_BYTES = 64 * 1024
_URL = re.compile(r"\b[a-z]+://[^\s)>\"']+")
"""A proxy in front of the engine may tell where it stands, which is no caller's business."""

_parse = msgspec.json.Decoder(msgspec.Raw).decode


class Verdict(Enum):
    """What becomes of an error."""

    HELD = auto()
    PASSED = auto()
    WRAPPED = auto()


class EngineError:
    """Collects such an answer until it is known what becomes of it. `held` is what has arrived of its body.

    A 429 that says when to come back passes, and 401 and 403 never do. All others pass if they are a JSON object; one
    that is compressed or very long is taken at the word of its content type.
    """

    __slots__ = ("_is_said_json", "_is_text", "head", "held")

    def __init__(self, head: AnswerHead) -> None:
        self.head = head
        self.held = b""
        media_type = head.fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
        self._is_said_json = media_type == b"application/json" or media_type.endswith(b"+json")
        self._is_text = media_type == b"text/plain" and b"content-encoding" not in head.fields

    def read(self, piece: bytes, *, complete: bool) -> Verdict:
        """Takes the next piece, with `complete` the last one."""
        status, fields = self.head.status, self.head.fields
        self.held += piece
        if status == 429 and b"retry-after" in fields:
            return Verdict.PASSED
        if status in (401, 403):
            return Verdict.WRAPPED
        if b"content-encoding" in fields or len(self.held) > _MOST_BYTES:
            return Verdict.PASSED if self._is_said_json else Verdict.WRAPPED
        if not complete:
            return Verdict.HELD
        return Verdict.PASSED if self._holds_json() else Verdict.WRAPPED

    def _holds_json(self) -> bool:
        try:
            self.held.decode()
            _parse(self.held)
        except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
            return False
        return self.held.lstrip().startswith(b"{")

    def refusal(self) -> Refusal:
        """What the caller is told of one that does not pass."""
        status = self.head.status
        if status in (401, 403):
            return upstream_auth()
        quoted = self.held[:_QUOTED_BYTES] if self._is_text else b""
        text = _URL.sub("…", " ".join(quoted.decode(errors="replace").split()))
        retry_after = self.head.fields.get(b"retry-after")
        return engine_error(status, text, retry_after.decode("latin-1") if retry_after else None)

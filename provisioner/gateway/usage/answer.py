"""Reads an answer as it passes: what it used, and what of it the caller must not get. All else passes as it is. Made by
`exchange`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from provisioner.gateway.usage.event_stream import EventStream
from provisioner.gateway.usage.json_answer import JsonAnswer
from provisioner.gateway.usage.tally import NO_TOKENS, Tokens


class AnswerReader(Protocol):
    """Reads one answer's body."""

    tokens: Tokens
    """What has been told so far."""

    has_content: bool
    """Whether a piece of the answer itself has passed, in an answer that comes in events."""

    is_between_events: bool
    """Whether a comment may be put in now: the answer is a plain stream of events and the last one is complete."""

    def read(self, piece: bytes) -> bytes:
        """What the caller gets of the next piece: the piece itself, in nearly every case."""
        ...

    def finish(self) -> bytes:
        """The answer is complete: what was held back and is the caller's after all."""
        ...


class _Unread:
    tokens = NO_TOKENS
    has_content = False
    is_between_events = False

    def read(self, piece: bytes) -> bytes:
        return piece

    def finish(self) -> bytes:
        return b""


_UNREAD: Final = _Unread()


Form = type[JsonAnswer | EventStream] | None
"""Who reads an answer."""


def form_of(status: int, fields: Mapping[bytes, bytes]) -> Form:
    """Who reads an answer with this head (lower-case names): nobody what is compressed, or no success."""
    if not 200 <= status < 300 or fields.get(b"content-encoding", b"identity").lower() != b"identity":
        return None
    media_type = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type == b"application/json":
        return JsonAnswer
    return EventStream if media_type == b"text/event-stream" else None


def answer_reader(form: Form, *, hides_usage: bool) -> AnswerReader:
    """A reader for one answer; with `hides_usage` the gateway has asked for the last chunk of it, which the caller did
    not want."""
    if form is JsonAnswer:
        return JsonAnswer()
    return EventStream(hides_usage=hides_usage) if form is EventStream else _UNREAD

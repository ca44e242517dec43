"""Reads an answer as it passes: what it used, and what of it the caller must not get. All else passes as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

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

    def read(self, pieces: Sequence[bytes]) -> Sequence[bytes]:
        """What the caller gets of the next pieces: they themselves, in nearly every case."""
        ...

    def finish(self) -> Sequence[bytes]:
        """The answer is complete: what was held back and is the caller's after all."""
        ...


class _Unread:
    tokens = NO_TOKENS
    has_content = False
    is_between_events = False

    def read(self, pieces: Sequence[bytes]) -> Sequence[bytes]:
        return pieces

    def finish(self) -> Sequence[bytes]:
        return ()


_UNREAD = _Unread()


def answer_reader(status: int, headers: Mapping[bytes, bytes], *, hides_usage: bool) -> AnswerReader:
    """A reader for an answer with these headers (lower-case names); with `hides_usage` the gateway has asked for the
    last chunk, which the caller did not want. What is compressed, or no success, passes unread; an answer whose length
    is told already passes whole."""
    if not 200 <= status < 300 or headers.get(b"content-encoding", b"identity").lower() != b"identity":
        return _UNREAD
    form = _form(headers.get(b"content-type", b""))
    if form is JsonAnswer:
        return JsonAnswer()
    if form is EventStream:
        return EventStream(hides_usage=hides_usage and b"content-length" not in headers)
    return _UNREAD


@lru_cache(maxsize=256)
def _form(content_type: bytes) -> type[JsonAnswer | EventStream] | None:
    """Who reads answers of that type."""
    if content_type.lower().startswith(b"application/json"):
        return JsonAnswer
    return EventStream if content_type.lower().startswith(b"text/event-stream") else None

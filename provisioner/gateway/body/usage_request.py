"""Asking an engine for the usage of a stream: the one change to a body besides its model (OpenAI's `stream_options`).

The change is an insertion, or the replacement of a value that says no; whoever has asked already is left alone, and so
is whatever cannot be understood for sure. Called by `json_body`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from provisioner.gateway.body.json_fields import BodyError, FieldScanner, Member, read_value

USAGE_NAMES: Final = frozenset(("stream", "stream_options"))
_OPTIONS_BYTES: Final = 4096
_ASKING: Final = b'{"include_usage":true}'


class Edit(NamedTuple):
    """`text` in place of what stands from `start` to `end`."""

    start: int
    end: int
    text: bytes


def plain_usage_edit(at: int) -> Edit:
    """The edit for a stream without options; `at` is the end of any member's value."""
    return Edit(at, at, b',"stream_options":' + _ASKING)


def usage_edit(body: bytes | bytearray, members: Sequence[Member], at: int) -> Edit | None:
    """The edit for a body with these members, `at` being the end of any member's value; None for no edit."""
    streams = [member for member in members if member.name == "stream"]
    options = [member for member in members if member.name == "stream_options"]
    if not streams or body[streams[-1].start : streams[-1].end] != b"true":
        return None
    if not options:
        return plain_usage_edit(at)
    start, end = options[0].start, options[0].end
    if len(options) > 1 or end - start > _OPTIONS_BYTES:
        return None
    try:
        value = read_value(body, options[0])
        if value is None:
            return Edit(start, end, _ASKING)
        return _edit_within(body, start, end) if type(value) is dict else None
    except BodyError:
        return None


def _edit_within(body: bytes | bytearray, start: int, end: int) -> Edit | None:
    """The edit for options that are an object, from `start` to `end`."""
    text = bytearray(body[start:end])
    told = FieldScanner(text, {"include_usage"}).finish()
    if not told:
        is_empty = not text[1:-1].strip()
        return Edit(start + 1, start + 1, b'"include_usage":true' + (b"" if is_empty else b","))
    if len(told) > 1 or bytes(text[told[0].start : told[0].end]) not in (b"false", b"null"):
        return None
    return Edit(start + told[0].start, start + told[0].end, b"true")

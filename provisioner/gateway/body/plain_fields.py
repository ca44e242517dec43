"""The members of a usual body that the gateway looks at; the parser checks all others and makes nothing of them.

Used by `json_fields`. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec

ABSENT = msgspec.UNSET
"""Stands for a member that the body does not have."""


class PlainFields(msgspec.Struct, gc=False):
    """The members by their names, `model` being a string. What is absent is None, but for the options."""

    model: str
    stream: Any = None
    stream_options: Any = ABSENT
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None


_decode = msgspec.json.Decoder(PlainFields).decode


def parse_plain(body: bytes | bytearray) -> PlainFields | None:
    """The members of `body`; None when it is not one JSON object in UTF-8 that has them in these types, or when that is
    for another parser to say: half a surrogate pair, brackets nested too deeply."""
    try:
        if not body.isascii():
            body.decode()  # the text of what is skipped is not looked at
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None

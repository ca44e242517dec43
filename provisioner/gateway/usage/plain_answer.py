"""The members of a usual answer that tell what it used; the parser checks all others and makes nothing of them.

Read by `told`. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec

ABSENT = msgspec.UNSET
"""Stands for a member that is not there, where that is not the same as null."""


class PlainUsage(msgspec.Struct, gc=False):
    """A usage in either spelling."""

    prompt_tokens: Any = ABSENT
    completion_tokens: Any = ABSENT
    input_tokens: Any = None
    output_tokens: Any = None
    total_tokens: Any = None


class PlainChoice(msgspec.Struct, gc=False):
    """How a choice ended."""

    index: Any = 0
    finish_reason: Any = None


class PlainResponse(msgspec.Struct, gc=False):
    """What an event of `/v1/responses` carries."""

    usage: PlainUsage | None = None


class PlainAnswer(msgspec.Struct, gc=False):
    """An answer, as far as it is of interest."""

    usage: PlainUsage | None = None
    response: PlainResponse | None = None
    choices: list[PlainChoice] | None = None


_decode = msgspec.json.Decoder(PlainAnswer).decode


def parse_plain(answer: bytes) -> PlainAnswer | None:
    """The members of `answer`; None when it is not one JSON object that has them in these types."""
    try:
        return _decode(answer)
    except (msgspec.DecodeError, RecursionError):
        return None

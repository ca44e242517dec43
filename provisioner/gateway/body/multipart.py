"""Finding the `model` parts of a multipart/form-data body, to the byte (RFC 7578), wherever they stand.

Transcription requests carry the file and the model's name in parts of any order. Only the content of the `model` parts
is located; the boundaries, the file and every other part stay as they were sent. Called by `body`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from provisioner.gateway.body.model_field import BodyError, Span

_BOUNDARY = re.compile(rb'(?i:;[ \t]*boundary=)(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))')
_DISPOSITION = re.compile(rb"(?im:^content-disposition:[ \t]*form-data[ \t]*)(;[^\r\n]*)")
_PART_NAME = re.compile(rb'(?i:;[ \t]*name=)(?:"([^"\r\n]*)"|([^\s;"]*))')
_PARTS_LIMIT = 256
_PART_HEAD_LIMIT = 8192


def is_multipart(content_type: bytes) -> bool:
    """Whether a body of this content type has parts."""
    return content_type[:19].lower() == b"multipart/form-data"


def find_model_parts(body: bytes | bytearray, content_type: bytes) -> Sequence[Span]:
    """The spans of the contents of all parts named `model`. Raises `BodyError` for a body that is not well-formed."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise BodyError("its content type names no boundary")
    delimiter = b"--" + (boundary[1] or boundary[2])
    if not body.startswith(delimiter):
        raise BodyError("it does not begin with its boundary")
    spans: list[Span] = []
    position = len(delimiter)
    for _ in range(_PARTS_LIMIT):
        if body.startswith(b"--", position):
            return spans
        head_end = body.find(b"\r\n\r\n", position, position + _PART_HEAD_LIMIT)
        end = body.find(b"\r\n" + delimiter, head_end + 2)
        if head_end < 0 or end < head_end + 4 or not body.startswith(b"\r\n", position):
            raise BodyError("it is not a complete multipart body")
        if _part_name(body[position:head_end]) == b"model":
            spans.append((head_end + 4, end))
        position = end + 2 + len(delimiter)
    raise BodyError(f"it has more parts than {_PARTS_LIMIT}")


def _part_name(head: bytes | bytearray) -> bytes | None:
    disposition = _DISPOSITION.search(head)
    name = _PART_NAME.search(disposition[1]) if disposition else None
    return (name[1] if name[1] is not None else name[2]) if name else None

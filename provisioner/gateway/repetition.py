"""Recognises a request whose header block, but for its length, is byte for byte the last one of its connection.

A client says the same with every request. What was parsed, checked and sorted once is not parsed again: the same bytes
at the same place have the same meaning. Anything else (another header, a part of a request, more than one, a body over
the bound, a new directory, an expired key) is left to the parser, and so are all refusals. Used by `reader`.
"""

from __future__ import annotations

import re

from provisioner.gateway.body import RequestBody
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.directory import is_expired
from provisioner.gateway.request import Request

_LENGTH = re.compile(rb"\r\ncontent-length: ?([0-9]{1,9})\r\n", re.IGNORECASE)
_LENGTH_DIGITS = 9


class Repetition:
    """The header block of `request`, as the bytes before and after the digits of its length."""

    __slots__ = ("_after", "_before", "_path", "_request")

    def __init__(self, request: Request, path: DataPath, before: bytes, after: bytes) -> None:
        self._request = request
        self._path = path
        self._before = before
        self._after = after

    @classmethod
    def of(cls, request: Request, data: bytes, path: DataPath) -> Repetition | None:
        """What to look for after `request`, which the parser has found to be all of `data`; None if it has no length
        or was refused."""
        length = _LENGTH.search(data)
        end = data.find(b"\r\n\r\n") + 4
        if length is None or request.refusal is not None or not request.body.holds(data[end:]):
            return None
        return cls(request, path, data[: length.start(1)], data[length.end(1) : end])

    def request_in(self, data: bytes) -> Request | None:
        """The request that `data` is from its first byte to its last; None when it is not a repetition.

        The last request's object is used again: its connection is done with it before it reads on.
        """
        before, after, request, path = self._before, self._after, self._request, self._path
        start = len(before)
        end = data.find(b"\r", start, start + _LENGTH_DIGITS + 1)
        digits = data[start:end]
        if not (data.startswith(before) and data.startswith(after, end) and digits.isdigit()):
            return None
        body = data[end + len(after) :]
        length, limit_bytes, memory = len(body), path.limits.body_bytes, path.body_memory
        if int(digits) != length or length > limit_bytes or memory.held_bytes + length > memory.limit_bytes:
            return None
        directory, key = request.access
        if directory is not path.directory or (key.expires_at is not None and is_expired(key, path.clock)):
            return None
        request.request_id, request.trace_lines = path.naming.name(request.withheld)
        request.body = RequestBody(request.withheld.get(b"content-type"), limit_bytes, memory, body)
        return request

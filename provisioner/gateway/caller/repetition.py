"""Recognises a request whose header block, but for its length, is byte for byte an earlier one of its connection.

A client says the same with every request. What was parsed, checked and sorted once is not parsed again: the same bytes
at the same place have the same meaning. Anything else (another header, a part of one, more than one request, a body
over the bound, a new directory, an expired key) is left to the parser, and so is every refusal of a header block. Used
by `reader`.
"""

from __future__ import annotations

from provisioner.gateway.body.json_body import JsonBody
from provisioner.gateway.caller.request import Request, Service
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.directory import is_expired

_LENGTH = b"\r\ncontent-length: "
_LENGTH_DIGITS = 9


class Repetition:
    """A header block to recognise: the bytes before and after the digits of its length, and what they mean."""

    __slots__ = ("_after", "_before", "_meaning", "_path")

    def __init__(self, path: DataPath, before: bytes, after: bytes, meaning: Request) -> None:
        self._path = path
        self._before = before
        self._after = after
        self._meaning = meaning

    @classmethod
    def of(cls, request: Request, data: bytes, path: DataPath) -> Repetition | None:
        """What to look for after `request`, the only one that the parser found in `data`, whole or not.

        None unless `data` is a plain header block with a length and what there is of a JSON body. One near the bound is
        parsed each time.
        """
        size = data.find(b"\r\n\r\n") + 4
        at = data[:size].lower().find(_LENGTH)
        if at < 0 or size + _LENGTH_DIGITS > path.limits.header_bytes:
            return None
        start = at + len(_LENGTH)
        end = data.find(b"\r", start)
        if not data[start:end].isdigit() or request.refusal is not None or not request.keep_alive:
            return None
        if request.service is Service.PAGE:
            return None
        if not (isinstance(request.body, JsonBody) and request.body.holds(data[size:])):
            return None
        return cls(path, data[:start], data[end:size], request.again())

    def request_in(self, data: bytes) -> tuple[Request, bytes, int] | None:
        """The request with which `data` begins, what there is of its body, and how long that will be.

        None when `data` must be parsed.
        """
        after, path = self._after, self._path
        start = len(self._before)
        end = data.find(b"\r", start, start + _LENGTH_DIGITS + 1)
        digits = data[start:end]
        if not (digits.isdigit() and data.startswith(self._before) and data.startswith(after, end)):
            return None
        body = data[end + len(after) :]
        length, limit_bytes = int(digits), path.limits.body_bytes
        if len(body) > length or length > limit_bytes:
            return None
        directory, key = self._meaning.access
        if directory is not path.directory or (key.expires_at is not None and is_expired(key, path.clock)):
            return None
        request = self._meaning.again()
        request.request_id, request.trace_lines = path.naming.name(request.withheld)
        request.body = JsonBody(limit_bytes, path.body_memory)
        return request, body, length

"""Recognises a request whose header block is that of an earlier one of its connection.

A client says the same with every request. Anything else (another header, a part of one, more than one request, a body
over the bound, a new directory, an expired key) is left to the parser, and so is every refusal of a header block. Used
by `reader`.
"""

from __future__ import annotations

from provisioner.gateway.body.json_body import JsonBody
from provisioner.gateway.caller.request import Request, Service
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.directory import is_expired
from provisioner.gateway.head_pattern import LENGTH_DIGITS, HeadPattern


class Repetition:
    """A header block to recognise, and what it means."""

    __slots__ = ("_meaning", "_path", "_pattern")

    def __init__(self, path: DataPath, pattern: HeadPattern, meaning: Request) -> None:
        self._path = path
        self._pattern = pattern
        self._meaning = meaning

    @classmethod
    def of(cls, request: Request, data: bytes, path: DataPath) -> Repetition | None:
        """What to look for after `request`, the only one that the parser found in `data`, whole or not.

        None unless `data` is a plain header block with a length and what there is of a JSON body. One near the bound is
        parsed each time.
        """
        pattern = HeadPattern.of(data)
        found = pattern.match(data) if pattern is not None else None
        if pattern is None or found is None:
            return None
        _, body_start = found
        if body_start + LENGTH_DIGITS > path.limits.header_bytes:
            return None
        if request.refusal is not None or not request.keep_alive or request.service is Service.PAGE:
            return None
        if not (isinstance(request.body, JsonBody) and request.body.holds(data[body_start:])):
            return None
        return cls(path, pattern, request.again())

    def request_in(self, data: bytes) -> tuple[Request, bytes, int] | None:
        """The request with which `data` begins, what there is of its body, and how long that will be.

        None when `data` must be parsed.
        """
        found = self._pattern.match(data)
        if found is None:
            return None
        path, limit_bytes = self._path, self._path.limits.body_bytes
        length, body_start = found
        body = data[body_start:]
        if len(body) > length or length > limit_bytes:
            return None
        directory, key = self._meaning.access
        if directory is not path.directory or (key.expires_at is not None and is_expired(key, path.clock)):
            return None
        request = self._meaning.again()
        request.request_id, request.trace_lines = path.naming.name(request.withheld)
        request.body = JsonBody(limit_bytes, path.body_memory)
        return request, body, length

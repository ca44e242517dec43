"""One request as it was received: its line, its head, its body, and who asked.

`connection` builds it while it is parsed; `exchange` answers it. Paths are checked here, because a path that means one
thing to us and another to a replica would reach what is not routed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import httptools

from provisioner.domain.snapshot import KeyDigest
from provisioner.gateway.body import RequestBody
from provisioner.gateway.directory import Directory
from provisioner.gateway.header import RequestHead
from provisioner.gateway.refusal import Refusal, RefusedError, malformed_http, unknown_path

MODELS_PATH = b"/v1/models"

_PLAIN_PATH = re.compile(rb"/v1(?:/[A-Za-z0-9_~!$&'()*+,;=:@.-]+)+/?")


class Access(NamedTuple):
    """Who asked, and the directory that knew the key and will route the request."""

    directory: Directory
    key: KeyDigest


@dataclass(slots=True, kw_only=True)
class Request:
    """A request whose header block is complete; `access` is a refusal when it shall not be served."""

    method: bytes
    path: bytes
    query: bytes
    head: RequestHead
    body: RequestBody
    request_id: bytes
    is_http_1_0: bool
    keep_alive: bool
    access: Access | Refusal


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """The path of a request line's target, and its query with the question mark.

    Raises `RefusedError`: 400 for a target that is no path, 404 for a path outside `/v1/` or one that
    could be read as another one.
    """
    if not target.startswith(b"/"):
        target = _without_authority(target)
    path, mark, query = target.partition(b"?")
    if not _is_served(path):
        raise RefusedError(unknown_path())
    return path, mark + query


@lru_cache(maxsize=1024)
def _is_served(path: bytes) -> bool:
    """Whether `path` stays below `/v1/` however it is read: no dot segments, no empty ones, no escaped separators."""
    plain = unquote_to_bytes(path)
    segments = plain.split(b"/")
    return _PLAIN_PATH.fullmatch(plain) is not None and b"." not in segments and b".." not in segments


def _without_authority(target: bytes) -> bytes:
    """The path and query of an absolute target (`http://host/path`), which HTTP/1.1 asks servers to take."""
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        raise RefusedError(malformed_http("its target is not a path")) from None
    if not url.path:
        raise RefusedError(unknown_path())
    return bytes(url.path) + (b"?" + url.query if url.query else b"")

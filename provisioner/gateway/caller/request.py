"""One request as it was received: its line, its head, its body, and who asked.

`connection` builds it while it is parsed; `exchange` answers it. Paths are checked here, because a path that means one
thing to us and another to a replica would reach what is not routed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

import httptools

from provisioner.domain.snapshot import KeyDigest
from provisioner.gateway.body.request_body import RequestBody
from provisioner.gateway.directory import Directory
from provisioner.gateway.refusal import (
    Refusal,
    RefusedError,
    malformed_http,
    method_not_allowed,
    unknown_path,
    unsupported_path,
)

MODELS_PATH: Final = b"/v1/models"
ANY_PATH: Final = b"*"
"""The target of `OPTIONS` for the server as a whole (RFC 9112, 3.2.4)."""

_PAGE_METHODS = (b"GET", b"HEAD")
_MODELS_METHODS = ("GET", "HEAD", "OPTIONS")
_OTHER_METHODS = ("POST", "OPTIONS")
_DOT_SEGMENTS: Final = frozenset((b".", b".."))
_PLAIN_PATH: Final = re.compile(rb"/v1(?:/[A-Za-z0-9_~!$&'()*+,;=:@.-]+)+/?")


class Access(NamedTuple):
    """Who asked, and the directory that knew the key and will route the request."""

    directory: Directory
    key: KeyDigest


class Service(Enum):
    """Who answers a request that is not refused."""

    REPLICA = auto()
    MODELS = auto()
    OPTIONS = auto()
    PAGE = auto()


_CHAT: Final = "chat"
_KINDS: Final = {
    b"/v1/chat/completions": _CHAT,
    b"/v1/completions": _CHAT,
    b"/v1/responses": _CHAT,
    b"/v1/embeddings": "embedding",
    b"/v1/audio/transcriptions": "transcription",
    b"/v1/audio/translations": "transcription",
}
"""The paths of OpenAI's API that are for one kind of model; every other path is between caller and engine."""
_STREAM_OPTIONS: Final = frozenset((b"/v1/chat/completions", b"/v1/completions"))
"""The paths that know `stream_options`."""


class Request:
    """A request whose header block is complete. `access` is set if `is_known`; `service` unless there is a `refusal`.
    A page of the operator is for everybody, known or not.

    `target` goes on as it was sent; `path` is what it means, decoded, by which everything is decided. `lines` are the
    header lines that go on to the replica, `trace_lines` those that the gateway adds, `withheld` the fields that stay
    here, by name.
    """

    __slots__ = (
        "access",
        "body",
        "expects_continue",
        "is_http_1_0",
        "is_known",
        "keep_alive",
        "lines",
        "method",
        "path",
        "refusal",
        "request_id",
        "service",
        "target",
        "trace_lines",
        "withheld",
    )

    access: Access
    body: RequestBody
    expects_continue: bool
    is_http_1_0: bool
    is_known: bool
    keep_alive: bool
    lines: bytes
    method: bytes
    path: bytes
    refusal: Refusal | None
    request_id: bytes
    service: Service
    target: bytes
    trace_lines: Sequence[bytes]
    withheld: dict[bytes, bytes]

    def again(self) -> Request:
        """Another request with the same header block; its names and its body are still to be set."""
        other = Request()
        other.access = self.access
        other.expects_continue = self.expects_continue
        other.is_http_1_0 = self.is_http_1_0
        other.is_known = self.is_known
        other.keep_alive = self.keep_alive
        other.lines = self.lines
        other.method = self.method
        other.path = self.path
        other.refusal = self.refusal
        other.service = self.service
        other.target = self.target
        other.withheld = self.withheld
        return other

    @property
    def knows_stream_options(self) -> bool:
        """Whether an engine can be asked for the usage of a stream on this path."""
        return self.path in _STREAM_OPTIONS

    @property
    def suits_router(self) -> bool:
        """Whether a local router may take it: those drop queries, and the header fields of all but completions."""
        return self.target in _STREAM_OPTIONS

    def check_kind(self, kind: str) -> None:
        """Refuses a path that is not for models of `kind`. A chat model may know more: some hear, some embed.

        Raises `RefusedError` (400).
        """
        if kind != _CHAT and _KINDS.get(self.path, kind) != kind:
            raise RefusedError(unsupported_path(kind))


def plain_target(target: bytes) -> tuple[bytes, bytes]:
    """The path and query of an absolute target (`http://host/path`), which HTTP/1.1 asks servers to take, and its host.

    Raises `RefusedError`: 400 for a target that is none.
    """
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        raise RefusedError(malformed_http("its target is not a path")) from None
    return bytes(url.path or b"/") + (b"?" + url.query if url.query else b""), bytes(url.host or b"")


def plain_path(target: bytes) -> bytes:
    """The path of `target`, decoded: what an engine takes it for, however it is spelled."""
    path = target.partition(b"?")[0]
    return unquote_to_bytes(path) if b"%" in path else path


def find_service(method: bytes, target: bytes) -> Service:
    """Who answers `method` on the path of `target`.

    Raises `RefusedError`: 404 for a path outside `/v1/`, one that could be read as another one, or one of which nothing
    is known but that it may take POST; 405 for a method that the path does not take.
    """
    found = _look_up(method, target)
    if isinstance(found, Service):
        return found
    raise RefusedError(found)


def allowed_methods(path: bytes) -> str:
    """What a path that exists takes; `*` stands for all of them."""
    if path == ANY_PATH:
        return ", ".join((*_MODELS_METHODS[:-1], *_OTHER_METHODS))
    return ", ".join(_MODELS_METHODS if _is_models(path) else _OTHER_METHODS)


def find_page(method: bytes) -> Service:
    """The service that shows a page of the operator. Raises `RefusedError` (405) for a method that it does not take."""
    if method not in _PAGE_METHODS:
        raise RefusedError(method_not_allowed("GET, HEAD"))
    return Service.PAGE


@lru_cache(maxsize=1024)
def _look_up(method: bytes, target: bytes) -> Service | Refusal:
    path = plain_path(target)
    is_models = _is_models(path)
    if not is_models and (_PLAIN_PATH.fullmatch(path) is None or _DOT_SEGMENTS & set(path.split(b"/"))):
        return Service.OPTIONS if (method, target) == (b"OPTIONS", ANY_PATH) else unknown_path()
    if method.decode() not in (_MODELS_METHODS if is_models else _OTHER_METHODS):
        return method_not_allowed(allowed_methods(path)) if is_models or path in _KINDS else unknown_path()
    if method == b"OPTIONS":
        return Service.OPTIONS
    return Service.MODELS if is_models else Service.REPLICA


def _is_models(path: bytes) -> bool:
    """Whether it is the list or a model of it, which may have any name: no replica ever sees such a path."""
    return path == MODELS_PATH or path.startswith(MODELS_PATH + b"/")

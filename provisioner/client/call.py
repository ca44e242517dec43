"""What is asked of the API, as values: one request is a `Call`, what takes several is a `Flow`.

The modules beside this one make them (`endpoints.create_endpoint(…)`), `Client` and `AsyncClient` carry them out. So
every request is described once, whichever of the two sends it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote

from provisioner.domain.errors import NotFoundError
from provisioner.wire.message import Message
from provisioner.wire.page import Page

TIMEOUT_SECONDS = 10.0
PAGE_LENGTH = "500"

AnswerT = TypeVar("AnswerT")
MessageT = TypeVar("MessageT", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[AnswerT]):
    """One request: `path` below the API's prefix, `body` as JSON. `read` makes the answer of its bytes and raises
    ValueError for what it does not know."""

    method: str
    path: str
    read: Callable[[bytes], AnswerT]
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = TIMEOUT_SECONDS


@dataclass(frozen=True, slots=True)
class Pause:
    """A rest before the next request of a flow."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Tell(Generic[AnswerT]):
    """Something for whoever reads the flow."""

    value: AnswerT


Flow: TypeAlias = Generator[Call[Any] | Pause | Tell[AnswerT], Any, None]
"""Requests that follow from each other: each Call is answered with what it reads, or the error is thrown in."""


def get(read: type[MessageT], path: str, query: Mapping[str, str | None] | None = None) -> Call[MessageT]:
    """A request that changes nothing. Of the query what is None is left out."""
    return Call(method="GET", path=path, read=read.model_validate_json, query=present(query or {}))


def change(
    method: str,
    path: str,
    read: type[MessageT],
    *,
    idempotency_key: str,
    body: Any = None,
    if_match: str | None = None,
    query: Mapping[str, str | None] | None = None,
) -> Call[MessageT]:
    """A request that changes something: the same key with the same body is answered as the first time."""
    headers = {"Idempotency-Key": idempotency_key} | ({"If-Match": if_match} if if_match is not None else {})
    reader = read.model_validate_json
    return Call(method=method, path=path, read=reader, body=body, headers=headers, query=present(query or {}))


def every(read: type[MessageT], path: str, query: Mapping[str, str | None] | None = None) -> Flow[MessageT]:
    """Every item of a list, page by page."""
    asked = present(query or {}) | {"limit": PAGE_LENGTH}
    reader = Page[read].model_validate_json  # type: ignore[valid-type]
    while True:
        page = yield Call(method="GET", path=path, read=reader, query=asked)
        for item in page.items:
            yield Tell(item)
        if page.next_cursor is None:
            return
        asked = asked | {"cursor": page.next_cursor}


def path_of(collection: str, name: str, verb: str = "") -> str:
    """The path of one thing, or of a verb of it. NotFoundError for a name that would lead out of the collection."""
    if not {"", ".", ".."}.isdisjoint(name.split("/")):
        raise NotFoundError(f"finding it among the {collection}: nothing has a name of this form: {name}")
    return f"/{collection}/{quote(name)}" + (f":{verb}" if verb else "")


def present(values: Mapping[str, Any]) -> dict[str, Any]:
    """What is not None."""
    return {name: value for name, value in values.items() if value is not None}

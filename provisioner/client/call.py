"""What is asked of the API, as values: one request is a `Call`, what takes several is a `Flow`.

The modules beside this one make them (`endpoint_calls.create_endpoint(…)`), `Client` and `AsyncClient` carry them out.
So every request is described once, whichever of the two sends it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from provisioner.domain.errors import NotFoundError
from provisioner.wire.page import Page

TIMEOUT_SECONDS = 10.0
PAGE_LENGTH = "500"

AnswerT = TypeVar("AnswerT")
MessageT = TypeVar("MessageT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the bytes, and the entity tag of what they tell, empty where it has none."""

    body: bytes
    etag: str = ""


@dataclass(frozen=True, slots=True)
class Tagged(Generic[AnswerT]):
    """An answer with its entity tag: sent as `if_match`, a change is refused if somebody made one since."""

    value: AnswerT
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[AnswerT]):
    """One request: `path` below the API's prefix, `body` as JSON. `read` makes the answer of the reply and raises
    ValueError for what it does not know."""

    method: str
    path: str
    read: Callable[[Reply], AnswerT]
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = TIMEOUT_SECONDS


@dataclass(frozen=True, slots=True)
class Pause:
    """A rest before the next request of a flow."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A request whose answer comes line by line and may have no end. Ten seconds to begin; `silence_seconds` without
    a byte are a broken connection."""

    path: str
    silence_seconds: float
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NextLine:
    """The next line of the stream that was opened last, answered with None at its end."""


@dataclass(frozen=True, slots=True)
class Tell(Generic[AnswerT]):
    """Something for whoever reads the flow."""

    value: AnswerT


Step: TypeAlias = Call[Any] | Pause | Stream | NextLine | Tell[AnswerT]
"""What a flow wants next."""

Flow: TypeAlias = Generator[Step[AnswerT], Any, None]
"""Requests that follow from each other: each Call is answered with what it reads, or the error is thrown in."""


def message(kind: type[MessageT]) -> Callable[[Reply], MessageT]:
    """Reads a reply as one kind of message."""
    return lambda reply: kind.model_validate_json(reply.body)


def tagged(call: Call[AnswerT]) -> Call[Tagged[AnswerT]]:
    """The same request, answered with the entity tag beside."""
    return Call(
        method=call.method,
        path=call.path,
        read=lambda reply: Tagged(call.read(reply), reply.etag),
        body=call.body,
        query=call.query,
        headers=call.headers,
        timeout_seconds=call.timeout_seconds,
    )


def get(read: type[MessageT], path: str, query: Mapping[str, str | None] | None = None) -> Call[MessageT]:
    """A request that changes nothing. Of the query what is None is left out."""
    return Call(method="GET", path=path, read=message(read), query=present(query or {}))


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
    headers = present({"Idempotency-Key": idempotency_key, "If-Match": if_match})
    return Call(method=method, path=path, read=message(read), body=body, headers=headers, query=present(query or {}))


def every(read: type[MessageT], path: str, query: Mapping[str, str | None] | None = None) -> Flow[MessageT]:
    """Every item of a list, page by page."""
    yield from pages(Page[read], path, query)  # type: ignore[valid-type]


def pages(read: type[Page[AnswerT]], path: str, query: Mapping[str, str | None] | None = None) -> Flow[AnswerT]:
    """Every item of a list whose pages are of this kind."""
    asked = present(query or {}) | {"limit": PAGE_LENGTH}
    while True:
        page = yield Call(method="GET", path=path, read=message(read), query=asked)
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

"""Watches: the changes of a collection as a stream of lines, from now, from a revision or from the beginning.

A stream starts with history read in the same turn of the event loop in which it subscribes, so nothing is missed or
seen twice. A revision that is no longer kept is answered with a 410 event, after which clients list again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

import orjson
from aiohttp import web

from provisioner.embedded.apiserver import status, tables
from provisioner.embedded.apiserver.routes.objects import Call
from provisioner.embedded.apiserver.routes.request import MAX_WATCH_SECONDS, invalid_option
from provisioner.embedded.apiserver.selectors import Selection
from provisioner.embedded.apiserver.shape import Json
from provisioner.embedded.apiserver.storage import Change, ChangeType, HistoryGone
from provisioner.embedded.apiserver.watch import Subscription, event_type

_BOOKMARK_SECONDS: Final = 30.0
_DEFAULT_SECONDS: Final = 1_800
_INITIAL_END: Final = "k8s.io/initial-events-end"


async def watch(call: Call) -> web.StreamResponse:
    """Streams events until the time is up, the client leaves or the server stops."""
    selection = call.parameters.selection(call.kind)
    _check_initial_events(call)
    hub = call.cluster.hub
    subscription = hub.subscribe(call.kind.storage_key, call.namespace)
    try:
        first = list(_beginning(call, selection))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(call.request)
        await _stream(call, response, first, _following(call, selection, subscription))
    except (ConnectionResetError, ConnectionError):
        pass  # the client has gone, which is how most watches end
    finally:
        hub.unsubscribe(subscription)
    return response


async def _stream(call: Call, response: web.StreamResponse, first: list[Json], following: AsyncIterator[Json]) -> None:
    encode = _Encoder(call)
    if first:
        await response.write(b"".join(encode(event) for event in first))
    if first and first[-1]["type"] == "ERROR":
        return
    async for event in following:
        await response.write(encode(event))


class _Encoder:
    """Writes events as lines; for a client that wants tables, each object as a table of one row."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._table = tables.wants_table(call.request)
        self._metadata = tables.wants_metadata(call.request)
        self._columns_sent = False

    def __call__(self, event: Json) -> bytes:
        if self._table and event["type"] in ("ADDED", "MODIFIED", "DELETED"):
            event = event | {"object": self._as_table(event["object"])}
        elif self._metadata and event["type"] != "ERROR":
            event = event | {"object": tables.metadata_of(event["object"])}
        return orjson.dumps(event) + b"\n"

    def _as_table(self, document: Json) -> Json:
        shown = tables.table(
            self._call.kind,
            [document],
            now=self._call.cluster.surroundings.clock.now(),
            include=self._call.parameters.text("includeObject"),
            metadata={"resourceVersion": document["metadata"]["resourceVersion"]},
        )
        if self._columns_sent:
            shown["columnDefinitions"] = None
        self._columns_sent = True
        return shown


def _beginning(call: Call, selection: Selection) -> Iterator[Json]:
    """What the stream starts with: history behind a revision, or the present state."""
    revision = call.parameters.revision()
    initial = call.parameters.flag("sendInitialEvents")
    if not initial and revision:
        try:
            changes = call.cluster.storage.changes(
                call.cluster.identity, call.kind.storage_key, namespace=call.namespace, after=revision
            )
        except HistoryGone:
            gone = status.expired(f"too old resource version: {revision}")
            yield {"type": "ERROR", "object": gone.as_json()}
            return
        yield from (event for change in changes if (event := _event(call, change, selection)))
        return
    if call.parameters.text("sendInitialEvents") and not initial:
        return
    page = call.cluster.storage.scan(call.cluster.identity, call.kind.storage_key, namespace=call.namespace)
    for _, body in page.entries:
        document = call.kind.in_version(orjson.loads(body))
        if selection.selects(document):
            yield {"type": ChangeType.ADDED.value, "object": document}
    if initial:
        yield _bookmark(call, page.revision, {_INITIAL_END: "true"})


async def _following(call: Call, selection: Selection, subscription: Subscription) -> AsyncIterator[Json]:
    seconds = call.parameters.number("timeoutSeconds", maximum=MAX_WATCH_SECONDS) or _DEFAULT_SECONDS
    bookmarks = call.parameters.flag("allowWatchBookmarks")
    time = asyncio.get_running_loop().time
    end = time() + seconds
    while (left := end - time()) > 0:
        try:
            change = await subscription.next(min(left, _BOOKMARK_SECONDS))
        except TimeoutError:
            if bookmarks:
                yield _bookmark(call, call.cluster.storage.revision(call.cluster.identity), None)
        else:
            if change is None:
                return
            event = _event(call, change, selection)
            if event:
                yield event


def _event(call: Call, change: Change, selection: Selection) -> Json | None:
    seen = event_type(change, selection)
    if seen is None:
        return None
    document = orjson.loads(change.body)
    if seen is ChangeType.DELETED and change.type is not ChangeType.DELETED and change.previous is not None:
        # It left the selection: its last selected state, with the revision at which it left.
        document = orjson.loads(change.previous)
        document["metadata"]["resourceVersion"] = str(change.revision)
    return {"type": seen.value, "object": call.kind.in_version(document)}


def _bookmark(call: Call, revision: int, annotations: dict[str, str] | None) -> Json:
    metadata: Json = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    document = {"apiVersion": call.kind.api_version, "kind": call.kind.kind, "metadata": metadata}
    return {"type": "BOOKMARK", "object": document}


def _check_initial_events(call: Call) -> None:
    stated = bool(call.parameters.text("sendInitialEvents"))
    match = call.parameters.text("resourceVersionMatch")
    if stated and match != "NotOlderThan":
        message = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif not stated and match:
        message = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    else:
        return
    raise invalid_option("ListOptions", "resourceVersionMatch", message=message, reason="FieldValueForbidden")

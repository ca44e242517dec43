"""Watching endpoints: server-sent events, gone on with after a break. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.client.call import Flow, NextLine, Pause, Stream, Tell, present
from provisioner.client.events import Event, EventParser
from provisioner.client.visible_calls import ENDPOINT, VisibleEndpoint
from provisioner.domain.errors import InvariantError, RetryableError
from provisioner.wire.message import Message

SILENCE_SECONDS = 45.0
"""The server says that it is there every 15 seconds; three times none is a broken connection."""

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0


class _Removed(Message):
    id: str
    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointEvent:
    """Something about endpoints. `what` is `changed` with the `endpoint` as it is, `removed` with the id and tenant of
    one that is gone, `synced` once all that there are were told, `reset` before all are told anew. `position` is where
    a later watch may go on, None for an event in the middle of telling them all."""

    what: str
    position: str | None = None
    endpoint: VisibleEndpoint | None = None
    removed: str | None = None
    tenant: str | None = None


def watch_endpoints(tenant: str | None = None, *, after: str | None = None) -> Flow[EndpointEvent]:
    """Every endpoint, or a tenant's, then every change of one; with `after`, the position of an event, only what came
    later. Has no end of its own.

    A connection that breaks is made again, and goes on where it was. Raises what the first connection meets, and later
    RejectedError when the key has stopped working.
    """
    position, pause, has_begun = after, FIRST_PAUSE_SECONDS, False
    while True:
        try:
            yield Stream(
                path="/endpoints:watch",
                query=present({"tenant": tenant}),
                headers=present({"Last-Event-ID": position}),
                silence_seconds=SILENCE_SECONDS,
            )
            has_begun, parser = True, EventParser()
            while (line := (yield NextLine())) is not None:
                if (event := parser.take(line)) is not None:
                    pause = FIRST_PAUSE_SECONDS
                    position = event.id or position
                    yield Tell(_read(event))
        except RetryableError as error:
            if not has_begun:
                raise
            pause = max(pause, error.retry_after_seconds or 0.0)
        yield Pause(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _read(event: Event) -> EndpointEvent:
    try:
        if event.name == "changed":
            return EndpointEvent(what=event.name, position=event.id, endpoint=ENDPOINT.validate_json(event.data))
        if event.name == "removed":
            gone = _Removed.model_validate_json(event.data)
            return EndpointEvent(what=event.name, position=event.id, removed=gone.id, tenant=gone.tenant)
    except ValueError as error:
        raise InvariantError(
            f"reading an event of the watch: `{event.name}` is not in the form of this version",
            hint="use a client of the server's version",
        ) from error
    return EndpointEvent(what=event.name, position=event.id)

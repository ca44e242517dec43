"""Server-sent events, parsed line by line. Pure.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation; retry times are left
to whoever reads the events.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `id` is None for an event that names none of its own."""

    name: str
    data: str
    id: str | None


class EventParser:
    """The events of one connection. What stands before its break without an empty line is no event."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._name = "message"
        self._data: list[str] = []
        self._id: str | None = None

    def take(self, line: str) -> Event | None:
        """The event that this line ends, if it ends one. `line` is without its end."""
        if not line:
            ended = Event(self._name, "\n".join(self._data), self._id) if self._data else None
            self._forget()
            return ended
        field, _, value = line.partition(":")  # a comment has an empty field
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        elif field == "id" and "\0" not in value:
            self._id = value
        return None

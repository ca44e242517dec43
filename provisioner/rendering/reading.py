"""Reads rendered template text as the JSON values it stands for, with stand-ins where slots are.

Only what every YAML reader understands alike is let through: no anchors, tags or duplicate keys, no plain scalar on
which readers disagree. A text slot must stand between double quotes; a number slot may also be a whole value. Called by
the compiler, once per template and shape, and for files of the pack that are published as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from provisioner.rendering.environment import Rendered, Source, refused
from provisioner.rendering.slots import BARE_CLOSE, BARE_OPEN, MARK, SlotType, bare_mark

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML was built with it: the same events, a tenth of the time."""
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "": None}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+")
_AMBIGUOUS = re.compile(
    r"(?i:y|n|yes|no|on|off|true|false|null|~|=|<<)"
    r"|[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?0[xob][0-9a-fA-F_]+|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|[-+]?\.(?i:inf|nan)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?"
)


def is_ambiguous(text: str) -> bool:
    """Whether YAML readers disagree about a plain scalar, or take it for something other than text."""
    return _AMBIGUOUS.fullmatch(text) is not None


def read_objects(rendered: Rendered, slots: Sequence[tuple[str, SlotType]]) -> list[Any]:
    """The values of all documents in the text; empty documents are left out.

    A number slot that is a value of its own comes back as its bare mark. Raises RejectedError naming file and line.
    """
    reader = _Reader(rendered, slots)
    try:
        return list(reader.documents(iter(yaml.parse(rendered.text, Loader=_LOADER))))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or "it cannot be read"
        place = rendered.place(mark.line if mark else 0)
        raise refused(place, f"the output is no YAML: {problem}", reason="TemplateNotYaml") from error


def read_text(text: str, *, file: str) -> list[Any]:
    """The values of all documents in a text that no template made, read as strictly. Raises RejectedError naming file
    and line."""
    places = tuple(Source(file, line) for line in range(1, text.count("\n") + 2))
    return read_objects(Rendered(text=text, places=places), ())


class _Reader:
    def __init__(self, rendered: Rendered, slots: Sequence[tuple[str, SlotType]]) -> None:
        self.rendered = rendered
        self.slots = slots

    def documents(self, events: Iterator[Event]) -> Iterator[Any]:
        for event in events:
            if isinstance(event, DocumentStartEvent):
                value = self.value(next(events), events)
                if value is not None:
                    yield value
                end = next(events)
                if not isinstance(end, DocumentEndEvent):
                    raise self.fault(end, "there is more than one value in a document")

    def value(self, event: Event, events: Iterator[Event]) -> Any:
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None):
            raise self.fault(event, "anchors and aliases are not read here", hint="use a macro or an include")
        if getattr(event, "tag", None):
            raise self.fault(event, "tags are not read here")
        if isinstance(event, ScalarEvent):
            return self.scalar(event)
        if isinstance(event, SequenceStartEvent):
            items = []
            while not isinstance(item := next(events), SequenceEndEvent):
                items.append(self.value(item, events))
            return items
        return self.mapping(events)

    def mapping(self, events: Iterator[Event]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(events), MappingEndEvent):
            key = self.value(event, events)
            if not isinstance(key, str) or MARK.search(key):
                raise self.fault(event, f"a key must be fixed text: `{key}`", hint="quote it; slots cannot be keys")
            if key in found:
                raise self.fault(event, f"the key stands here twice: `{key}`")
            found[key] = self.value(next(events), events)
        return found

    def scalar(self, event: ScalarEvent) -> Any:
        text: str = event.value
        slot = MARK.search(text)
        if not event.style:
            return self.plain(event, text)
        if slot and event.style != '"':
            raise self.fault(
                event,
                f"slot `{self.slots[int(slot[1])][0]}` stands in text without double quotes",
                reason="SlotOutsideQuotes",
                hint="put the value between double quotes",
            )
        return text

    def plain(self, event: ScalarEvent, text: str) -> Any:
        slot = MARK.search(text)
        if slot:
            name, kind = self.slots[int(slot[1])]
            if kind is SlotType.NUMBER and slot[0] == text:
                return bare_mark(int(slot[1]))
            raise self.fault(
                event,
                f"slot `{name}` stands outside quotes",
                reason="SlotOutsideQuotes",
                hint="put the value between double quotes",
            )
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            return int(text)
        if _DECIMAL.fullmatch(text):
            return float(text)
        if is_ambiguous(text) or BARE_OPEN in text or BARE_CLOSE in text:
            raise self.fault(
                event,
                f"readers of YAML disagree about the plain value: `{text}`",
                reason="AmbiguousValue",
                hint="quote it, or write `true`, `false` or a plain decimal number",
            )
        return text

    def fault(
        self, event: Event, message: str, *, reason: str = "TemplateNotYaml", hint: str | None = None
    ) -> Exception:
        return refused(
            self.rendered.place(event.start_mark.line if event.start_mark else 0), message, reason=reason, hint=hint
        )

"""Compiles templates once per shape into text that only waits for its slots, and fills it.

A template is rendered by Jinja with stand-ins, read as YAML, written in canonical form and cut at the marks of the
slots. Filling is text formatting: nothing is parsed or dumped. Called by the pack; it knows no template by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, Protocol

import orjson

from provisioner.catalog.pack import PackFiles
from provisioner.domain.errors import InvariantError, RejectedError
from provisioner.rendering.canonical import canonical_json, canonical_yaml, read_canonical
from provisioner.rendering.environment import Templates
from provisioner.rendering.reading import read_objects
from provisioner.rendering.slots import BARE_MARK, MARK, Slot, SlotType, escaped, is_plain, mark

SlotValue = str | int | Sequence[str]
Fill = Callable[[Sequence[str]], str]
"""Takes the escaped texts of all slots in order, see `Slots.filling`."""

_ANY_MARK = re.compile(f"{MARK.pattern}|{BARE_MARK.pattern}")


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of a group of templates: single ones by type, lists of text slots by their length."""

    single: Mapping[str, SlotType]
    lists: Mapping[str, int]

    def numbered(self) -> list[tuple[str, SlotType]]:
        """Every slot with its number as place, lists after single ones."""
        return [
            *self.single.items(),
            *((name, SlotType.TEXT) for name, length in self.lists.items() for _ in range(length)),
        ]

    def stand_ins(self) -> dict[str, Slot | tuple[Slot, ...]]:
        """What a template sees under each name."""
        found: dict[str, Slot | tuple[Slot, ...]] = {}
        index = 0
        for name in self.single:
            found[name] = Slot(name, mark(index))
            index += 1
        for name, length in self.lists.items():
            found[name] = tuple(Slot(name, mark(index + item)) for item in range(length))
            index += length
        return found

    def filling(self, values: Mapping[str, SlotValue]) -> list[str]:
        """The escaped texts of all slots in order. Raises InvariantError for values of other slots or types."""
        if len(values) != len(self.single) + len(self.lists) or not self.single.keys() <= values.keys():
            wrong = sorted(values.keys() ^ (self.single.keys() | self.lists.keys()))
            raise InvariantError(f"filling slots: missing or unknown: `{', '.join(wrong)}`", reason="SlotsMismatch")
        texts = [
            value if type(value := values[name]) is str and kind is SlotType.TEXT else _text(name, value, kind)
            for name, kind in self.single.items()
        ]
        for name, length in self.lists.items():
            items = values.get(name, ())
            if isinstance(items, str | int) or len(items) != length:
                raise InvariantError(f"filling slot `{name}`: not a list of {length}", reason="SlotsMismatch")
            texts += items
        return texts if is_plain("".join(texts)) else [escaped(text) for text in texts]


def _text(name: str, value: SlotValue, kind: SlotType) -> str:
    if kind is SlotType.TEXT and isinstance(value, str):
        return value
    if kind is SlotType.NUMBER and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise InvariantError(f"filling slot `{name}`: not a {kind.value}", reason="SlotsMismatch")


def _filler(text: str) -> Fill:
    """Text that is constant but for its slots, as the function that fills them."""
    order: list[int] = []
    pieces, end = [], 0
    for found in _ANY_MARK.finditer(text):
        order.append(int(found[1] or found[2]))
        pieces += [text[end : found.start()], ""]
        end = found.end()
    pieces.append(text[end:])
    if not order:
        return lambda _: text
    if len(order) == 1:
        (before, _, after), only = pieces, order[0]
        return lambda filling: f"{before}{filling[only]}{after}"
    pick = itemgetter(*order)

    def fill(filling: Sequence[str]) -> str:
        filled = pieces[:]  # to join them takes half the time of formatting a text
        filled[1::2] = pick(filling)
        return "".join(filled)

    return fill


@dataclass(frozen=True)
class Document:
    """One compiled object as texts with the marks of slots: canonical JSON, which says all that there is to say of it,
    and its file name."""

    json_text: str
    file_name: str

    @cached_property
    def file(self) -> Fill:
        """The file name, filled."""
        return _filler(self.file_name)

    @cached_property
    def yaml(self) -> Fill:
        """The canonical YAML, filled."""
        return _filler(canonical_yaml(read_canonical(self.json_text)))

    @cached_property
    def json(self) -> Fill:
        """The JSON, filled."""
        return _filler(self.json_text)

    def object(self, filling: Sequence[str]) -> dict[str, Any]:
        """The filled object as JSON values."""
        found: dict[str, Any] = orjson.loads(self.json(filling))
        return found


@dataclass(frozen=True, slots=True)
class Compiled:
    """A group of templates compiled for one shape; two of equal content are equal whatever they were made of."""

    slots: Slots
    documents: tuple[Document, ...]

    def objects(self, values: Mapping[str, SlotValue]) -> list[dict[str, Any]]:
        """All objects, filled."""
        filling = self.slots.filling(values)
        return [document.object(filling) for document in self.documents]

    def files(self, values: Mapping[str, SlotValue]) -> dict[str, bytes]:
        """All objects, filled, as canonical YAML by file name."""
        filling = self.slots.filling(values)
        found = {document.file(filling): document.yaml(filling).encode() for document in self.documents}
        if len(found) != len(self.documents):
            raise InvariantError("writing files: two objects have the same kind, namespace and name")
        return found


class Fillable(Protocol):
    """A group of templates that can be filled: one that is compiled, or will be when it is needed."""

    def objects(self, values: Mapping[str, SlotValue]) -> list[dict[str, Any]]:
        """All objects, filled."""
        ...

    def files(self, values: Mapping[str, SlotValue]) -> dict[str, bytes]:
        """All objects, filled, as canonical YAML by file name."""
        ...


class Compiler(Protocol):
    """What compiles groups of templates for a pack: `compile_templates`, or somebody who remembers its results."""

    def __call__(
        self,
        files: PackFiles,
        names: Sequence[str],
        *,
        constants: Mapping[str, Any],
        slots: Slots,
        optional: frozenset[str] = frozenset(),
    ) -> Fillable:
        """See `compile_templates`."""
        ...


def compile_templates(
    files: PackFiles,
    names: Sequence[str],
    *,
    constants: Mapping[str, Any],
    slots: Slots,
    optional: frozenset[str] = frozenset(),
) -> Compiled:
    """Compile templates, by name, for one shape.

    Every constant and slot must be read by one of them, but for the constants named in `optional`. Raises RejectedError
    naming file and line.
    """
    numbered = slots.numbered()
    templates = Templates(files, constants=constants, slots=slots.stand_ins())
    rendered = {name: templates.render(name) for name in names}
    templates.check_every_use()
    documents = [_document(name, value) for name, one in rendered.items() for value in read_objects(one, numbered)]
    known = constants.keys() | slots.single.keys() | slots.lists.keys()
    unused = sorted(known - templates.names - optional)
    if unused:
        raise RejectedError(
            f"compiling templates: no template reads the parameter: `{unused[0]}`",
            reason="ParameterUnused",
            hint=f"use it in one of {', '.join(names)}, or do not pass it",
        )
    return Compiled(slots, tuple(documents))


def _document(template: str, value: Any) -> Document:
    try:
        metadata = value["metadata"]
        parts = (metadata.get("namespace"), value["kind"].lower(), metadata["name"])
        file = ".".join(part for part in parts if part) + ".yaml"
    except (KeyError, TypeError, AttributeError) as error:
        raise RejectedError(
            f"compiling template `{template}`: a document is no Kubernetes object",
            reason="NotAnObject",
            hint="give it apiVersion, kind and metadata.name",
        ) from error
    return Document(canonical_json(value), file)

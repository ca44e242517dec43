"""One document of a file: its value as JSON can hold it, and the line of every field, found when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from provisioner.catalog.fields import FieldPath
from provisioner.lint.scalars import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """Something about a file or its text that no value tells: the rule it breaks, where, and what to do."""

    rule: str
    file: str
    at_line: int
    path: FieldPath = ()
    message: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A plain scalar whose value may not be what somebody meant; with `is_key` it is the last name of the path."""

    path: FieldPath
    text: str
    reading: Reading
    is_key: bool = False


class Document(Protocol):
    """A document as it was read."""

    @property
    def file(self) -> str:
        """The path as it was given, from the folder that is linted."""

    @property
    def value(self) -> Any:
        """What stands in it."""

    @property
    def disagreements(self) -> Sequence[Disagreement]:
        """The plain scalars in it whose values may not be what somebody meant."""

    def line(self, path: FieldPath = ()) -> int:
        """The line (from 1) of a field, or of the nearest thing around it."""

    def within(self, path: FieldPath) -> Sequence[Document]:
        """The documents in a text that stands in this one, holes allowed."""


@dataclass(frozen=True, eq=False)
class Part:
    """A piece of a document that is looked at by itself, such as an item of a list."""

    around: Document
    path: FieldPath
    value: Any

    @property
    def file(self) -> str:
        """The document's."""
        return self.around.file

    @property
    def disagreements(self) -> Sequence[Disagreement]:
        """Those of the piece."""
        length = len(self.path)
        return tuple(
            replace(found, path=found.path[length:])
            for found in self.around.disagreements
            if found.path[:length] == self.path
        )

    def line(self, path: FieldPath = ()) -> int:
        """The line of a field of the piece."""
        return self.around.line((*self.path, *path))

    def within(self, path: FieldPath) -> Sequence[Document]:
        """The documents in a text of the piece."""
        return self.around.within((*self.path, *path))

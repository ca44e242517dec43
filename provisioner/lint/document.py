"""One document of a file: its value as JSON can hold it, and the line of every field, found when somebody asks."""

from __future__ import annotations

from typing import Any, Protocol

from provisioner.catalog.fields import FieldPath


class Document(Protocol):
    """A document as it was read."""

    @property
    def file(self) -> str:
        """The path as it was given, from the folder that is linted."""

    @property
    def value(self) -> Any:
        """What stands in it."""

    def line(self, path: FieldPath = ()) -> int:
        """The line (from 1) of a field, or of the nearest thing around it."""

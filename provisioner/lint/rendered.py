"""Makes objects that were rendered, and stand in no file, into a `World`; they have no lines. Previews call it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Finding
from provisioner.lint.document import Disagreement, Document
from provisioner.lint.engine import lint_world
from provisioner.lint.holes import mask
from provisioner.lint.reading import Sorting
from provisioner.lint.values import text
from provisioner.lint.world import Object, World
from provisioner.lint.yaml_text import parse_documents

if TYPE_CHECKING:
    from provisioner.catalog.catalog import Catalog


@dataclass(frozen=True, eq=False)
class RenderedDocument:
    """An object as it was rendered, under a name that it would have as a file."""

    file: str
    value: Mapping[str, Any]
    disagreements: Sequence[Disagreement] = ()

    def line(self, path: FieldPath = ()) -> int:
        """The only line that there is."""
        return 1

    def within(self, path: FieldPath) -> Sequence[Document]:
        """The documents in a text that stands in this one, holes allowed."""
        masked = mask(text(self.value, *path) or "")
        return tuple(parse_documents(masked.text, file=self.file, masked=masked, is_inline=True))


def lint_objects(
    objects: Iterable[Mapping[str, Any]], *, catalog: Catalog, kubernetes: tuple[int, int]
) -> tuple[Finding, ...]:
    """Every finding about objects that are applied together."""
    sorting = Sorting()
    for value in objects:
        document = RenderedDocument(_file_name(value), value)
        sorting.documents.append(document)
        sorting.take(Object(document, value))
    return lint_world(
        World(
            objects=tuple(sorting.objects),
            tenants=tuple(sorting.tenants),
            documents=tuple(sorting.documents),
            catalog=catalog,
            kubernetes=kubernetes,
            oddities=tuple(sorting.oddities),
        )
    )


def _file_name(value: Mapping[str, Any]) -> str:
    namespace, name = text(value, "metadata", "namespace"), text(value, "metadata", "name")
    return ".".join(filter(None, (namespace, str(value.get("kind")).lower(), name))) + ".yaml"

"""What a pack of templates makes, as text with the place of every line: a compiler that remembers what it compiled.

The pack fills it as it fills any other; the linter asks for the texts. Pure but for the pack's files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provisioner.catalog.pack import PackFiles
from provisioner.lint.rendition import Place, RenderedText
from provisioner.rendering.compiler import Compiled, Slots, SlotValue, compile_templates
from provisioner.rendering.environment import Rendered, Templates
from provisioner.rendering.publishing import Filled
from provisioner.rendering.slots import MARK


@dataclass(frozen=True, slots=True)
class TracedGroup:
    """A compiled group, and what its templates print, by name, with marks where slots are."""

    compiled: Compiled
    rendered: Mapping[str, Rendered]

    def objects(self, values: Mapping[str, SlotValue]) -> list[dict[str, Any]]:
        """All objects, filled."""
        return self.compiled.objects(values)

    def files(self, values: Mapping[str, SlotValue]) -> dict[str, bytes]:
        """All objects, filled, as canonical YAML by file name."""
        return self.compiled.files(values)

    def texts(self, values: Mapping[str, SlotValue]) -> Iterator[tuple[str, Rendered]]:
        """What every template prints, filled."""
        filling = self.compiled.slots.filling(values)
        for name, one in self.rendered.items():
            yield name, Rendered(MARK.sub(lambda found: filling[int(found[1])], one.text), one.places)


def trace_templates(
    files: PackFiles,
    names: Sequence[str],
    *,
    constants: Mapping[str, Any],
    slots: Slots,
    optional: frozenset[str] = frozenset(),
) -> TracedGroup:
    """Compile templates as `compile_templates` does, and remember what they print."""
    compiled = compile_templates(files, names, constants=constants, slots=slots, optional=optional)
    templates = Templates(files, constants=constants, slots=slots.stand_ins())
    return TracedGroup(compiled, {name: templates.render(name) for name in names})


def pack_texts(parts: Iterable[Filled], *, root: str, names: frozenset[str], otherwise: str) -> Iterator[RenderedText]:
    """The texts of filled groups, with places below a root. Lines of templates that are not among the linted `names`,
    but come with the product, have their place in the file `otherwise`."""
    for part in parts:
        for name, one in part.compiled.texts(part.values) if isinstance(part.compiled, TracedGroup) else ():
            places = []
            for source in one.places:
                file = posixpath.join(root, source.file)
                places.append(Place(file, source.line) if file in names else Place(otherwise, 1))
            yield RenderedText(posixpath.join(root, name), one.text, places)

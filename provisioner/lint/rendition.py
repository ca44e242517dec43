"""Objects that templates make, judged by themselves: their world, and the places in the templates of all their lines.

Rules see a rendition as they see files: objects of a chart belong together, and not to what else is linted. Findings
are told of the template's file and line. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from provisioner.domain.finding import Finding
from provisioner.lint.holes import mask
from provisioner.lint.yaml_text import YamlDocument, parse_documents

if TYPE_CHECKING:
    from provisioner.lint.world import World


_INDEX = re.compile(r"\[\d+\]")


class Place(NamedTuple):
    """A line (from 1) of a template's file."""

    file: str
    line: int


class RenderedText(NamedTuple):
    """What a template prints, under the name of its file, and the place of each of its lines."""

    file: str
    text: str
    places: Sequence[Place]


class NotRendered(Exception):
    """Templates are not rendered, all that belong together: where that was found out, and why. What is wrong with
    them, if anything is, other rules tell."""

    def __init__(self, place: Place, reason: str) -> None:
        super().__init__(reason)
        self.place, self.reason = place, reason


@dataclass(frozen=True, slots=True, eq=False)
class Rendition:
    """What some templates make together."""

    world: World
    places: Mapping[str, Sequence[Place]]
    """By the file of a document: where each line of it comes from."""

    def located(self, findings: Sequence[Finding]) -> Iterator[Finding]:
        """The findings about the world, each at its place in a template; one that a template repeats is told once."""
        told = set()
        for finding in findings:
            places = self.places.get(finding.file or "", ())
            place = places[min(max((finding.line or 1) - 1, 0), len(places) - 1)] if places else None
            found = replace(finding, file=place.file, line=place.line) if place else finding
            key = (found.rule, found.file, found.line, _INDEX.sub("[]", found.field))
            if key not in told:
                told.add(key)
                yield found


def documents_of(rendered: RenderedText) -> Iterator[YamlDocument]:
    """The documents that a template makes; what is filled in later is a hole."""
    masked = mask(rendered.text)
    yield from parse_documents(masked.text, file=rendered.file, masked=masked)

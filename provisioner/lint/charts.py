"""Helm charts: their values, and which of them their templates read.

Reading makes a `Chart` of every folder with a `Chart.yaml`; the chart rules look at it, and `helm` renders it. Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from provisioner.lint.document import Document
from provisioner.lint.values import items, text

CHART_FILE = "Chart.yaml"
SCHEMA_FILE = "values.schema.json"

_ACTION = re.compile(r"\{\{-?(?P<comment>\s*/\*.*?\*/\s*)?(?P<code>.*?)-?\}\}", re.DOTALL)
_READ = re.compile(r"(?:\$|\b)?\.Values((?:\.[A-Za-z_][A-Za-z0-9_-]*)*)")
_STRING = re.compile(r'"(?:\\.|[^"\\])*"|`[^`]*`')
_FALLBACKS = re.compile(r"\b(default|required|if|with|and|or|not|coalesce|ternary|hasKey|dig|get|empty|range|else)\b")


@dataclass(frozen=True, slots=True)
class Read:
    """A value that a template reads; guarded where its absence is provided for."""

    path: tuple[str, ...]
    line: int
    is_guarded: bool


@dataclass(frozen=True, slots=True)
class ChartTemplate:
    """A file below `templates/`."""

    file: str
    text: str

    def reads(self) -> Iterator[Read]:
        """Every value that it reads."""
        for line, code in self.actions():
            bare = _STRING.sub('""', code)
            for found in _READ.finditer(bare):
                path = tuple(part for part in found[1].split(".") if part)
                yield Read(path, line, _FALLBACKS.search(bare) is not None)

    def actions(self) -> Iterator[tuple[int, str]]:
        """Every action and its line (from 1), comments left out."""
        line, place = 1, 0
        for found in _ACTION.finditer(self.text):
            line += self.text.count("\n", place, found.start())
            place = found.start()
            if found["comment"] is None:
                yield line, found["code"]


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """A chart: its `Chart.yaml`, its values files, the first of which is `values.yaml`, and its templates."""

    folder: str
    head: Document
    values: tuple[Document, ...]
    templates: tuple[ChartTemplate, ...]
    schema: Document | None = None
    """Its `values.schema.json`."""
    has_vendored: bool = False
    """Whether other charts stand in its folder `charts`."""

    @property
    def name(self) -> str:
        """As its `Chart.yaml` says, else its folder's."""
        return text(self.head.value, "name") or PurePosixPath(self.folder).name

    def subcharts(self) -> frozenset[str]:
        """The names under which the values of other charts stand."""
        found = {"global"}
        for _, dependency in items(self.head.value, "dependencies"):
            found |= {name for key in ("name", "alias") if (name := text(dependency, key))}
        return frozenset(found)


def is_chart_text(name: str, charts: frozenset[str]) -> bool:
    """Whether a file is a template or a subchart of one of the chart folders, and so no manifest."""
    return any(
        str(folder.parent) in charts for folder in PurePosixPath(name).parents if folder.name in ("templates", "charts")
    )


def charts_of(texts: Mapping[str, str], documents: Mapping[str, Any]) -> Iterator[Chart]:
    """Every chart among some files."""
    for name, read in documents.items():
        path = PurePosixPath(name)
        if path.name != CHART_FILE or not read:
            continue
        folder = str(path.parent)
        values = [
            document
            for other in sorted(documents, key=lambda other: (PurePosixPath(other).name != "values.yaml", other))
            if str(PurePosixPath(other).parent) == folder
            and PurePosixPath(other).name.startswith("values")
            and not other.endswith(SCHEMA_FILE)
            for document in documents[other]
        ]
        below = posixpath.join(folder, "templates") + "/" if folder != "." else "templates/"
        templates = [ChartTemplate(other, content) for other, content in texts.items() if other.startswith(below)]
        schema = documents.get(posixpath.normpath(posixpath.join(folder, SCHEMA_FILE)), ())
        inner = posixpath.join(folder, "charts") + "/" if folder != "." else "charts/"
        has_vendored = any(other.startswith(inner) for other in texts)
        yield Chart(folder, read[0], tuple(values), tuple(templates), next(iter(schema), None), has_vendored)

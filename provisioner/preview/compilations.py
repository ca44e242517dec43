"""Compiles each group of templates once for the same inputs, whichever side of a change or earlier preview asked first.

A compiled group remembers which files it was made of. It is used again while those, what the templates see and our own
code are the same; so of a change only what it can reach is compiled. Given to the packs of both sides. Pure but for
the pack's files; what is kept between runs is in the cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from provisioner.catalog.entry import Entry
from provisioner.catalog.pack import PackFiles
from provisioner.preview.cache import Cache, key_of
from provisioner.rendering.compiler import Compiled, Document, Slots, compile_templates

_MAX_TRACES = 8
"""Sets of files that one group was made of, the latest first: an edit adds or drops an include now and then."""


class Compilations:
    """`compile` has the form of `compile_templates`. `code` stands for our own code: another one, another result."""

    def __init__(self, cache: Cache, *, code: str) -> None:
        self._cache = cache
        self._code = code
        self._compiled: dict[str, Compiled] = {}
        self._traces: dict[str, list[list[str]]] = {}
        self._contents: dict[tuple[PackFiles, str], str] = {}
        self._entries: dict[int, tuple[Entry, str]] = {}

    def compile(
        self,
        files: PackFiles,
        names: Sequence[str],
        *,
        constants: Mapping[str, Any],
        slots: Slots,
        optional: frozenset[str] = frozenset(),
    ) -> Compiled:
        """The group, compiled or remembered. Raises RejectedError naming file and line for a bad template."""
        told = [names, constants, list(slots.single.items()), list(slots.lists.items()), sorted(optional)]
        group = key_of(self._code, orjson.dumps(told, default=self._plain, option=orjson.OPT_SORT_KEYS))
        for trace in self._traces_of(group):
            if found := self._remembered(self._key(group, files, trace), slots):
                return found
        made = compile_templates(files, names, constants=constants, slots=slots, optional=optional)
        self._remember(group, files, made)
        return made

    def _remembered(self, key: str, slots: Slots) -> Compiled | None:
        if key not in self._compiled and (kept := self._cache.get(key)) is not None:
            documents = (Document(*texts) for texts in orjson.loads(kept))
            self._compiled[key] = Compiled(slots, tuple(documents))
        return self._compiled.get(key)

    def _remember(self, group: str, files: PackFiles, made: Compiled) -> None:
        trace = sorted(made.sources)
        traces = self._traces[group] = [trace, *(other for other in self._traces[group] if other != trace)]
        del traces[_MAX_TRACES:]
        key = self._key(group, files, trace)
        self._compiled[key] = made
        self._cache.put(group, orjson.dumps(traces))
        self._cache.put(key, orjson.dumps([_texts(document) for document in made.documents]))

    def _traces_of(self, group: str) -> Iterator[list[str]]:
        if group not in self._traces:
            kept = self._cache.get(group)
            self._traces[group] = [] if kept is None else orjson.loads(kept)
        yield from self._traces[group]

    def _key(self, group: str, files: PackFiles, trace: Sequence[str]) -> str:
        return key_of(group, *(part for name in trace for part in (name, self._content(files, name))))

    def _content(self, files: PackFiles, name: str) -> str:
        """The digest of a file's content, empty where there is none."""
        if (files, name) not in self._contents:
            path = files.find(name)
            self._contents[files, name] = "" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()
        return self._contents[files, name]

    def _plain(self, value: Any) -> Any:
        """What stands for a piece of the catalog, which is large and comes in every group: its digest."""
        if not isinstance(value, Entry):
            raise TypeError(f"no part of a template's input: {type(value).__name__}")
        if id(value) not in self._entries:
            told = orjson.dumps(value.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)
            self._entries[id(value)] = (value, key_of(type(value).__name__, told))
        return self._entries[id(value)][1]


def _texts(document: Document) -> tuple[str, str, str]:
    return document.json_text, document.yaml_text, document.file_name

"""Groups of templates that are compiled only when somebody needs their objects, and once for the same inputs.

Whether two are equal is told from what they are made of: the files that their templates reach by includes and imports,
what the templates see, and our own code. So of a change only what it can reach is compiled, and what an earlier preview
compiled is not compiled again. Given to the packs of both sides. Pure but for the packs' files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from provisioner.catalog.entry import Entry
from provisioner.catalog.pack import PackFiles
from provisioner.preview.cache import Cache, key_of
from provisioner.rendering.compiler import Compiled, Document, Slots, SlotValue, compile_templates
from provisioner.rendering.environment import referenced_templates

_EVERYTHING = ("templates", "applications", "policies")
"""Where files lie that a template may name."""


class Deferred:
    """A group that is compiled when it is first filled. Two are equal when they are made of the same, or come to the
    same; comparing those of different inputs raises RejectedError where one does not compile."""

    def __init__(self, inputs: str, make: Callable[[], Compiled]) -> None:
        self.inputs = inputs
        self._make = make
        self._compiled: Compiled | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deferred) and (self.inputs == other.inputs or self.compiled == other.compiled)

    __hash__ = None  # type: ignore[assignment]

    @property
    def compiled(self) -> Compiled:
        """The group, compiled now if it was not. Raises RejectedError naming file and line for a bad template."""
        if self._compiled is None:
            self._compiled = self._make()
        return self._compiled

    def objects(self, values: Mapping[str, SlotValue]) -> list[dict[str, Any]]:
        """All objects, filled."""
        return self.compiled.objects(values)

    def files(self, values: Mapping[str, SlotValue]) -> dict[str, bytes]:
        """All objects, filled, as canonical YAML by file name."""
        return self.compiled.files(values)


class Compilations:
    """Compiles for both sides. `code` stands for our own code: another one, another result."""

    def __init__(self, cache: Cache, *, code: str) -> None:
        self._cache = cache
        self._code = code
        self._made: dict[str, Deferred] = {}
        self._files: dict[tuple[PackFiles, str], _File] = {}
        self._every: dict[PackFiles, tuple[str, ...]] = {}
        self._references = _References(cache, code)
        self._entries: dict[int, tuple[Entry, str]] = {}

    def compile(
        self,
        files: PackFiles,
        names: Sequence[str],
        *,
        constants: Mapping[str, Any],
        slots: Slots,
        optional: frozenset[str] = frozenset(),
    ) -> Deferred:
        """The group, in the form of `compile_templates`. Nothing is compiled yet."""
        told = [names, constants, list(slots.single.items()), list(slots.lists.items()), sorted(optional)]
        seen = orjson.dumps(told, default=self._plain, option=orjson.OPT_SORT_KEYS)
        inputs = key_of(self._code, seen, *self._reached(files, names))

        def make() -> Compiled:
            if (kept := self._cache.get(inputs)) is not None:
                return Compiled(slots, tuple(Document(*texts) for texts in orjson.loads(kept)))
            made = compile_templates(files, names, constants=constants, slots=slots, optional=optional)
            texts = [(document.json_text, document.file_name) for document in made.documents]
            self._cache.put(inputs, orjson.dumps(texts))
            return made

        return self._made.setdefault(inputs, Deferred(inputs, make))

    def keep(self) -> None:
        """Remember between runs which templates name which."""
        self._references.keep()

    def _reached(self, files: PackFiles, names: Sequence[str]) -> Iterator[str]:
        """Names and digests of all files that the templates are made of, the names of those that are not there too."""
        waiting, seen = list(names), set(names)
        while waiting:
            name = waiting.pop()
            file = self._file(files, name)
            yield from (name, file.digest)
            new = file.references - seen
            seen |= new
            waiting += sorted(new)

    def _file(self, files: PackFiles, name: str) -> _File:
        if (files, name) not in self._files:
            path = files.find(name)
            content = b"" if path is None else path.read_bytes()
            digest = "" if path is None else hashlib.sha256(content).hexdigest()
            named = self._references.of(name, content, digest)
            self._files[files, name] = _File(digest, frozenset(self._spelled_out(files, named)))
        return self._files[files, name]

    def _spelled_out(self, files: PackFiles, names: Iterable[str]) -> Iterator[str]:
        """The names, and in the place of what others begin with every file that has such a name."""
        for name in names:
            if name.endswith("*"):
                if files not in self._every:
                    self._every[files] = tuple(every_file(files, _EVERYTHING))
                yield from (found for found in self._every[files] if found.startswith(name[:-1]))
            else:
                yield name

    def _plain(self, value: Any) -> Any:
        """What stands for a value that JSON lacks; of a piece of the catalog, large and in every group as it is, the
        digest."""
        if isinstance(value, tuple | set | frozenset):
            return sorted(value) if isinstance(value, set | frozenset) else list(value)
        if not isinstance(value, Entry):
            raise TypeError(f"no part of a template's input: {type(value).__name__}")
        if id(value) not in self._entries:
            told = orjson.dumps(value.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)
            self._entries[id(value)] = (value, key_of(type(value).__name__, told))
        return self._entries[id(value)][1]


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the pack: a digest of its content, empty where there is none, and the files that it names."""

    digest: str
    references: frozenset[str]


class _References:
    """Which templates a text names, by its digest; to parse all of them anew takes longer than the rest."""

    def __init__(self, cache: Cache, code: str) -> None:
        self._cache = cache
        self._key = key_of(code, "references")
        kept = cache.get(self._key)
        self._known: dict[str, list[str]] = {} if kept is None else orjson.loads(kept)
        self._used: dict[str, list[str]] = {}

    def of(self, name: str, content: bytes, digest: str) -> list[str]:
        """See `referenced_templates`."""
        if digest not in self._used:
            known = self._known.get(digest)
            self._used[digest] = (
                sorted(referenced_templates(name, content.decode("utf-8", "replace"))) if known is None else known
            )
        return self._used[digest]

    def keep(self) -> None:
        """Put those that were used into the cache."""
        self._cache.put(self._key, orjson.dumps(self._used))


def every_file(files: PackFiles, folders: Sequence[str]) -> Iterator[str]:
    """The names of all files below some folders of a pack."""
    for root in files.roots:
        for folder in folders:
            yield from (path.relative_to(root).as_posix() for path in (root / folder).rglob("*") if path.is_file())

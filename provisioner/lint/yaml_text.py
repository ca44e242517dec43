"""YAML text as Kubernetes clients read it: documents with plain JSON values, and the line of every field on demand.

`kubectl` and Argo CD read YAML 1.1 with Go's reader, so `on` is a boolean and `0644` is 420. One walk makes the values
and notes what is wrong or read differently elsewhere. Lines are found by reading one document again when somebody
asks, since a tree of nodes takes far more memory than the text. Bounded in depth, size and aliases. Called by
`reading`; pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from provisioner.catalog.fields import FieldPath, shown
from provisioner.lint.document import Disagreement, Document, Oddity
from provisioner.lint.holes import Masked, mask
from provisioner.lint.scalars import Reading, read_plain
from provisioner.lint.values import Hole, TextHole
from provisioner.lint.yaml_nodes import MAYBE_NO_TEXT, UNTAGGED, NodeTree, compose, key_text

MAX_DEPTH = 100
MAX_NODES = 1_000_000
"""Greatest number of values in one document, aliases written out."""

MAX_DOCUMENTS = 50_000
MAX_NOTES = 100
"""Greatest number of oddities, and of doubtful scalars, that are told of one document."""

_STRUCTURE = ("\n", ",", ":", "[", "{", "- ")
_BLANK = frozenset(" \t\r\n") | {""}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
_TAG = "tag:yaml.org,2002:"


@dataclass(eq=False, slots=True, kw_only=True)
class YamlDocument:
    """A document as it was read. `first_line` (from 0) is where its text starts in the file."""

    file: str
    value: Any
    text: str
    first_line: int
    masked: Masked | None = None
    is_inline: bool = False
    """Whether the text stands on one line of the file, whatever lines it has itself."""
    oddities: tuple[Oddity, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()

    def line(self, path: FieldPath = ()) -> int:
        """The line (from 1) of a field, or of the nearest thing around it."""
        node = None if self.is_inline else _tree(self).find(path)[0]
        return self.place(node.start_mark.line if node else 0)

    def place(self, line: int) -> int:
        """The line in the file (from 1) of a line (from 0) of the document."""
        return self.first_line + 1 + (0 if self.is_inline else line)

    def within(self, path: FieldPath) -> tuple[Document, ...]:
        """The documents in a text that stands in this one, holes allowed."""
        node = _tree(self).find(path)[1]
        if not isinstance(node, ScalarNode):
            return ()
        is_block = node.style == "|" and not self.is_inline
        first_line = self.place(node.start_mark.line + 1 if is_block else node.start_mark.line) - 1
        masked = mask(self.masked.original(node.value) if self.masked else node.value)
        return tuple(
            parse_documents(masked.text, file=self.file, first_line=first_line, masked=masked, is_inline=not is_block)
        )


def parse_documents(
    text: str, *, file: str, first_line: int = 0, masked: Masked | None = None, is_inline: bool = False
) -> Iterator[YamlDocument]:
    """Every document of a text; empty ones are left out.

    A document that cannot be read has the value None and an oddity that says why; those around it are read all the
    same. `masked` tells what the marks in the text stand for.
    """
    for number, (chunk, line) in enumerate(_chunks(text)):
        document = YamlDocument(
            file=file,
            value=None,
            text=chunk,
            first_line=first_line + (0 if is_inline else line),
            masked=masked,
            is_inline=is_inline,
        )
        walk = _Walk(document)
        try:
            if number >= MAX_DOCUMENTS:
                raise _Refused(0, "yaml-too-large", f"reading file: more than {MAX_DOCUMENTS} documents", "split it")
            if is_too_large(chunk):
                raise _Refused(0, "yaml-too-large", f"reading document: more than {MAX_NODES} values", "split it")
            for node in compose(chunk):
                document.value = walk.value(node)
        except yaml.YAMLError as error:
            walk.oddities = [_syntax_oddity(error, document)]
        except _Refused as error:
            document.value = None
            walk.note(error.rule, error.line, error.message, fix=error.fix)
        document.oddities, document.disagreements = tuple(walk.oddities), tuple(walk.disagreements)
        if document.value is not None or document.oddities:
            yield document
        if number >= MAX_DOCUMENTS:
            return


def is_too_large(text: str) -> bool:
    """Whether a text may hold more values than a document should; told without reading it."""
    return len(text) > MAX_NODES and sum(map(text.count, _STRUCTURE)) > MAX_NODES


def _chunks(text: str) -> Iterator[tuple[str, int]]:
    """The text of every document and the line (from 0) it starts on."""
    if text.startswith("%") or "\n%" in text:  # directives stand before the document that they are about
        yield text, 0
        return
    start, line, found = 0, 0, text.find("\n---")
    while found >= 0:
        if text[found + 4 : found + 5] in _BLANK:
            yield text[start : found + 1], line
            line += text.count("\n", start, found + 1)
            start = found + 1
        found = text.find("\n---", found + 4)
    yield text[start:], line


class _Refused(Exception):
    """Ends the reading of a document."""

    def __init__(self, line: int, rule: str, message: str, fix: str) -> None:
        super().__init__(message)
        self.line, self.rule, self.message, self.fix = line, rule, message, fix


@dataclass(slots=True)
class _Walk:
    """From nodes to values. `path` leads to the container that is being walked."""

    document: YamlDocument
    oddities: list[Oddity] = field(default_factory=list)
    disagreements: list[Disagreement] = field(default_factory=list)
    path: list[str | int] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    done: dict[int, tuple[Any, int]] = field(default_factory=dict)
    count: int = 0

    def note(self, rule: str, line: int, message: str, *, fix: str, name: str | None = None) -> None:
        """Something is odd on a line (from 0) of the document, at an entry of the container or at itself."""
        if len(self.oddities) < MAX_NOTES:
            path = tuple(self.path) if name is None else (*self.path, name)
            place = self.document.place(line)
            self.oddities.append(
                Oddity(rule=rule, file=self.document.file, at_line=place, path=path, message=message, fix=fix)
            )

    def doubt(self, text: str, reading: Reading, name: str | int | None, *, is_key: bool = False) -> None:
        """A plain scalar may not be what somebody meant."""
        if len(self.disagreements) < MAX_NOTES:
            path = tuple(self.path) if name is None else (*self.path, name)
            self.disagreements.append(Disagreement(path=path, text=text, reading=reading, is_key=is_key))

    def value(self, node: Node) -> Any:
        """The value of a node that stands at the path."""
        if isinstance(node, ScalarNode):
            return self.scalar(node, None)
        line = node.start_mark.line
        if len(self.path) > MAX_DEPTH:
            raise _Refused(line, "yaml-too-deep", f"reading value: nested deeper than {MAX_DEPTH}", "nest less")
        if self.count > MAX_NODES:
            message = f"reading document: aliases written out make more than {MAX_NODES} values"
            raise _Refused(line, "yaml-too-large", message, "write out what is needed, without aliases of aliases")
        key = id(node)
        if key in self.done:  # an alias
            made, count = self.done[key]
            self.count += count
            return made
        if key in self.open:
            message = "reading value: an alias inside of what it stands for"
            raise _Refused(line, "yaml-too-deep", message, "remove the alias that leads back to itself")
        if node.tag != UNTAGGED and node.tag.removeprefix(_TAG) not in ("map", "seq"):
            self.unknown_tag(node)
        self.open.add(key)
        before = self.count
        self.count += len(node.value) + 1
        made = self.mapping(node) if isinstance(node, MappingNode) else self.items(node)
        self.open.discard(key)
        self.done[key] = made, self.count - before
        return made

    def items(self, node: Node) -> list[Any]:
        """The items of a list."""
        return [self.part(item, position) for position, item in enumerate(node.value)]

    def part(self, node: Node, name: str | int) -> Any:
        """The value of an entry or item of the container at the path."""
        if isinstance(node, ScalarNode):
            return self.scalar(node, name)
        self.path.append(name)
        made = self.value(node)
        self.path.pop()
        return made

    def mapping(self, node: Node) -> Any:
        """The entries of a mapping; those that it merges come first, so that its own win.

        A mapping that is no more than braces outside quotes is a hole: nobody knows what it should be.
        """
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        masked = self.document.masked
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self.odd_key(key_node)
                continue
            if key_node.value == "<<" and not key_node.style:
                merged |= {name: value for name, value in self.merged(value_node) if name not in merged}
                continue
            name = key_text(key_node, masked)
            if name != key_node.value and not (masked and masked.has_mark(key_node.value)):
                self.doubt(key_node.value, read_plain(key_node.value), name, is_key=True)
            if name in found and not (masked and masked.has_branches):
                message = f"reading key: it stands here already: {shown(name)}"
                fix = "keep one of them; readers take the last one, or refuse the file"
                self.note("yaml-duplicate-key", key_node.start_mark.line, message, fix=fix, name=name)
            found[name] = self.part(value_node, name)
        if not found and not merged and node.value:
            return Hole("{{ }}")
        return {**merged, **found} if merged else found

    def merged(self, node: Node) -> Iterator[tuple[str, Any]]:
        """What `<<` brings."""
        for part in node.value if isinstance(node, SequenceNode) else [node]:
            value = self.value(part)
            if isinstance(value, dict):
                yield from value.items()

    def odd_key(self, node: Node) -> None:
        """A mapping or a list as key: in most cases braces that nobody quoted."""
        if isinstance(node, MappingNode):
            message, fix = "reading value: `{{` outside quotes starts a mapping", "quote the text with the `{{ }}`"
            self.note("yaml-braces-outside-quotes", node.start_mark.line, message, fix=fix)
        else:
            message, fix = "reading key: it is a list", "use a text as key"
            self.note("yaml-malformed", node.start_mark.line, message, fix=fix)

    def scalar(self, node: ScalarNode, name: str | int | None) -> Any:
        """A scalar: what plain ones mean, and the texts of others."""
        text: str = node.value
        masked = self.document.masked
        if masked and masked.has_mark(text):
            return (TextHole if node.style else Hole)(masked.original(text))
        if node.tag != UNTAGGED:
            return self.tagged(node)
        if node.style or text[:1] not in MAYBE_NO_TEXT:
            return text
        reading = read_plain(text)
        if reading.doubt:
            self.doubt(text, reading, name)
        return reading.value

    def tagged(self, node: ScalarNode) -> Any:
        """A scalar with a tag of its own."""
        kind = node.tag.removeprefix(_TAG)
        if kind in ("int", "float", "bool", "null"):
            return read_plain(node.value).value
        if kind not in ("str", "binary", "timestamp"):
            self.unknown_tag(node)
        return node.value

    def unknown_tag(self, node: Node) -> None:
        """A tag that belongs to some other tool."""
        message = f"reading value: unknown tag {shown(node.tag)}"
        self.note("yaml-unknown-tag", node.start_mark.line, message, fix="remove the `!` and its name")


def _syntax_oddity(error: yaml.YAMLError, document: YamlDocument) -> Oddity:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    control = None if mark else _CONTROL.search(document.text)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read")
    rule = "yaml-too-deep" if "nesting depth" in problem else "yaml-malformed"
    fix = "nest less" if rule == "yaml-too-deep" else _fix(problem)
    line = document.place(mark.line if mark else document.text.count("\n", 0, control.start()) if control else 0)
    return Oddity(rule=rule, file=document.file, at_line=line, message=f"reading YAML: {problem}", fix=fix)


def _fix(problem: str) -> str:
    """What people most often did when the reader says this."""
    for words, fix in _FIXES:
        if words in problem:
            return fix
    return "correct the text around this line: indentation, a missing colon, an open quote or bracket"


_FIXES = (
    ("cannot start any token", "indent with spaces, and quote texts that start with `@`, `%`, or a tab"),
    ("mapping values are not allowed", "quote the text with the colon, or correct the indentation"),
    ("could not find expected ':'", "write `key: value`, or indent the text of a block below its key"),
    ("undefined alias", "define the anchor `&name` first, or quote a text that starts with `*`"),
    ("unexpected end of stream", "close the quote"),
    ("special characters are not allowed", "remove the control character"),
    ("control characters are not allowed", "remove the control character"),
    ("did not find expected key", "align the key with its neighbours; close quotes and brackets"),
)


@lru_cache(maxsize=64)  # findings come in bunches
def _tree(document: YamlDocument) -> NodeTree:
    return NodeTree(document.text, document.masked)

"""YAML text as plain values, each with the line it stands on.

A strict subset, so that no two readers can disagree: one document, no anchors, aliases, tags, directives or merge keys,
no duplicate keys, and nothing that YAML 1.1 and 1.2 read differently (`yes`, `0644`, `1:30`). Built from parser events
with a stack of its own, so depth and size are bounded. Called by the loader and by whoever reads a request file; pure
except `read_document`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from yaml import YAMLError
from yaml import events as yaml_events

from provisioner.catalog.fields import FieldPath, dotted
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MOST_ALIKE = 5
"""Findings of one reason that are told one by one."""

_OTHER_BOOLEANS = re.compile(r"^(y|n|yes|no|on|off)$", re.IGNORECASE)
_SEXAGESIMAL = re.compile(r"^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$")
_INTEGER = re.compile(r"^-?(0|[1-9][0-9]{0,17})$")
_NUMBER = re.compile(r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?$")
_ODD_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")
"""Ends of lines for some readers, text for others; and marks of byte order that do not stand at the beginning."""
_CONFLICT = re.compile(r"^<{7} ", re.MULTILINE)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML was built with it: the same events, a tenth of the time."""
_RESOLVER: Any = YAML(typ="safe", pure=True).resolver
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Document:
    """A file's value and the line (from 1) of every key and item in it."""

    file: str
    value: Any
    lines: Mapping[FieldPath, int]

    def line(self, path: FieldPath) -> int:
        """The line of the field, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_document(path: Path, *, root: Path) -> Document:
    """Read a YAML file that must lie inside `root`, symbolic links followed. Messages name it relative to `root`.

    Raises RejectedError with every finding: not a regular file, outside `root`, over 256 KiB, not UTF-8, or not the
    subset.
    """
    file = path.relative_to(root).as_posix()
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root.resolve()):
            raise _refused(file, "LinkLeadsOut", "reading file: it is a link that leads out of the folder")
        if not real.is_file():
            raise _refused(file, "NotAFile", "reading file: it is no regular file")
        with real.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the link goes in circles"
        raise _refused(file, "Unreadable", f"reading file: {reason.lower()}") from error
    if len(data) > MAX_BYTES:
        raise _refused(file, "FileTooLarge", f"reading file: more bytes than {MAX_BYTES}", line=1)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refused(file, "NotUtf8", f"reading file: not UTF-8 at byte {error.start}", line=line) from error
    return parse_document(text, file=file)


def parse_document(text: str, *, file: str) -> Document:
    """The value of one YAML document. Raises RejectedError with every finding; an empty document is None."""
    builder = _Builder(file)
    if odd := _ODD_BREAKS.search(text.removeprefix("\ufeff")):
        message = f"reading file: readers of YAML disagree about the character: U+{ord(odd[0]):04X}"
        raise _refused(file, "BadCharacter", message, line=text.count("\n", 0, odd.start()) + 1)
    if line := conflict_line(text):
        raise _refused(file, "MergeConflict", "reading file: an unresolved merge conflict stands in it", line=line)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except YAMLError as error:
        builder.findings.append(_syntax_finding(error, file))
    except _StopReading:
        pass
    if builder.findings:
        findings = tuple(_bounded(builder.findings))
        raise RejectedError(f"reading YAML file: {file}", reason="InvalidYaml", hint=None, findings=findings)
    return Document(file, builder.value, builder.lines)


def _bounded(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first findings of each reason, in their order, and for the rest of a reason how many there are."""
    seen: dict[str, list[Finding]] = {}
    for finding in findings:
        alike = seen.setdefault(finding.reason, [])
        alike.append(finding)
        if len(alike) <= MOST_ALIKE:
            yield finding
    for reason, alike in seen.items():
        if len(alike) > MOST_ALIKE:
            first, count = alike[MOST_ALIKE], len(alike) - MOST_ALIKE
            message = f"reading file: more findings like these from here on, not shown: `{count}`"
            yield Finding(reason=reason, message=message, hint=first.hint, file=first.file, line=first.line)


def conflict_line(text: str) -> int | None:
    """The line (from 1) on which git marks the first merge conflict that nobody resolved, None where there is none."""
    found = _CONFLICT.search(text) if "<<<<<<<" in text else None
    return None if found is None else text.count("\n", 0, found.start()) + 1


class _StopReading(Exception):
    """Ends the reading of a document that is refused already and whose rest cannot be placed any more."""


@dataclass(slots=True)
class _Frame:
    """An open mapping or list: its value, its path, and for a mapping the key that waits for a value."""

    value: dict[str, Any] | list[Any]
    path: FieldPath
    key: str | None = None


@dataclass(slots=True)
class _Builder:
    """Takes parser events one by one and keeps the value, the lines and what is wrong."""

    file: str
    value: Any = None
    lines: dict[FieldPath, int] = field(default_factory=lambda: {(): 1})
    findings: list[Finding] = field(default_factory=list)
    stack: list[_Frame] = field(default_factory=list)
    documents: int = 0

    def take(self, event: Any) -> None:
        """Take the next event."""
        if isinstance(event, yaml_events.DocumentStartEvent):
            self._start_document(event)
        elif isinstance(event, yaml_events.AliasEvent):
            self._refuse(event, "AliasUsed", "reading value: aliases are not read here", "write the value out")
            self._place(None, event)
        elif isinstance(event, yaml_events.ScalarEvent):
            self._refuse_marks(event)
            self._take_scalar(event)
        elif isinstance(event, yaml_events.MappingStartEvent | yaml_events.SequenceStartEvent):
            self._refuse_marks(event)
            self._open(event)
        elif isinstance(event, yaml_events.MappingEndEvent | yaml_events.SequenceEndEvent):
            self.stack.pop()

    def _start_document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            self._refuse(event, "ManyDocuments", "reading file: more than one document", "keep one document in a file")
            raise _StopReading
        if event.version or event.tags:
            self._refuse(event, "DirectiveUsed", "reading file: directives are not read here", "remove the % lines")
            raise _StopReading

    def _refuse_marks(self, event: Any) -> None:
        if event.anchor:
            message = f"reading value: anchors are not read here: `{event.anchor}`"[:200]
            self._refuse(event, "AnchorUsed", message, "remove the `&` and its name")
        if event.tag:
            message = f"reading value: tags are not read here: `{event.tag}`"[:200]
            self._refuse(event, "TagUsed", message, "remove the `!` and its name")

    def _take_scalar(self, event: Any) -> None:
        frame = self.stack[-1] if self.stack else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            self._take_key(event, frame)
        else:
            self._place(self._scalar(event), event)

    def _take_key(self, event: Any, frame: _Frame) -> None:
        key = self._scalar(event)
        path = (*frame.path, str(key))
        if not isinstance(key, str):
            self._refuse(event, "KeyIsNoText", f"reading key: not a text: `{event.value}`", "quote the key", path)
            key = str(key)
        if key in frame.value:
            first = self.lines.get(path, 1)
            message = f"reading key: it stands on line {first} already: `{key}`"
            self._refuse(event, "DuplicateKey", message, "keep one of them", path)
        frame.key = key
        self.lines.setdefault(path, event.start_mark.line + 1)

    def _open(self, event: Any) -> None:
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml_events.MappingStartEvent) else []
        frame = self.stack[-1] if self.stack else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            self._refuse(event, "KeyIsNoText", "reading key: it is a mapping or a list", "use a text as key")
            raise _StopReading
        if len(self.stack) >= MAX_DEPTH:
            self._refuse(event, "TooDeep", f"reading value: nested deeper than {MAX_DEPTH}", "nest less")
            raise _StopReading
        path = self._place(value, event)
        self.stack.append(_Frame(value, path))

    def _place(self, value: Any, event: Any) -> FieldPath:
        if not self.stack:
            self.value = value
            return ()
        frame = self.stack[-1]
        path: FieldPath
        if isinstance(frame.value, list):
            path = (*frame.path, len(frame.value))
            frame.value.append(value)
            self.lines[path] = event.start_mark.line + 1
            return path
        if frame.key is None:  # an alias as key, refused already
            raise _StopReading
        path = (*frame.path, frame.key)
        frame.value[frame.key] = value
        frame.key = None
        return path

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if not text.isprintable() and re.search(r"[\ud800-\udfff\x00]", text):
            self._refuse(event, "BadCharacter", "reading text: it holds a NUL or half a surrogate pair", "remove it")
            return ""
        if event.style:
            return text
        kind = str(_RESOLVER.resolve(ScalarNode, text, (True, False))).removeprefix(_TAG)
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind == "int" and _INTEGER.match(text):
            return int(text)
        if kind == "float" and _NUMBER.match(text) and math.isfinite(float(text)):
            return float(text)
        if kind == "str" and not _OTHER_BOOLEANS.match(text) and not _SEXAGESIMAL.match(text):
            return text
        self._refuse(
            event,
            "AmbiguousValue",
            f"reading value: readers of YAML disagree about it: `{text[:80]}`",
            "quote it, or write `true`, `false` or a plain decimal number",
        )
        return text

    def _refuse(self, event: Any, reason: str, message: str, hint: str, path: FieldPath | None = None) -> None:
        self.findings.append(
            Finding(
                reason=reason,
                message=message,
                field=dotted(self._here() if path is None else path),
                hint=hint,
                file=self.file,
                line=event.start_mark.line + 1,
            )
        )

    def _here(self) -> FieldPath:
        if not self.stack:
            return ()
        frame = self.stack[-1]
        if isinstance(frame.value, list):
            return (*frame.path, len(frame.value))
        return frame.path if frame.key is None else (*frame.path, frame.key)


def _syntax_finding(error: YAMLError, file: str) -> Finding:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    return Finding(
        reason="NotYaml",
        message=f"reading YAML: {problem}",
        hint="look at quotes, brackets and indentation around this line",
        file=file,
        line=mark.line + 1 if mark is not None else 1,
    )


def _refused(file: str, reason: str, message: str, *, line: int | None = None) -> RejectedError:
    finding = Finding(reason=reason, message=message, file=file, line=line)
    return RejectedError(f"reading file: {file}", reason=reason, findings=(finding,))

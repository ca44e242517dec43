"""Folders of Jinja templates for YAML with a file of their parameters: what their holes are, and what they make.

The parameters are a list of declarations under `parameters`, or plain values. A text that is declared and has no
default is filled with a stand-in, which rules see in names, labels and selectors only. A folder is rendered as a whole
or not at all. Packs of a catalog have a compiler of their own, see `packs`. Called by reading; pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from jinja2 import TemplateSyntaxError, nodes, pass_context
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from provisioner.lint.document import Document
from provisioner.lint.jinja_text import render
from provisioner.lint.rendition import RenderedText
from provisioner.lint.values import Hole, TextHole, items, look, text
from provisioner.lint.yaml_text import parse_documents

PARAMETER_FILES = frozenset(
    f"{name}.{suffix}"
    for name in ("params", "parameters", "values", "vars", "variables", "defaults")
    for suffix in ("yaml", "yml")
)
TEMPLATE_SUFFIXES = (".yaml.j2", ".yml.j2")
_ALL = (".j2", ".jinja", ".jinja2")
_STATEMENT = re.compile(r"^[ \t]*\{%-?\s*(if|for|set|include|macro|block|extends|import|from|raw)\b", re.MULTILINE)
_PLAIN_HOLE = re.compile(r"\{\{-?[ \t]*[A-Za-z_]\w*[ \t]*(\|[^{}]*)?\}\}")
_FILLED_LATER = ("ApplicationSet", "loft.sh/")
_DECLARATION = re.compile(r"^parameters:[ \t]*(#.*)?\n[ \t]*- ", re.MULTILINE)
_KEPT_UNDER = frozenset({"labels", "matchLabels", "selector", "podSelector"})
_GLOBALS = frozenset({"range", "dict", "lipsum", "cycler", "joiner", "namespace", "loop", "self", "caller", "varargs"})
_STAND_IN = "some-{}"
_NUMBERS = {"integer": 1, "int": 1, "number": 1, "float": 1, "boolean": False, "bool": False}


def declaring_folders(texts: Mapping[str, str]) -> frozenset[str]:
    """The folders with a file that declares parameters."""
    return frozenset(
        str(path.parent)
        for name, content in texts.items()
        if (path := PurePosixPath(name)).name in PARAMETER_FILES and _DECLARATION.search(content)
    )


def is_jinja(name: str, content: str, declaring: frozenset[str]) -> bool:
    """Whether a text is a template whatever it is named: statements of Jinja keep it from being YAML, or it has plain
    holes and its folder declares parameters."""
    if "{%" in content and _STATEMENT.search(content):
        return any(odd.rule == "yaml-malformed" for one in parse_documents(content, file=name) for odd in one.oddities)
    return str(PurePosixPath(name).parent) in declaring and has_plain_holes(content)


def has_plain_holes(content: str) -> bool:
    """Whether names in braces stand in a text, which somebody fills in before it is applied; Argo CD and the Platform
    fill in their own."""
    is_filled_later = any(word in content for word in _FILLED_LATER)
    return "{{" in content and not is_filled_later and _PLAIN_HOLE.search(content) is not None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a folder: its type, empty where nobody says it, and what fills it."""

    name: str
    path: tuple[str | int, ...]
    type: str
    value: Any
    is_stand_in: bool


@dataclass(frozen=True)
class JinjaFolder:
    """Templates and the file of their parameters; `declares` tells that it lists all there are."""

    folder: str
    head: Document
    templates: Mapping[str, str]

    @cached_property
    def declares(self) -> bool:
        """Whether the parameters are declared one by one."""
        return isinstance(look(self.head.value, "parameters"), list)

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters by name."""
        if not self.declares:
            plain = self.head.value.items()
            return {name: Parameter(name, (name,), "", value, False) for name, value in plain}
        found = {}
        for path, item in items(self.head.value, "parameters"):
            if name := text(item, "name"):
                found[name] = _declared(name, path, item)
        return found

    @cached_property
    def trees(self) -> Mapping[str, nodes.Template]:
        """The syntax trees of all templates that can be read."""
        found = {}
        for name, content in self.templates.items():
            try:
                found[name] = _PARSER.parse(content)
            except (TemplateSyntaxError, RecursionError):
                continue
        return found

    def reads(self, tree: nodes.Template) -> frozenset[str]:
        """The names that a template reads and does not set."""
        try:
            return frozenset(find_undeclared_variables(tree)) - _GLOBALS
        except (TemplateSyntaxError, RecursionError):  # a filter that Jinja does not know
            loaded = {node.name for node in tree.find_all(nodes.Name) if node.ctx == "load"}
            return (
                frozenset(loaded - {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}) - _GLOBALS
            )

    def find(self, name: str) -> tuple[str, str] | None:
        """The template of a name: as a file, beside the parameters, or by the end of its path."""
        for file in (name, posixpath.normpath(posixpath.join(self.folder, name))):
            if file in self.templates:
                return file, self.templates[file]
        return next(((file, one) for file, one in self.templates.items() if file.endswith(f"/{name}")), None)

    def rendered(self) -> tuple[RenderedText, ...]:
        """What the templates make with the parameters. Raises NotRendered for any of them."""
        values = {name: one.value for name, one in self.parameters.items()}
        used = {file for tree in self.trees.values() for file in self._used(tree)}
        wanted = [name for name in self.templates if name.endswith(TEMPLATE_SUFFIXES) or not name.endswith(_ALL)]
        return tuple(render(name, self.find, values) for name in wanted if name not in used)

    def _used(self, tree: nodes.Template) -> Iterator[str]:
        for _, name in included(tree):
            if found := self.find(name):
                yield found[0]

    def without_stand_ins(self, value: Any) -> Any:
        """A value with holes for stand-ins, but in names, labels and selectors."""
        tokens = tuple(str(one.value) for one in self.parameters.values() if one.is_stand_in)
        return _masked(value, tokens, "", is_kept=False)


def _declared(name: str, path: tuple[str | int, ...], item: Any) -> Parameter:
    kind = text(item, "type") or ""
    for key in ("default", "example"):
        if isinstance(item, Mapping) and item.get(key) is not None:
            return Parameter(name, path, kind, item[key], False)
    for key in ("enum", "options"):
        if allowed := look(item, key):
            return Parameter(name, path, kind, allowed[0] if isinstance(allowed, list) else allowed, False)
    if kind in _NUMBERS:
        return Parameter(name, path, kind, look(item, "minimum") or _NUMBERS[kind], False)
    return Parameter(name, path, kind, _STAND_IN.format(name.lower().replace("_", "-")), True)


def _masked(value: Any, tokens: tuple[str, ...], key: str, *, is_kept: bool) -> Any:
    if isinstance(value, dict):
        return {
            name: _masked(item, tokens, name, is_kept=is_kept or name in _KEPT_UNDER) for name, item in value.items()
        }
    if isinstance(value, list):
        return [_masked(item, tokens, key, is_kept=is_kept) for item in value]
    has_one = isinstance(value, str) and not isinstance(value, Hole) and any(token in value for token in tokens)
    return TextHole(value) if has_one and not is_kept and key != "name" else value


def included(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    """The templates that one surely needs by name, and the lines."""
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        target = getattr(node, "template", None)
        is_needed = not getattr(node, "ignore_missing", False)
        if isinstance(target, nodes.Const) and isinstance(target.value, str) and is_needed:
            yield node.lineno, target.value


def jinja_folders(
    texts: Mapping[str, str], documents: Mapping[str, Sequence[Document]], packs: Iterable[str]
) -> Iterator[JinjaFolder]:
    """Every folder with templates and a file of parameters that no pack holds; `packs` are their roots."""
    marked = {name: text for name, text in texts.items() if name.endswith(_ALL) or "{{" in text or "{%" in text}
    ours = tuple(f"{root}{part}/" for root in packs for part in ("templates", "applications"))
    folders = {name.rpartition("/")[0] or "." for name in marked}
    for name, read in documents.items():
        path = PurePosixPath(name)
        folder = str(path.parent)
        if path.name not in PARAMETER_FILES or folder not in folders or name.startswith(ours):
            continue
        if not read or not isinstance(read[0].value, dict):
            continue
        below = f"{folder}/" if folder != "." else ""
        declaring = declaring_folders({name: texts[name]})
        templates = {
            other: content
            for other, content in marked.items()
            if other.startswith(below) and (other.endswith(_ALL) or is_jinja(other, content, declaring))
        }
        if any(str(PurePosixPath(other).parent) == folder for other in templates):
            yield JinjaFolder(folder, read[0], templates)


class _Parser(SandboxedEnvironment):
    """Reads templates and computes nothing in them: looking for names would fold constants, however large."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])
        self.filters = dict.fromkeys(self.filters, _not_run)


@pass_context
def _not_run(context: Context, *_: Any) -> None:
    """Stands for every filter; one that wants the context is never run while a template is read."""


_PARSER = _Parser()

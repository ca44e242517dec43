"""Jinja templates as texts, whoever renders them: syntax, plain scalars that mean two things, and circles. Pure."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from jinja2 import Environment, TemplateSyntaxError, nodes

from provisioner.lint.document import Oddity
from provisioner.lint.pack_compiling import CompiledPack
from provisioner.lint.template_texts import doubtful_lines

_TEMPLATE = ".j2"
_YAML_TEMPLATES = (".yaml.j2", ".yml.j2")
_UNKNOWN_TAG = "unknown tag"


def template_oddities(texts: Mapping[str, str], packs: Sequence[CompiledPack]) -> Iterator[Oddity]:
    """Everything that is wrong with the Jinja templates among some files, and that was refused of the packs."""
    refused = [oddity for pack in packs for oddity in pack.oddities]
    yield from refused
    known = {(oddity.file, oddity.at_line) for oddity in refused}
    told = (*_syntax_errors(texts), *_doubtful(texts))
    yield from (oddity for oddity in told if (oddity.file, oddity.at_line) not in known)
    if not packs:  # else compiling tells
        yield from _cycles({name: text for name, text in texts.items() if name.endswith(_TEMPLATE)})


def _syntax_errors(texts: Mapping[str, str]) -> Iterator[Oddity]:
    """Templates that are no Jinja; statements that an extension may know are left alone."""
    environment = Environment()  # noqa: S701 - only parses
    for name, text in texts.items():
        if name.endswith(_TEMPLATE):
            try:
                environment.parse(text)
            except TemplateSyntaxError as error:
                message = f"reading template: {error.message}"
                if _UNKNOWN_TAG not in message:
                    fix = "correct the syntax"
                    yield Oddity(rule="template-syntax", file=name, at_line=error.lineno, message=message, fix=fix)


def _doubtful(texts: Mapping[str, str]) -> Iterator[Oddity]:
    """Plain scalars in Jinja for YAML that readers understand differently."""
    for name, text in texts.items():
        for line, written, reading in doubtful_lines(text) if name.endswith(_YAML_TEMPLATES) else ():
            message = f"reading template: `{written}` is {json.dumps(reading.value)} to some readers"
            fix = f'write `"{written}"` for the text, else `{json.dumps(reading.value)}`'
            yield Oddity(rule="template-scalar-ambiguous", file=name, at_line=line, message=message, fix=fix)


def _cycles(templates: Mapping[str, str]) -> Iterator[Oddity]:
    """Templates that surely include, import or extend themselves, through others too."""
    graph = {name: _included(name, text, templates) for name, text in templates.items() if "{%" in text}
    done: set[str] = set()
    for start in graph:
        way = [start]
        waiting = {start: iter(graph[start])}
        while way:
            line, other = next(waiting[way[-1]], (0, ""))
            if not other:
                done.add(way.pop())
            elif other in way:
                message = f"including template: it leads back to itself: `{other}`"
                fix = "move what both need into a template of its own"
                yield Oddity(rule="template-includes-itself", file=way[-1], at_line=line, message=message, fix=fix)
            elif other in graph and other not in done:
                way.append(other)
                waiting[other] = iter(graph[other])


def _included(name: str, text: str, templates: Mapping[str, str]) -> list[tuple[int, str]]:
    """What a template always includes, imports or extends, with the line; what an `if` decides may end."""
    try:
        statements = list(_always(Environment().parse(text)))  # noqa: S701 - only parses
    except (TemplateSyntaxError, RecursionError):
        return []
    found = []
    for node in statements:
        target = getattr(node, "template", None)
        if isinstance(target, nodes.Const) and isinstance(target.value, str):
            found += [(node.lineno, other) for other in _named(name, target.value, templates)]
    return found


def _always(node: nodes.Node) -> Iterator[nodes.Node]:
    """The statements in a template that name another one and stand under no condition."""
    for inner in node.iter_child_nodes():
        if isinstance(inner, nodes.Include | nodes.Import | nodes.FromImport | nodes.Extends):
            yield inner
        if not isinstance(inner, nodes.If | nodes.For | nodes.Macro | nodes.CondExpr):
            yield from _always(inner)


def _named(name: str, target: str, templates: Mapping[str, str]) -> list[str]:
    """The file that a template means by a name: beside it, or from a folder around it."""
    folders = (str(folder) for folder in PurePosixPath(name).parents)
    candidates = (posixpath.normpath(posixpath.join(folder, target)) for folder in folders)
    return next(([found] for found in candidates if found in templates), [])

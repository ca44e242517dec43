"""Folders in the form of a catalog: tiers, runtimes and models of a provider's own, and the templates of their tiers.

They are loaded as `--catalog` would load them and compiled as publishing would; what is refused there becomes an oddity
with its file and line. Reading calls it. It reads the folder through the catalog's loader and does nothing else.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from jinja2 import Environment, TemplateSyntaxError, nodes

from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.pack import example_site
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding
from provisioner.lint.document import Oddity
from provisioner.lint.template_texts import doubtful_lines
from provisioner.rendering.pack import compile_pack

_HEADS = re.compile(r"(?P<root>.*/)?(templates/(?P<tier>[^/_.][^/]*)/tier|applications/runtimes/[^/]+/runtime)\.yaml")
_TEMPLATE = ".j2"
_YAML_TEMPLATES = (".yaml.j2", ".yml.j2")
_UNKNOWN_TAG = "unknown tag"
_NO_ATTRIBUTE = re.compile(r"'(?:\w+\.)*(\w+) object' has no attribute '(\w+)'")
"""How Jinja says that nobody defines a name: in Python's words."""


def pack_oddities(names: frozenset[str], texts: Mapping[str, str]) -> Iterator[Oddity]:
    """Everything that is refused of the catalog folders among some files."""
    tiers = pack_roots(names)
    refused = [oddity for root, own in tiers.items() for oddity in _refusals(root, own)]
    yield from refused
    known = {(oddity.file, oddity.at_line) for oddity in refused}
    told = (*_syntax_errors(texts), *_doubtful(texts))
    yield from (oddity for oddity in told if (oddity.file, oddity.at_line) not in known)
    if not tiers:  # else compiling tells
        yield from _cycles({name: text for name, text in texts.items() if name.endswith(_TEMPLATE)})


def pack_roots(names: Iterable[str]) -> dict[str, list[str]]:
    """The tiers of every folder in the form of a catalog, by its path with a slash behind it."""
    tiers: dict[str, list[str]] = {}
    for name in sorted(names):
        if found := _HEADS.fullmatch(name):
            tiers.setdefault(found["root"] or "", []).extend([found["tier"]] if found["tier"] else [])
    return tiers


def _refusals(root: str, tiers: list[str]) -> Iterator[Oddity]:
    folder = Path(root or ".")
    try:
        catalog = load_catalog(overlay=folder)
    except RejectedError as error:
        yield from (_oddity(root, "catalog-refused", finding) for finding in _findings(error))
        return
    pack = compile_pack(catalog, load_site(example_site()), overlay=folder)
    for tier in tiers:
        try:
            pack.tier_objects(tier)
        except RejectedError as error:
            yield from (_oddity(root, "template-refused", finding) for finding in _findings(error))


def _findings(error: RejectedError) -> tuple[Finding, ...]:
    return error.findings or (Finding(reason=error.reason, message=error.message, hint=error.hint),)


def _oddity(root: str, rule: str, finding: Finding) -> Oddity:
    file = posixpath.join(root, finding.file) if finding.file else root or "."
    path = (finding.field,) if finding.field else ()
    message = _NO_ATTRIBUTE.sub(r"reading template: \1 has no `\2`", finding.message)
    fix = finding.hint or "correct it"
    return Oddity(rule=rule, file=file, at_line=finding.line or 1, path=path, message=message, fix=fix)


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

"""What is wrong with the holes of a folder of Jinja templates: names, filters, includes, quotes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import nodes
from jinja2.filters import FILTERS

from provisioner.domain.finding import nearest_name
from provisioner.lint.document import Oddity
from provisioner.lint.jinja_folders import JinjaFolder, included

_ANSIBLE = """
b64decode b64encode basename bool checksum combinations combine comment community dict2items difference dirname
expanduser extract fileglob flatten from_json from_yaml from_yaml_all hash human_readable intersect ipaddr items2dict
json_query mandatory md5 password_hash path_join permutations quote random realpath regex_escape regex_findall
regex_replace regex_search relpath sha1 shuffle split splitext strftime subelements symmetric_difference ternary
to_datetime to_json to_nice_json to_nice_yaml to_uuid to_yaml toyaml type_debug union urldecode urlsplit vault zip
zip_longest
"""
_KNOWN = frozenset({*FILTERS, *_ANSIBLE.split()})
_UNQUOTED = re.compile(r"[ \t]*(?:- )*(?:[\w./-]+:[ \t]+)?\{\{-?[ \t]*(\w+)[ \t]*-?\}\}[ \t]*(?:#.*)?")
_OF_VARIABLE = re.compile(r"[ \t]*(?:- )*value:[ \t]")
"""The value of an environment variable: the API server takes nothing but a text."""
_TEXTS = frozenset({"string", "str", "text"})


def hole_oddities(folder: JinjaFolder) -> Iterator[Oddity]:
    """Everything that is wrong with the holes of a folder's templates."""
    for file, tree in folder.trees.items():
        yield from _undeclared(folder, file, tree)
        yield from _filters(file, tree)
        yield from _missing(folder, file, tree)
        yield from _unquoted(folder, file)
    yield from _unused(folder)


def _undeclared(folder: JinjaFolder, file: str, tree: nodes.Template) -> Iterator[Oddity]:
    """Names that no parameter has. Where the parameters are plain values, others may come: only slips are told."""
    unknown = folder.reads(tree) - folder.parameters.keys() - _guarded(folder)
    for name in sorted(unknown):
        near = nearest_name(name, sorted(folder.parameters))
        if folder.declares or near:
            line = next((node.lineno for node in tree.find_all(nodes.Name) if node.name == name), 1)
            message = f"filling hole: no parameter of that name: `{name}`"
            fix = f"did you mean {near}?" if near else f"declare it in {folder.head.file}"
            yield Oddity(rule="template-hole-undeclared", file=file, at_line=line, message=message, fix=fix)


def _guarded(folder: JinjaFolder) -> frozenset[str]:
    """Names whose absence is provided for, by `is defined` or `default`."""
    found = set()
    for tree in folder.trees.values():
        for node in tree.find_all((nodes.Test, nodes.Filter)):
            is_guard = isinstance(node, nodes.Test | nodes.Filter) and node.name in (
                "defined",
                "undefined",
                "default",
                "d",
            )
            found |= {name.name for name in node.find_all(nodes.Name)} if is_guard else set()
    return frozenset(found)


def _filters(file: str, tree: nodes.Template) -> Iterator[Oddity]:
    """Filters that nobody knows and that look like one that is known; others may be the renderer's own."""
    for node in tree.find_all(nodes.Filter):
        near = None if node.name in _KNOWN else nearest_name(node.name, sorted(_KNOWN))
        if near:
            message, fix = f"reading template: unknown filter: `{node.name}`", f"did you mean {near}?"
            yield Oddity(rule="template-filter-unknown", file=file, at_line=node.lineno, message=message, fix=fix)


def _missing(folder: JinjaFolder, file: str, tree: nodes.Template) -> Iterator[Oddity]:
    for line, name in included(tree):
        if folder.find(name) is None:
            message = f"including template: there is none of that name: `{name}`"
            fix = "correct the name, add the file, or write `ignore missing`"
            yield Oddity(rule="template-include-missing", file=file, at_line=line, message=message, fix=fix)


def _unquoted(folder: JinjaFolder, file: str) -> Iterator[Oddity]:
    for number, line in enumerate(folder.templates[file].split("\n"), start=1):
        found = _UNQUOTED.fullmatch(line) if "{{" in line and ":" in line else None
        parameter = folder.parameters.get(found[1]) if found else None
        is_text = parameter is not None and not parameter.type and isinstance(parameter.value, str)
        if parameter and (parameter.type in _TEXTS or (is_text and _OF_VARIABLE.match(line))):
            message = f"filling hole: a text stands outside quotes: `{parameter.name}`"
            fix = f'write "{{{{ {parameter.name} }}}}": `on`, `1e3` and `0123` stay texts then'
            yield Oddity(rule="template-hole-unquoted", file=file, at_line=number, message=message, fix=fix)


def _unused(folder: JinjaFolder) -> Iterator[Oddity]:
    """Parameters that no template reads; told where they are declared and every template can be read."""
    if not folder.declares or len(folder.trees) < len(folder.templates):
        return
    read = frozenset[str]().union(*(folder.reads(tree) for tree in folder.trees.values())) | _guarded(folder)
    for name, parameter in folder.parameters.items():
        if name not in read:
            line = folder.head.line(parameter.path)
            message, fix = f"reading parameters: no template reads `{name}`", "remove it, or read it in a template"
            yield Oddity(
                rule="template-parameter-unread",
                file=folder.head.file,
                at_line=line,
                path=parameter.path,
                message=message,
                fix=fix,
            )

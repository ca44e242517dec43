"""Helm charts: actions that fail or print something else than is meant, whatever the values."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.charts import ChartTemplate
from provisioner.lint.go_templates.names import KNOWN
from provisioner.lint.go_templates.scopes import lost_roots
from provisioner.lint.go_templates.syntax import Parsed
from provisioner.lint.helm import parsed
from provisioner.lint.rule import Hit, Spot, rule
from provisioner.lint.world import World

_METADATA = re.compile(r"^metadata:[ \t]*\n((?:[ \t]+.*\n|[ \t]*\n|\{\{.*\n)*)", re.MULTILINE)
_NAMESPACE = re.compile(r"^(  namespace:[ \t]*)(.*?)[ \t]*(?:#.*)?$", re.MULTILINE)
_LITERAL = re.compile(r"[\"']?([a-z0-9-]+)[\"']?")


def _parsed(world: World) -> Iterator[tuple[ChartTemplate, Parsed]]:
    for chart in world.charts:
        for template in chart.templates:
            if isinstance(found := parsed(template.text), Parsed):
                yield template, found


@rule("chart-function-unknown", Severity.ERROR)
def function_unknown(world: World) -> Iterator[Hit]:
    """A template of a chart calls a function that Helm does not have.

    Helm refuses the whole chart when it reads it: `function "…" not defined`. Known are Go's own functions, Sprig's and
    Helm's.
    """
    for template, found in _parsed(world):
        for line, name in found.functions:
            if name not in KNOWN:
                near = nearest_name(name, sorted(KNOWN))
                fix = f"did you mean {near}?" if near else "use one of Helm's functions, or include a named template"
                message = f"reading template: unknown function: `{name}`"
                yield Hit(at=Spot(template.file, line), message=message, fix=fix)


@rule("chart-dot-lost", Severity.ERROR)
def dot_lost(world: World) -> Iterator[Hit]:
    """A template of a chart reads `.Values` or another top-level name inside of `range` or `with`, by the dot.

    There the dot is the item, not the chart: Helm stops with `can't evaluate field Values` or `nil pointer evaluating`.
    The root stays reachable as `$`.
    """
    for template, found in _parsed(world):
        for line, name, opener in lost_roots(found):
            message = f"reading template: inside of `{opener}` the dot is another value: `.{name}`"
            yield Hit(at=Spot(template.file, line), message=message, fix=f"write `$.{name}`")


@rule("chart-namespace-fixed", Severity.WARNING)
def namespace_fixed(world: World) -> Iterator[Hit]:
    """A template of a chart writes a namespace down, where others of the chart follow the release.

    The object goes elsewhere than the rest: selectors, references and `helm install -n` do not reach it. Namespaces
    that belong to Kubernetes itself (`kube-…`) are left alone.
    """
    for chart in world.charts:
        places = [(one, *place) for one in chart.templates for place in _namespaces(one.text)]
        follows = any(not is_fixed for _, _, _, is_fixed in places)
        for template, line, name, is_fixed in places if follows else ():
            if is_fixed and not name.startswith("kube-"):
                message = f"reading template: the namespace is fixed: `{name}`"
                fix = "remove it, or write {{ .Release.Namespace }}"
                yield Hit(at=Spot(template.file, line), message=message, fix=fix)


def _namespaces(text: str) -> Iterator[tuple[int, str, bool]]:
    """Of the metadata of every object in a template: the line, the namespace, and whether it is written down."""
    for found in _METADATA.finditer(text):
        namespace = _NAMESPACE.search(found[1])
        literal = _LITERAL.fullmatch(namespace[2]) if namespace else None
        start = found.start(1) + (namespace.start() if namespace else 0)
        yield text.count("\n", 0, start) + 1, literal[1] if literal else "", literal is not None

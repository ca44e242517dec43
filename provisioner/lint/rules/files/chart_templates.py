"""Helm charts: templates that are included and nowhere defined, values that are printed or typed wrongly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import dotted
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.charts import Chart
from provisioner.lint.rule import Hit, Spot, rule
from provisioner.lint.values import literal, look
from provisioner.lint.world import World

_INCLUDED = re.compile(r"\b(?:include|template)\s+\"([^\"]+)\"")
_DEFINED = re.compile(r"\b(?:define|block)\s+\"([^\"]+)\"")
_INLINE = re.compile(
    r"^[ \t]*(?:- )?[\w./-]+:[ \t]*\{\{-?[ \t]*toYaml[ \t]+\.Values\.([\w.]+)[ \t]*-?\}\}[ \t]*$", re.MULTILINE
)
_SEMANTIC = re.compile(r"v?\d+(\.\d+)?(\.\d+)?(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
_MOST = 20


@rule("chart-template-undefined", Severity.ERROR)
def template_undefined(world: World) -> Iterator[Hit]:
    """A template of a chart includes another one that the chart does not define.

    Helm stops: `no template … associated with template "gotpl"`. In charts with dependencies, which may define others,
    only names that start as the chart's own do are looked at.
    """
    for chart in world.charts:
        own = _own_prefixes(chart) if _has_others(chart, world.files) else ("",)
        codes = [(one.file, line, code) for one in chart.templates for line, code in one.actions()]
        defined = {name for _, _, code in codes for name in _DEFINED.findall(code)}
        for file, line, code in codes:
            for name in _INCLUDED.findall(code):
                if name not in defined and name.startswith(own):
                    near = nearest_name(name, sorted(defined))
                    fix = f"did you mean {near}?" if near else "define it in templates/_helpers.tpl"
                    message = f"reading template: nothing defines the template that it includes: `{name}`"
                    yield Hit(at=Spot(file, line), message=message, fix=fix)


def _has_others(chart: Chart, files: frozenset[str]) -> bool:
    """Whether other charts come with a chart, and with them their templates."""
    within = f"{chart.folder}/charts/" if chart.folder != "." else "charts/"
    old = f"{chart.folder}/requirements.yaml" if chart.folder != "." else "requirements.yaml"
    has_listed = bool(look(chart.head.value, "dependencies")) or old in files
    return has_listed or any(one.startswith(within) for one in files)


def _own_prefixes(chart: Chart) -> tuple[str, ...]:
    """What the names of a chart's own templates start with, by custom: its name."""
    return (f"{name}.",) if (name := literal(chart.head.value, "name")) else ()


@rule("chart-version-malformed", Severity.ERROR)
def version_malformed(world: World) -> Iterator[Hit]:
    """The version of a chart is no semantic version.

    Helm refuses the chart: `chart.metadata.version … is invalid`.
    """
    for chart in world.charts:
        version = literal(chart.head.value, "version")
        if version and not _SEMANTIC.fullmatch(version):
            message = f"reading chart: no semantic version: `{version}`"
            at = Spot(chart.head.file, chart.head.line(("version",)))
            yield Hit(at=at, path=("version",), message=message, fix="write such as 1.0.0")


@rule("chart-mapping-in-line", Severity.ERROR)
def mapping_in_line(world: World) -> Iterator[Hit]:
    """A template prints a mapping or a list as YAML behind a key, on the key's own line.

    What comes out is `labels: a: b`, which is no YAML; Helm stops with `mapping values are not allowed in this
    context`. `toYaml` goes onto lines of its own with `nindent`, or the value is printed by `toJson`.
    """
    for chart in world.charts:
        for template in chart.templates:
            for found in _INLINE.finditer(template.text):
                value = _value(chart, tuple(found[1].split(".")))
                if isinstance(value, Mapping | list) and value:
                    line = template.text.count("\n", 0, found.start()) + 1
                    message = f"filling hole: a whole mapping or list stands behind the key: `.Values.{found[1]}`"
                    fix = f"write {{{{- toYaml .Values.{found[1]} | nindent 4 }}}} with the indent of the lines below"
                    yield Hit(at=Spot(template.file, line), message=message, fix=fix)


def _value(chart: Chart, path: tuple[str, ...]) -> Any:
    return look(chart.values[0].value, *path) if chart.values else None


@rule("chart-values-against-schema", Severity.ERROR)
def values_against_schema(world: World) -> Iterator[Hit]:
    """The values of a chart do not fit the schema that the chart itself brings.

    Helm checks `values.schema.json` at every install, upgrade, lint and template, and stops: `values don't meet the
    specifications of the schema(s)`. What the schema requires and the defaults leave to whoever installs is no fault.
    """
    for chart in world.charts:
        if chart.schema is None or not isinstance(chart.schema.value, dict) or not chart.values:
            continue
        if chart.values[0].file.rpartition("/")[2] != "values.yaml":
            continue
        for path, message in _misfits(chart.schema.value, chart.values[0].value):
            at = Spot(chart.values[0].file, chart.values[0].line(path))
            told = f"reading values: {message[:200]}: `{dotted(path) or 'values'}`"
            yield Hit(at=at, path=path, message=told, fix="correct the value, or the schema")


def _misfits(schema: Mapping[str, Any], values: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(dict(schema), retriever=_nothing_from_elsewhere)
        found = list(validator.iter_errors(values if values is not None else {}))
    except ValueError:  # no schema, or one that refers to what is elsewhere
        return
    for error in found[:_MOST]:
        if error.kind.name != "required":
            yield tuple(error.instance_path), error.message


def _nothing_from_elsewhere(address: str) -> Any:
    """Linting asks no network: a schema that needs another document is not looked at."""
    raise ValueError(address)

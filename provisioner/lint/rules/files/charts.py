"""Helm charts: holes that no value fills, values that nothing reads, actions that are not closed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath, dotted
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.charts import Chart
from provisioner.lint.go_templates.faults import TemplateFault
from provisioner.lint.helm import parsed
from provisioner.lint.rule import Hit, Spot, rule
from provisioner.lint.rules.files._oddities import hits
from provisioner.lint.values import look, mapping
from provisioner.lint.world import World


@rule("chart-template-broken", Severity.ERROR)
def template_broken(world: World) -> Iterator[Hit]:
    """A template of a chart has an action or a block that is not closed, or an action that Go cannot read.

    Helm refuses the whole chart: `unexpected EOF`, `unclosed action`, `unexpected {{end}}`.
    """
    for chart in world.charts:
        for template in chart.templates:
            fault = parsed(template.text)
            if isinstance(fault, TemplateFault):
                fix = "close it" if "no `end`" in fault.message or "not closed" in fault.message else "correct it"
                message = f"reading template: {fault.message}"
                yield Hit(at=Spot(template.file, fault.line), message=message, fix=fix)


@rule("chart-value-missing", Severity.WARNING)
def value_missing(world: World) -> Iterator[Hit]:
    """A template reads a value that the chart's values do not have.

    It prints nothing where the name is merely absent, and fails with `nil pointer evaluating interface {}` one level
    deeper. A slip of the name is the usual cause. Values whose absence is provided for (`default`, `required`, `if`,
    `with`) are left out. Of the items of a list, such as one model after the other, a field is told that is printed
    behind its key and that an item does not have.
    """
    yield from hits(world, "chart-value-missing")
    for chart in world.charts:
        reads = [(template.file, read) for template in chart.templates for read in template.reads()]
        guarded = {read.path for _, read in reads if read.is_guarded}
        for file, read in reads if chart.values else ():
            is_guarded = any(read.path[:length] in guarded for length in range(1, len(read.path) + 1))
            if read.path and not is_guarded and not _has(chart, read.path):
                name = ".".join(read.path)
                message = f"filling hole: no value in the chart: `.Values.{name}`"
                near = nearest_name(name, _leaves(chart))
                fix = f"did you mean `.Values.{near}`?" if near else "give it a value, a `default` or `required`"
                yield Hit(at=Spot(file, read.line), message=message, fix=fix)


@rule("chart-value-unused", Severity.WARNING)
def value_unused(world: World) -> Iterator[Hit]:
    """A value of the chart is read by none of its templates.

    Whoever sets it believes that it does something; in a second values file it is most often a slip of the name. Values
    of subcharts and `global` are left out, and so are charts whose templates look values up by computed names.
    """
    for chart in world.charts:
        reads = {read.path for template in chart.templates for read in template.reads()}
        if not chart.templates or not chart.values or () in reads:
            continue
        known = [dotted(read) for read in sorted(reads)]
        for values in chart.values:
            for path in _unread(mapping(values.value), reads, chart.subcharts()):
                near = nearest_name(dotted(path), known)
                fix = f"did you mean `{near}`?" if near else "remove it, or read it in a template"
                message = f"reading values: no template reads `{dotted(path)}`"
                yield Hit(at=Spot(values.file, values.line(path)), path=path, message=message, fix=fix)


@rule("chart-metadata-incomplete", Severity.ERROR)
def metadata_incomplete(world: World) -> Iterator[Hit]:
    """A `Chart.yaml` lacks what Helm requires.

    `apiVersion`, `name` and a semantic `version` are required (`validation: chart.metadata.version is required`).
    """
    for chart in world.charts:
        for name in ("apiVersion", "name", "version"):
            if not look(chart.head.value, name):
                message = f"reading chart: required and missing: `{name}`"
                yield Hit(at=Spot(chart.head.file), message=message, fix=f"add `{name}`")


def _has(chart: Chart, path: tuple[str, ...]) -> bool:
    """Whether a values file has the value, or leaves open what is below."""
    if path[0] in chart.subcharts():
        return True
    for values in chart.values:
        found: Any = values.value
        for part in path:
            if not isinstance(found, Mapping) or not found:
                return found is not None and found is not values.value
            if part not in found:
                break
            found = found[part]
        else:
            return True
    return False


def _leaves(chart: Chart) -> list[str]:
    return [dotted(path) for values in chart.values[:1] for path, _ in _below(mapping(values.value), ())]


def _below(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _below(item, (*path, key))
    elif path:
        yield path, value


def _unread(values: Mapping[str, Any], reads: set[tuple[str, ...]], others: frozenset[str]) -> Iterator[FieldPath]:
    for path, _ in _below(values, ()):
        is_read = any(path[: len(read)] == read or read[: len(path)] == path for read in reads)
        if path[0] not in others and not is_read:
            yield path

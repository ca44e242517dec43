"""Renders charts with their own values, as far as that can be done without Helm, into worlds of their own.

A chart is rendered as a whole or not at all: where one of its templates needs what is not known here, or a chart that
it depends on, rules would miss objects that are there, and so they see none, and it is told. Called by reading; pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from provisioner.catalog.fields import FieldPath
from provisioner.lint.charts import Chart, ChartTemplate
from provisioner.lint.go_templates.faults import TemplateFault, Unknown
from provisioner.lint.go_templates.running import Chunk, Machine, Template
from provisioner.lint.go_templates.syntax import Parsed, parse
from provisioner.lint.rendition import NotRendered, Place, RenderedText
from provisioner.lint.values import items, look, mapping, text

RELEASE = "release-name"
"""The name of the release, as `helm template` has it where nobody gives one."""
_NAMESPACE = "{{ .Release.Namespace }}"
_LIBRARIES = frozenset({"common"})
"""Dependencies of these names bring templates and no objects."""
_BUILT_IN = frozenset({"", "apps", "batch", "autoscaling", "policy"})
_MANIFESTS = (".yaml", ".yml", ".json")
_TESTS = "/templates/tests/"


@lru_cache(maxsize=4096)
def parsed(source: str) -> Parsed | TemplateFault | Unknown:
    """The trees of a template, or why there are none."""
    try:
        return parse(source)
    except (TemplateFault, Unknown) as error:
        return error
    except RecursionError:
        return Unknown(1, "it is nested too deep")


class RenderedChart(NamedTuple):
    """What the templates of a chart make, and the reads that found nothing in an item of the values: place and name,
    and the names that are there."""

    texts: tuple[RenderedText, ...] = ()
    lacking: tuple[tuple[Place, str, tuple[str, ...]], ...] = ()


def rendered_chart(chart: Chart, kubernetes: tuple[int, int]) -> RenderedChart:
    """What the templates of a chart make with its values. Raises NotRendered where any of it is not known."""
    if text(chart.head.value, "type") == "library":
        return RenderedChart()
    if (foreign := _subchart(chart)) is not None:
        path, name = foreign
        raise NotRendered(Place(chart.head.file, chart.head.line(path)), f"{name} would add objects")
    bodies: dict[str, Template] = {}
    own: dict[str, tuple[ChartTemplate, Template]] = {}
    files: dict[str, str] = {}
    for template in chart.templates:
        found = parsed(template.text)
        if not isinstance(found, Parsed):
            raise NotRendered(Place(template.file, found.line or 1), found.message)
        name = _name_of(chart, template)
        own[name] = template, found.body
        bodies |= {name: found.body, **found.defined}
        files |= dict.fromkeys((name, *found.defined), template.file)
    machine = Machine(bodies, "{{{{ .{} }}}}".format)
    try:
        texts = tuple(_rendered(chart, own, machine, kubernetes))
    except (Unknown, TemplateFault) as error:
        file = files.get(machine.running, chart.head.file)
        raise NotRendered(Place(file, error.line or 1), error.message) from error
    lacking = ((Place(files[one.template], one.line), one.name, one.known) for one in machine.lacking)
    return RenderedChart(texts, tuple(dict.fromkeys(lacking)))


def _rendered(
    chart: Chart,
    own: Mapping[str, tuple[ChartTemplate, Template]],
    machine: Machine,
    kubernetes: tuple[int, int],
) -> Iterator[RenderedText]:
    for name, (template, body) in own.items():
        is_manifest = template.file.endswith(_MANIFESTS) and _TESTS not in f"/{template.file}"
        if is_manifest and not posixpath.basename(name).startswith("_"):
            root = _root(chart, name, kubernetes)
            rendered = _with_places(template.file, machine.run(body, root, name))
            if rendered.text.strip():
                yield rendered


def _name_of(chart: Chart, template: ChartTemplate) -> str:
    """The name under which Helm knows the template of a file."""
    within = template.file.removeprefix(f"{chart.folder}/") if chart.folder != "." else template.file
    return f"{text(chart.head.value, 'name') or ''}/{within}"


def _subchart(chart: Chart) -> tuple[FieldPath, str] | None:
    """Another chart that would add objects: where it stands in the head, and what to call it."""
    values = _values(chart)
    for path, dependency in items(chart.head.value, "dependencies"):
        condition = text(dependency, "condition")
        is_off = bool(condition) and look(values, *str(condition).split(".")) is False
        if not is_off and text(dependency, "name") not in _LIBRARIES:
            return path, f"chart `{text(dependency, 'name') or ''}`, which it depends on,"
    return ((), "a chart in its folder `charts`") if chart.has_vendored else None


def _values(chart: Chart) -> Mapping[str, Any]:
    """What stands in the chart's `values.yaml`; other values files are for whoever installs it."""
    first = chart.values[0] if chart.values else None
    return mapping(first.value) if first and posixpath.basename(first.file).startswith("values.y") else {}


def _root(chart: Chart, name: str, kubernetes: tuple[int, int]) -> dict[str, Any]:
    """What the dot is in a file of the chart."""
    head = mapping(chart.head.value)
    values = {"global": {}, **_as_read(_values(chart))}
    major, minor = kubernetes
    version = {"Version": f"v{major}.{minor}.0", "GitVersion": f"v{major}.{minor}.0"}
    release = {"Name": RELEASE, "Namespace": _NAMESPACE, "Service": "Helm", "Revision": 1}
    return {
        "Values": values,
        "Chart": {key[:1].upper() + key[1:]: value for key, value in head.items()},
        "Release": {**release, "IsInstall": True, "IsUpgrade": False},
        "Capabilities": {
            "KubeVersion": {**version, "Major": str(major), "Minor": str(minor)},
            "APIVersions": {"Has": _is_served},
            "HelmVersion": {"Version": "v3.18.0"},
        },
        "Template": {"Name": name, "BasePath": f"{head.get('name')}/templates"},
        "Files": {"Get": _file, **dict.fromkeys(("Glob", "Lines", "GetBytes", "AsConfig", "AsSecrets"), _files)},
    }


def _file(name: Any) -> str:
    """A hole for the text of a file."""
    return f"{{{{ .Files.Get {str(name)[:100]} }}}}"


def _files(*_: Any) -> Any:
    raise Unknown(0, "files are not read here")


def _as_read(value: Any) -> Any:
    """A copy of values as Helm reads them: all numbers are of floating point, and so 1000000 prints as 1e+06."""
    if isinstance(value, Mapping):
        return {key: _as_read(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_read(item) for item in value]
    is_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    return float(value) if is_number else value


def _is_served(api: Any) -> bool:
    """Whether a bare cluster serves a version of an API."""
    group, _, version = str(api).partition("/") if "/" in str(api) else ("", "", str(api))
    is_built_in = group in _BUILT_IN or (group.endswith(".k8s.io") and group.count(".") == 2)
    return is_built_in and version.partition("/")[0] in (("v1", "v2") if group == "autoscaling" else ("v1",))


def _with_places(file: str, chunks: list[Chunk]) -> RenderedText:
    """The text of a file, and for each of its lines the place of what stands first on it."""
    places: list[Place] = []
    here: int | None = None
    last = 1
    for start, printed, is_text in chunks:
        for number, part in enumerate(printed.split("\n")):
            if number:
                places.append(Place(file, here or last))
                here = None
            last = start + number if is_text else start
            here = last if here is None and part.strip() else here
    places.append(Place(file, here or last))
    return RenderedText(file, "".join(printed for _, printed, _ in chunks), places)

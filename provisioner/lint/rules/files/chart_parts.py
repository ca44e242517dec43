"""Helm charts: dependencies that are not read or not pinned, and versions that YAML makes numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, Spot, rule
from provisioner.lint.scalars import Doubt
from provisioner.lint.values import items, look, text
from provisioner.lint.world import World

_ANY = re.compile(r"\s*(\*|x|X|latest|>=?\s*0(\.0){0,2}(-0)?)?\s*")
_VERSION_KEYS = re.compile(r"(.*[tT]ag|.*[vV]ersion)")


@rule("chart-dependencies-misplaced", Severity.WARNING)
def dependencies_misplaced(world: World) -> Iterator[Hit]:
    """A `Chart.yaml` of `apiVersion: v1` lists dependencies.

    In that version they stand in `requirements.yaml`: `helm lint` refuses the chart (`dependencies are not valid in the
    Chart file with apiVersion 'v1'. They are valid in apiVersion 'v2'`).
    """
    for chart in world.charts:
        if text(chart.head.value, "apiVersion") == "v1" and look(chart.head.value, "dependencies"):
            at = Spot(chart.head.file, chart.head.line(("dependencies",)))
            message = "reading chart: dependencies stand in a chart of apiVersion `v1`"
            yield Hit(at=at, path=("dependencies",), message=message, fix="write `apiVersion: v2`")


@rule("chart-dependency-unpinned", Severity.WARNING)
def dependency_unpinned(world: World) -> Iterator[Hit]:
    """A dependency of a chart may be of any version.

    `helm dependency update` takes the newest one of the day, a major version with other values included. Charts in a
    folder beside this one (`file://`) are left alone.
    """
    for chart in world.charts:
        for path, dependency in items(chart.head.value, "dependencies"):
            version = text(dependency, "version") if look(dependency, "version") is not None else ""
            is_near = (text(dependency, "repository") or "").startswith("file:")
            if version is not None and _ANY.fullmatch(version) and not is_near:
                at = Spot(chart.head.file, chart.head.line((*path, "version")))
                message = f"reading chart: any version will do for {shown(str(look(dependency, 'name')))}: `{version}`"
                fix = "pin a version, such as 2.30.0, or a range, such as ~2.30.0"
                yield Hit(at=at, path=(*path, "version"), message=message, fix=fix)


@rule("chart-version-as-number", Severity.WARNING)
def version_as_number(world: World) -> Iterator[Hit]:
    """A tag or version among a chart's values is a number whose text is another one.

    `tag: 1.10` is the number 1.1, and so the template prints the image of another version.
    """
    for chart in world.charts:
        for values in chart.values:
            for found in values.disagreements:
                name = found.path[-1] if found.path else ""
                is_number = found.reading.doubt in (Doubt.FORM, Doubt.NUMBER) and not found.is_key
                if is_number and isinstance(name, str) and _VERSION_KEYS.fullmatch(name):
                    at = Spot(values.file, values.line(found.path))
                    message = f"reading values: the version is read as the number {found.reading.value}: `{found.text}`"
                    yield Hit(at=at, path=found.path, message=message, fix=f'write "{found.text}"')

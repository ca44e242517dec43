"""How objects of the Platform belong together: project namespaces, templates, instances and what they were given.

No rules stand here. A project's namespace is `p-<project>`, or `loft-p-<project>` on installations that come from
Loft; the prefix can be set to something else, so what fits neither is not guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.joins.nearest import nearest
from provisioner.lint.values import has_hole, items, literal, mapping
from provisioner.lint.world import Object, TenantValues, World

CONNECTOR = "loft.sh/connector-type"
"""The label that makes a Secret a connector."""
PREFIXES = ("p-", "loft-p-")
PROJECT_KINDS = (
    "VirtualClusterInstance",
    "ArgoCDApplication",
    "StackInstance",
    "ProjectSecret",
    "NodeClaim",
    "NodeEnvironment",
)
TEMPLATE_OF: Mapping[str, str] = {
    "VirtualClusterInstance": "VirtualClusterTemplate",
    "ArgoCDApplication": "ArgoCDApplicationTemplate",
    "StackInstance": "StackTemplate",
}
"""What is made from which kind of template, by `spec.templateRef`."""
_VERSION = re.compile(r"([0-9]+|x)\.([0-9]+|x)\.([0-9]+|x)", re.IGNORECASE)


def project_names(namespace: str | None) -> tuple[str, ...]:
    """The names that the project of a namespace may have; none where the namespace is no project's."""
    if namespace is None or has_hole(namespace):
        return ()
    return tuple(namespace[len(prefix) :] for prefix in PREFIXES if namespace.startswith(prefix))


def project_of(world: World, value: Object) -> Object | None:
    """The Project in whose namespace an object stands, where the world has it."""
    found = (nearest(world, "Project", name, to=value.file) for name in project_names(value.namespace))
    return next((project for project in found if project is not None), None)


@dataclass(frozen=True, eq=False)
class Version:
    """A version of a VirtualClusterTemplate, or the whole of an unversioned one."""

    template: Object
    path: FieldPath
    """Where the template stands: `helmRelease`, `objects` and so on are below it."""
    parameters_path: FieldPath
    number: str | None

    @property
    def value(self) -> Mapping[str, Any]:
        """The template."""
        return mapping(self.template.value, *self.path)


def versions_of(template: Object) -> list[Version]:
    """Every version of a VirtualClusterTemplate, as written; an unversioned one has a single one without number."""
    found = [
        Version(template, (*path, "template"), (*path, "parameters"), literal(version, "version"))
        for path, version in items(template.value, "spec", "versions")
        if isinstance(version, Mapping)
    ]
    if not found and mapping(template.value, "spec", "template"):
        found = [Version(template, ("spec", "template"), ("spec", "parameters"), None)]
    return found


def parts_of(number: str) -> tuple[str, str, str] | None:
    """The three parts of a version; `x` stands for any."""
    found = _VERSION.fullmatch(number)
    return (found[1].lower(), found[2].lower(), found[3].lower()) if found else None


def chosen(template: Object, wanted: str | None) -> Version | None:
    """The version that an instance gets, None where that cannot be told."""
    known = versions_of(template)
    if len(known) == 1 and known[0].number is None:
        return known[0]
    pattern = parts_of(wanted) if wanted else ("x", "x", "x")
    numbers = [(parts_of(version.number or ""), version) for version in known]
    fitting = [
        (tuple(map(int, parts)), version)
        for parts, version in numbers
        if parts
        and pattern
        and "x" not in parts
        and all(want in ("x", part) for want, part in zip(pattern, parts, strict=True))
    ]
    return max(fitting, key=lambda entry: entry[0])[1] if fitting else None


def template_of(world: World, instance: Object) -> Object | None:
    """The VirtualClusterTemplate that an instance names, where the world has it."""
    name = literal(instance.value, "spec", "templateRef", "name")
    return nearest(world, "VirtualClusterTemplate", name, to=instance.file)


def version_of(world: World, instance: Object) -> Version | None:
    """The version of its template that an instance gets, None where that cannot be told."""
    template = template_of(world, instance)
    return chosen(template, literal(instance.value, "spec", "templateRef", "version")) if template else None


@dataclass(frozen=True, eq=False)
class Placement:
    """Values of a tenant cluster that are, or may be, used in a Project; without `instance` any instance is meant."""

    project: Object
    tenant: TenantValues
    instance: Object | None


@lru_cache(maxsize=1)
def placements(world: World) -> tuple[Placement, ...]:
    """Every pair of Project and tenant cluster that the world ties together."""
    return tuple(_placements(world))


def _placements(world: World) -> Iterator[Placement]:
    values: dict[int, list[TenantValues]] = {}
    for tenant in world.tenants:
        values.setdefault(id(tenant.template), []).append(tenant)
        name = literal(tenant.value, "platform", "project")
        project = nearest(world, "Project", name, to=tenant.file)
        if project is not None:
            yield Placement(project, tenant, None)
    used: set[tuple[int, int]] = set()
    for instance in world.of_kind("VirtualClusterInstance"):
        project = project_of(world, instance)
        version = version_of(world, instance)
        if project is None or version is None:
            continue
        used.add((id(project), id(version.template)))
        for tenant in values.get(id(version.template), ()):
            if tenant.path[: len(version.path)] == version.path:
                yield Placement(project, tenant, instance)
    for project in world.of_kind("Project"):
        for _, allowed in items(project.value, "spec", "allowedTemplates"):
            template = nearest(world, "VirtualClusterTemplate", literal(allowed, "name"), to=project.file)
            if template is not None and (id(project), id(template)) not in used:
                yield from (Placement(project, tenant, None) for tenant in values.get(id(template), ()))


def allows(entries: Any, name: str) -> bool:
    """Whether a list of `allowedNodeTypes` or `allowedNodeProfiles` takes a name: exact, or `<provider>.*`."""
    for _, entry in items(entries):
        allowed = literal(entry, "name")
        if allowed is None or allowed == name or (allowed.endswith(".*") and name.startswith(allowed[:-1])):
            return True
    return False

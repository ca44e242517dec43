"""References between objects of the Platform that lead nowhere in the world that is linted.

A reference to a kind of which the world holds nothing is no finding. Where a name is nearly one that exists, it is
taken for a slip and an error; where it is like none, the object may be kept elsewhere, and it is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, unknown_name_hint
from provisioner.lint.joins.pools import offers_of, pools
from provisioner.lint.joins.slips import Names
from provisioner.lint.joins.stacks import every_stack
from provisioner.lint.joins.tenant import deployed_applications, deployed_stacks
from provisioner.lint.rule import Hit, Located, rule
from provisioner.lint.rules.platform._platform import CONNECTOR, PROJECT_KINDS, TEMPLATE_OF, project_names
from provisioner.lint.values import has_hole, items, literal
from provisioner.lint.world import Object, World


@dataclass(frozen=True, slots=True)
class Reference:
    """A name that stands for an object of some kind."""

    at: Located
    path: FieldPath
    kind: str
    name: str


def _references(world: World) -> Iterator[Reference]:
    yield from _of_tenants(world)
    yield from _of_instances(world)
    yield from _of_projects(world)
    yield from _of_stacks(world)
    for claim in world.of_kind("NodeClaim", "NodeType", "NodeEnvironment"):
        yield from _named(claim, claim.value, "NodeProvider", ("spec", "providerRef"))
    for claim in world.of_kind("NodeClaim", "NodeEnvironment"):
        yield from _named(claim, claim.value, "VirtualClusterInstance", ("spec", "vClusterRef"))
    for secret in world.of_kind("Secret"):
        yield from _named(
            secret, secret.value, "NodeProvider", ("metadata", "labels", "terraform.vcluster.com/provider")
        )


def _named(at: Located, value: object, kind: str, path: FieldPath, top: FieldPath = ()) -> Iterator[Reference]:
    name = literal(value, *path)
    if name:
        yield Reference(at, (*top, *path), kind, name)


def _of_tenants(world: World) -> Iterator[Reference]:
    for tenant in world.tenants:
        yield from _named(tenant, tenant.value, "connector", ("integrations", "argoCD", "connector"))
        yield from _named(tenant, tenant.value, "NodeProfile", ("privateNodes", "defaultProfile"))
        yield from _named(tenant, tenant.value, "Project", ("platform", "project"))
        for path, _ in items(tenant.value, "privateNodes", "autoNodes"):
            yield from _named(tenant, tenant.value, "NodeProvider", (*path, "provider"))
        for pool in pools(tenant):
            yield from _named(tenant, tenant.value, "NodeProfile", (*pool.path, "profile"))
        for entry in deployed_applications(tenant):
            yield from _named(tenant, tenant.value, "ArgoCDApplicationTemplate", (*entry.path, "template", "name"))
        for entry in deployed_stacks(tenant):
            yield from _named(tenant, tenant.value, "StackTemplate", (*entry.path, "templateRef", "name"))


def _of_instances(world: World) -> Iterator[Reference]:
    destination: FieldPath = ("spec", "destination", "virtualCluster", "name")
    for kind, template in TEMPLATE_OF.items():
        for value in world.of_kind(kind):
            yield from _named(value, value.value, template, ("spec", "templateRef", "name"))
            if kind != "VirtualClusterInstance":
                yield from _named(value, value.value, "VirtualClusterInstance", destination)
    for value in world.of_kind(*PROJECT_KINDS):
        names = project_names(value.namespace)
        if (
            names
            and names[-1] != "default"
            and value.group.endswith("loft.sh")
            and not any(world.find("Project", name) for name in names)
        ):
            yield Reference(value, ("metadata", "namespace"), "Project", names[-1])


def _of_projects(world: World) -> Iterator[Reference]:
    for project in world.of_kind("Project"):
        for key, kind in (("allowedTemplates", None), ("allowedNodeProfiles", "NodeProfile")):
            for path, entry in items(project.value, "spec", key):
                if literal(entry, "name") != "*" and not (literal(entry, "name") or "").endswith(".*"):
                    wanted = kind or literal(entry, "kind") or "VirtualClusterTemplate"
                    yield from _named(project, entry, wanted, ("name",), path)
        for path, name in _node_types(project):
            yield Reference(project, path, "NodeProvider", name.partition(".")[0])
        yield from _named(project, project.value, "NodeProfile", ("spec", "defaultNodeProfile"))
    for key_object in world.of_kind("OwnedAccessKey"):
        for path, _ in items(key_object.value, "spec", "scope", "projects"):
            yield from _named(key_object, key_object.value, "Project", (*path, "project"))


def _node_types(project: Object) -> Iterator[tuple[FieldPath, str]]:
    """The node types that a Project allows, as far as their form is right."""
    for path, entry in items(project.value, "spec", "allowedNodeTypes"):
        name = literal(entry, "name") or ""
        if "." in name and name.count("*") == name.endswith(".*"):
            yield (*path, "name"), name


def _of_stacks(world: World) -> Iterator[Reference]:
    for stack in every_stack(world):
        for task in stack.tasks:
            place: FieldPath = ("argoCDApplication", "templateRef", "name")
            yield from _named(stack.at, task.value, "ArgoCDApplicationTemplate", place, task.path)
            yield from _named(stack.at, task.value, "App", ("app", "templateRef", "name"), task.path)


@lru_cache(maxsize=1)
def _dangling(world: World) -> tuple[tuple[Reference, str | None], ...]:
    """Every reference without an object, with the name that it was probably meant to be."""
    connectors = (value.name for value in world.of_kind("Secret") if value.labels.get(CONNECTOR) == "argocd")
    names = {"connector": Names(connectors)}
    found: list[tuple[Reference, str | None]] = []
    for reference in _references(world):
        if reference.kind not in names:
            names[reference.kind] = Names(value.name for value in world.of_kind(reference.kind))
        known = names[reference.kind]
        if known.all and reference.name not in known.all and not any(map(has_hole, known.all)):
            found.append((reference, known.meant_by(reference.name)))
    return tuple(found)


@rule("reference-misspelt", Severity.ERROR)
def reference_misspelt(world: World) -> Iterator[Hit]:
    """A name of a template, provider, connector, profile, project or tenant cluster is nearly one that exists.

    The Platform reports TemplateNotFound, InvalidConnector and the like on the instance, long after the change was
    merged; other references, such as a Project's allowed node types, just never match.
    """
    for reference, meant in _dangling(world):
        if meant is not None:
            message = f"looking up {reference.kind}: there is none of the name: `{reference.name}`"
            yield Hit(at=reference.at, path=reference.path, message=message, fix=f"write `{meant}`")


@rule("reference-unknown", Severity.WARNING)
def reference_unknown(world: World) -> Iterator[Hit]:
    """A name of a template, provider, connector, profile, project or tenant cluster is none of those that are here.

    Other objects of the kind are in the folder, this one is not. It may be kept elsewhere; if it is nowhere,
    instances stay in TemplateNotFound, InvalidConnector or without nodes.
    """
    for reference, meant in _dangling(world):
        if meant is None:
            message = f"looking up {reference.kind}: none of those here has the name: `{reference.name}`"
            fix = f"add the {reference.kind}, or check the name"
            yield Hit(at=reference.at, path=reference.path, message=message, fix=fix)


@rule("project-node-type-unknown", Severity.ERROR)
def project_node_type_unknown(world: World) -> Iterator[Hit]:
    """A Project allows a node type that its provider does not offer.

    All types of a NodeProvider stand in its `nodeTypes`, so an allowed `<provider>.<type>` that is not among them
    is never any node's: the Project allows less than it seems to.
    """
    offers = offers_of(world)
    for project in world.of_kind("Project"):
        for path, name in _node_types(project):
            provider, _, short_name = name.partition(".")
            known = [offer.short_name for offer in offers.of(provider, to=project.file)]
            if known and short_name not in ("*", *known):
                message = f"allowing node types: provider {provider} does not offer: `{name}`"
                yield Hit(at=project, path=path, message=message, fix=unknown_name_hint(short_name, known))

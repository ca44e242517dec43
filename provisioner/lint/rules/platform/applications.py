"""ArgoCDApplicationTemplates and ArgoCDApplications of the Platform.

Sources: the Platform's Go types (`argocdapplication_types.go`) and its documentation of the Argo CD integration.
Rules about Argo CD's own Applications stand elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.stacks import every_stack
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import Object, TenantValues, World

_EXISTING = frozenset({"default", "kube-system", "kube-public"})


def _specs(world: World) -> Iterator[tuple[Object | TenantValues, FieldPath, Mapping[str, Any]]]:
    """Every Argo CD ApplicationSpec in an object of the Platform."""
    for owner in world.of_kind("ArgoCDApplicationTemplate", "ArgoCDApplication"):
        if mapping(owner.value, "spec", "template", "spec"):
            path: FieldPath = ("spec", "template", "spec")
            yield owner, path, mapping(owner.value, *path)
    for stack in every_stack(world):
        for task in stack.tasks:
            path = (*task.path, "argoCDApplication", "template", "spec")
            if mapping(stack.at.value, *path):
                yield stack.at, path, mapping(stack.at.value, *path)


@rule("template-application-misnested", Severity.ERROR)
def template_application_misnested(world: World) -> Iterator[Hit]:
    """An ArgoCDApplicationTemplate does not hold an ApplicationSpec where it belongs.

    The Application stands in `spec.template.spec`, with its labels in `spec.template.metadata`; `source`,
    `destination` and `syncPolicy` directly below `spec` or `spec.template` are unknown fields.
    """
    for template in world.of_kind("ArgoCDApplicationTemplate"):
        for top in (("spec",), ("spec", "template")):
            for key in ("source", "sources", "destination", "syncPolicy"):
                if key in mapping(template.value, *top):
                    message = f"reading template: `{key}` belongs into `spec.template.spec`"
                    yield Hit(at=template, path=(*top, key), message=message, fix="move it there")


@rule("template-application-namespace", Severity.WARNING)
def template_application_namespace(world: World) -> Iterator[Hit]:
    """An Application of the Platform has no destination namespace.

    The Platform sets the destination's cluster and leaves the namespace alone. Without one, Argo CD refuses every
    manifest that names none itself.
    """
    for owner, path, spec in _specs(world):
        namespace = look(spec, "destination", "namespace")
        if not namespace and not _makes_namespace(spec) and (look(spec, "source") or look(spec, "sources")):
            message = "deploying application: its destination has no namespace"
            fix = "set `destination.namespace` and the sync option `CreateNamespace=true`"
            yield Hit(at=owner, path=(*path, "destination"), message=message, fix=fix)


@rule("template-application-namespace-missing", Severity.WARNING)
def template_application_namespace_missing(world: World) -> Iterator[Hit]:
    """An Application of the Platform goes into a namespace that nobody makes.

    A new tenant cluster has only the built-in namespaces. Without the sync option `CreateNamespace=true` the first
    sync ends with `namespaces … not found`, unless the manifests bring the namespace.
    """
    for owner, path, spec in _specs(world):
        namespace = look(spec, "destination", "namespace")
        may_come = world.has("Namespace")  # in the manifests
        if isinstance(namespace, str) and namespace not in _EXISTING and not may_come and not _makes_namespace(spec):
            message = f"deploying application: nothing makes the namespace: `{namespace}`"
            fix = "add `CreateNamespace=true` to `syncPolicy.syncOptions`"
            yield Hit(at=owner, path=(*path, "destination", "namespace"), message=message, fix=fix)


def _makes_namespace(spec: Mapping[str, Any]) -> bool:
    options = [option for _, option in items(spec, "syncPolicy", "syncOptions") if isinstance(option, str)]
    return any(option.replace(" ", "") == "CreateNamespace=true" or has_hole(option) for option in options)


@rule("template-application-destination", Severity.WARNING)
def template_application_destination(world: World) -> Iterator[Hit]:
    """An Application of the Platform names the cluster it goes to.

    The Platform overwrites `destination.server` and `destination.name` with the tenant cluster. What stands there
    has no effect, and misleads whoever reads it.
    """
    for owner, path, spec in _specs(world):
        for key in ("server", "name"):
            if look(spec, "destination", key):
                message = f"deploying application: the Platform overwrites `destination.{key}`"
                yield Hit(at=owner, path=(*path, "destination", key), message=message, fix="remove it")


@rule("template-application-versions", Severity.ERROR)
def template_application_versions(world: World) -> Iterator[Hit]:
    """A template of Applications or Stacks has versions, or a reference to one names a version.

    Only VirtualClusterTemplates have versions. Give the template a parameter for the revision, or put the version
    into its name.
    """
    for template in world.of_kind("ArgoCDApplicationTemplate", "StackTemplate"):
        for key in ("versions", "version"):
            if key in mapping(template.value, "spec"):
                message = f"reading template: {template.kind} has no `{key}`"
                yield Hit(
                    at=template,
                    path=("spec", key),
                    message=message,
                    fix="use a parameter for the revision, or another name",
                )
    for value in world.of_kind("ArgoCDApplication", "StackInstance"):
        if "version" in mapping(value.value, "spec", "templateRef"):
            message = "choosing template: templates of this kind have no versions"
            path = ("spec", "templateRef", "version")
            yield Hit(at=value, path=path, message=message, fix="remove `version`; give the revision as a parameter")


@rule("platform-application-unclear", Severity.ERROR)
def platform_application_unclear(world: World) -> Iterator[Hit]:
    """An ArgoCDApplication of the Platform has two templates or two destinations, or none.

    It has `templateRef` or `template`, and a destination: `virtualCluster` (with target vCluster or host) or
    `cluster`.
    """
    for value in world.of_kind("ArgoCDApplication"):
        spec = mapping(value.value, "spec")
        forms = [key for key in ("templateRef", "template") if spec.get(key)]
        places = [key for key in ("virtualCluster", "cluster") if look(spec, "destination", key)]
        if spec and len(forms) != 1:
            message = (
                f"deploying application: it wants `templateRef` or `template`, found {'both' if forms else 'neither'}"
            )
            yield Hit(at=value, path=("spec",), message=message, fix="keep one of them")
        if spec and len(places) != 1:
            message = f"deploying application: it wants one destination, found {len(places)}"
            path: FieldPath = ("spec", "destination") if "destination" in spec else ("spec",)
            yield Hit(at=value, path=path, message=message, fix="set `destination.virtualCluster.name`")
        target = literal(spec, "destination", "virtualCluster", "target")
        if target and target not in ("vCluster", "host"):
            message = f"deploying application: unknown target: `{target}`"
            path = ("spec", "destination", "virtualCluster", "target")
            yield Hit(at=value, path=path, message=message, fix="use vCluster or host")

"""What a tenant cluster's values deploy through Argo CD and Stacks, and the connector that carries it.

Sources: vCluster's `ValidateArgoCD` (chart 0.35 and newer) and the Platform's documentation of the Argo CD
integration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.joins.tenant import Deployed, deployed_applications, deployed_stacks, is_on
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, is_known, literal, look, mapping
from provisioner.lint.world import World

_INTEGRATION = ("integrations", "argoCD")


@rule("tenant-applications-without-integration", Severity.ERROR)
def applications_without_integration(world: World) -> Iterator[Hit]:
    """Applications are deployed, but the Argo CD integration is off or has no connector.

    `deploy.argoCD.applications` needs `integrations.argoCD.enabled: true` and the name of a connector; otherwise the
    template does not resolve: `argoCD integration must be enabled …`.
    """
    for tenant in world.tenants:
        first = next(deployed_applications(tenant), None)
        if first is None:
            continue
        enabled = look(tenant.value, *_INTEGRATION, "enabled")
        if not is_on(enabled) and not has_hole(enabled):
            message = "deploying applications: `integrations.argoCD.enabled` is not true"
            fix = "write `integrations: {argoCD: {enabled: true, connector: <name>}}`"
            yield Hit(at=tenant, path=("deploy", "argoCD", "applications"), message=message, fix=fix)
        elif not look(tenant.value, *_INTEGRATION, "connector"):
            message = "deploying applications: `integrations.argoCD.connector` is missing"
            yield Hit(at=tenant, path=_INTEGRATION, message=message, fix="name the connector's Secret")


@rule("tenant-application-without-name", Severity.ERROR)
def application_without_name(world: World) -> Iterator[Hit]:
    """An Application or Stack in vcluster.yaml has neither a name nor a display name.

    One of them is required; with a display name alone the Platform makes the name up.
    """
    for tenant in world.tenants:
        for entry in (*deployed_applications(tenant), *deployed_stacks(tenant)):
            if not entry.value.get("name") and not entry.value.get("displayName"):
                message = "deploying application: it has neither `name` nor `displayName`"
                yield Hit(at=tenant, path=entry.path, message=message, fix="set `name`, with the instance's name in it")


@rule("tenant-application-named-twice", Severity.ERROR)
def application_named_twice(world: World) -> Iterator[Hit]:
    """Two Applications, or two Stacks, in one vcluster.yaml have one name.

    Names are unique within the values: vCluster refuses the second one.
    """
    for tenant in world.tenants:
        for entries in (deployed_applications(tenant), deployed_stacks(tenant)):
            seen: Counter[str] = Counter()
            for entry in entries:
                name = look(entry.value, "name") or look(entry.value, "displayName")
                if isinstance(name, str):
                    seen[name] += 1
                    if seen[name] == 2:
                        message = f"deploying applications: two have the name: `{name}`"
                        yield Hit(
                            at=tenant, path=(*entry.path, "name"), message=message, fix="give each a name of its own"
                        )


@rule("tenant-application-source-ambiguous", Severity.ERROR)
def application_source_ambiguous(world: World) -> Iterator[Hit]:
    """An Application in vcluster.yaml has both a template and an inline definition, or neither.

    It is made from `template` (with the template's `name`) or from `inline`, an Argo CD ApplicationSpec.
    """
    for tenant in world.tenants:
        for entry in deployed_applications(tenant):
            forms = [key for key in ("template", "inline") if entry.value.get(key)]
            if len(forms) != 1:
                found = "both" if forms else "neither"
                message = f"deploying application: it wants `template` or `inline`, found {found}"
                yield Hit(at=tenant, path=entry.path, message=message, fix="keep one of them")
            elif forms == ["template"] and not look(entry.value, "template", "name"):
                message = "deploying application: its template has no name"
                yield Hit(at=tenant, path=(*entry.path, "template"), message=message, fix="set `template.name`")


@rule("stack-source-ambiguous", Severity.ERROR)
def stack_source_ambiguous(world: World) -> Iterator[Hit]:
    """A Stack in vcluster.yaml has both a template reference and a template, or neither.

    `deploy.stacks[]` takes `templateRef.name` or `template`.
    """
    for tenant in world.tenants:
        for entry in deployed_stacks(tenant):
            named, inline = look(entry.value, "templateRef", "name"), entry.value.get("template")
            if bool(named) == bool(inline):
                message = (
                    f"deploying stack: it wants `templateRef` or `template`, found {'both' if named else 'neither'}"
                )
                yield Hit(at=tenant, path=entry.path, message=message, fix="keep one of them")


@rule("tenant-application-key-unknown", Severity.ERROR)
def application_key_unknown(world: World) -> Iterator[Hit]:
    """An Application in vcluster.yaml pins a version or an order that the field does not have.

    ArgoCDApplicationTemplates have no versions, and Applications in vcluster.yaml no ordering: `version`, `dependsOn`,
    `syncWave` and `values` are refused by the schema. Version a template by a parameter for `targetRevision` or by its
    name; order by sync waves within one Application, or by a Stack.
    """
    for tenant in world.tenants:
        for entry in deployed_applications(tenant):
            for path, fix in _strange_keys(entry):
                message = f"deploying application: there is no key `{path[-1]}` here"
                yield Hit(at=tenant, path=(*entry.path, *path), message=message, fix=fix)


def _strange_keys(entry: Deployed) -> Iterator[tuple[tuple[str, ...], str]]:
    order = "use one Application with sync waves, or `deploy.stacks`"
    for key in ("dependsOn", "syncWave", "order"):
        if key in entry.value:
            yield (key,), order
    if "version" in mapping(entry.value, "template"):
        yield ("template", "version"), "templates of Applications have no versions; use a parameter for targetRevision"
    for key in ("templateRef", "parameters", "namespace"):
        if key in entry.value:
            yield (key,), "use `template: {name, parameters}`; the namespace belongs to the template's destination"


@rule("inline-application-destination", Severity.WARNING)
def inline_application_destination(world: World) -> Iterator[Hit]:
    """An inline Application in vcluster.yaml has no namespace, or names a cluster of its own.

    The Platform sets the destination's server and name to the tenant cluster, whatever stands there, and never
    touches the namespace: without one, manifests that name none cannot be synced.
    """
    for tenant in world.tenants:
        for entry in deployed_applications(tenant):
            if not mapping(entry.value, "inline"):
                continue
            path = (*entry.path, "inline", "destination")
            destination = mapping(entry.value, "inline", "destination")
            if not is_known(destination.get("namespace")) and not has_hole(destination.get("namespace")):
                message = "deploying application: its destination has no namespace"
                fix = "set `destination.namespace` and the sync option `CreateNamespace=true`"
                yield Hit(at=tenant, path=path, message=message, fix=fix)
            for key in ("server", "name"):
                if literal(destination, key):
                    message = f"deploying application: the Platform overwrites `destination.{key}`"
                    yield Hit(at=tenant, path=(*path, key), message=message, fix="remove it")


@rule("tenant-application-name-collides", Severity.ERROR)
def application_name_collides(world: World) -> Iterator[Hit]:
    """Two tenant clusters of one project would make Applications of one name.

    The name of an Application from vcluster.yaml is unique in the whole project: the second instance of a template
    whose application names are fixed is refused by the Platform. Put the instance into the name.
    """
    counts = Counter(
        (literal(value.value, "spec", "templateRef", "name"), value.namespace)
        for value in world.of_kind("VirtualClusterInstance")
        if value.namespace
    )
    crowded = {name for (name, _), count in counts.items() if name and count > 1}
    for tenant in world.tenants:
        if tenant.template is None or tenant.template.name not in crowded:
            continue
        for entry in deployed_applications(tenant):
            name = literal(entry.value, "name")
            if name:
                message = f"deploying application: several instances in one project would own the name: `{name}`"
                fix = f'write `name: "{{{{ .Values.loft.virtualClusterName }}}}-{name}"`, or use `displayName`'
                yield Hit(at=tenant, path=(*entry.path, "name"), message=message, fix=fix)

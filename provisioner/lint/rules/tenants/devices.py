"""Devices of the control plane cluster in tenant clusters on shared nodes: classes that are offered, claims that stay.

Sources: vCluster's documentation of `sync.fromHost.deviceClasses`, `sync.toHost.resourceClaims` and
`sync.toHost.resourceClaimTemplates`, all of them off by default.
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath, dotted
from provisioner.domain.finding import Severity
from provisioner.lint.joins.selectors import selector
from provisioner.lint.joins.tenant import brings_nodes, is_on, only_tenant, shares_nodes
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import PodTemplate, TenantValues, World

_CLASSES: FieldPath = ("sync", "fromHost", "deviceClasses")
_CLAIMS: FieldPath = ("sync", "toHost", "resourceClaims")
_TEMPLATES: FieldPath = ("sync", "toHost", "resourceClaimTemplates")


@rule("device-classes-without-selector", Severity.INFO)
def device_classes_without_selector(world: World) -> Iterator[Hit]:
    """All device classes of the control plane cluster are offered to a tenant cluster.

    `sync.fromHost.deviceClasses` without a selector imports every class, also other tenants' and MIG profiles that are
    reserved. A claim that names a class outside the selector is refused with a SyncWarning.
    """
    for tenant in world.tenants:
        chosen = mapping(tenant.value, *_CLASSES, "selector")
        is_bound = any(chosen.get(key) for key in ("matchLabels", "matchExpressions"))
        if not brings_nodes(tenant) and is_on(tenant.value, *_CLASSES, "enabled") and not is_bound:
            message = "importing device classes: no selector, so every class is offered"
            fix = "set `selector.matchLabels` and label the classes that are meant"
            yield Hit(at=tenant, path=_CLASSES, message=message, fix=fix)


@rule("claims-not-synced", Severity.ERROR)
def claims_not_synced(world: World) -> Iterator[Hit]:
    """Pods of a tenant cluster on shared nodes claim devices that are not synced to where they run.

    Such pods run in the control plane cluster, and so must their claims: `sync.toHost.resourceClaims` (for a claim by
    name), `sync.toHost.resourceClaimTemplates` (for one by template) and `sync.fromHost.deviceClasses` are off by
    default. Without them the pod waits for a claim that nobody makes.
    """
    for pod in world.pods if world.tenants else ():
        tenant = _home(world, pod)
        claims = [claim for _, claim in items(pod.spec, "resourceClaims")]
        if tenant is None or not shares_nodes(tenant) or not claims:
            continue
        needed = [_CLASSES]
        needed += [_TEMPLATES] if any(look(claim, "resourceClaimTemplateName") for claim in claims) else []
        needed += [_CLAIMS] if any(look(claim, "resourceClaimName") for claim in claims) else []
        lacking = [path for path in needed if not _may_be_on(tenant, path)]
        if lacking:
            named = ", ".join(dotted((*path, "enabled")) for path in lacking)
            message = f"claiming devices in the tenant cluster: not synced: `{named}`"
            yield Hit(
                at=pod.owner, path=pod.at("resourceClaims"), message=message, fix="switch them on in vcluster.yaml"
            )


@rule("device-class-not-offered", Severity.WARNING)
def device_class_not_offered(world: World) -> Iterator[Hit]:
    """A claim names a device class that the tenant cluster's selector leaves out.

    `sync.fromHost.deviceClasses.selector` goes by the labels of the classes. The claim stays with a SyncWarning, and
    its pods stay Pending.
    """
    tenant = only_tenant(world)
    chosen = selector(look(tenant.value, *_CLASSES, "selector")) if tenant and shares_nodes(tenant) else None
    for template in world.of_kind("ResourceClaim", "ResourceClaimTemplate") if chosen and chosen.is_certain else ():
        base = ("spec", "spec") if template.kind == "ResourceClaimTemplate" else ("spec",)
        for path, request in items(template.value, *base, "devices", "requests"):
            name = literal(request, "exactly", "deviceClassName") or ""
            found = world.find("DeviceClass", name)
            if found and chosen and not chosen.matches(found.labels):
                message = f"claiming devices: the tenant cluster is not offered this class: `{name}`"
                fix = f"label the class with {chosen}, or widen the selector"
                where = (*path, "exactly", "deviceClassName")
                yield Hit(at=template, path=where, message=message, fix=fix)


def _home(world: World, pod: PodTemplate) -> TenantValues | None:
    """The tenant cluster in which a pod runs."""
    around = pod.owner.inside
    if around is None:
        return only_tenant(world)
    return next((tenant for tenant in reversed(world.tenants) if tenant.template is around), None)


def _may_be_on(tenant: TenantValues, path: FieldPath) -> bool:
    return is_on(tenant.value, *path, "enabled") or has_hole(look(tenant.value, *path, "enabled"))

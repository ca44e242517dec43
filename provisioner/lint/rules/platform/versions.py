"""Versions: of the chart against the keys it must know, of templates, and the pins of instances.

Sources: the chart's values schemas of 0.36 and 0.37, vCluster's release notes, and the Platform's documentation of
template versioning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from provisioner.catalog.fields import FieldPath, dotted
from provisioner.domain.finding import Severity
from provisioner.lint.joins.pools import pools
from provisioner.lint.joins.tenant import chart_version, is_on
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.platform._platform import chosen, parts_of, template_of, versions_of
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import Object, TenantValues, World

_SINCE: Mapping[FieldPath, tuple[int, int]] = {
    ("integrations", "argoCD"): (0, 35),
    ("deploy", "argoCD"): (0, 35),
    ("sync", "fromHost", "gateways"): (0, 35),
    ("sync", "toHost", "gatewayApi"): (0, 35),
    ("privateNodes", "defaultProfile"): (0, 36),
    ("deploy", "csi", "kubeVirt"): (0, 37),
    ("deploy", "stacks"): (0, 37),
    ("sleep",): (0, 32),
    ("snapshots",): (0, 32),
    ("deletion",): (0, 32),
    ("platform",): (0, 32),
    ("privateNodes",): (0, 27),
    ("privateNodes", "autoNodes"): (0, 28),
}
_POOL_SINCE = {"profile": (0, 36), "properties": (0, 37)}
_SEMVER = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?")


@rule("chart-older-than-key", Severity.ERROR)
def chart_older_than_key(world: World) -> Iterator[Hit]:
    """A tenant cluster's values use a key that its chart version does not know yet.

    Auto Nodes came with 0.28, the split of `external.platform` and `sleepMode` with 0.32, the Argo CD integration
    and Gateway sync with 0.35, node profiles with 0.36, pool `properties`, the KubeVirt CSI and `deploy.stacks`
    with 0.37. An older chart has a closed schema and refuses them.
    """
    for tenant in world.tenants:
        version = chart_version(tenant)
        for path, since in _used(tenant) if version and version < (0, 37) else ():
            if version and version < since:
                message = (
                    f"choosing chart: {_shown(version)} does not know `{dotted(path)}`, which came with {_shown(since)}"
                )
                fix = f"set `chart.version` to {_shown(since)}.0 or newer"
                yield Hit(at=tenant, path=path, message=message, fix=fix)


def _used(tenant: TenantValues) -> Iterator[tuple[FieldPath, tuple[int, int]]]:
    for path, since in _SINCE.items():
        if look(tenant.value, *path):
            yield path, since
    for pool in pools(tenant):
        for key, since in _POOL_SINCE.items():
            if key in pool.value:
                yield (*pool.path, key), since


def _shown(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


@rule("gateway-sync-on-early-chart", Severity.WARNING)
def gateway_sync_on_early_chart(world: World) -> Iterator[Hit]:
    """Gateways are synced by a chart of 0.35, whose Gateway sync was redone.

    0.35 has the keys, but 0.36 brought the import's redesign, v1 kinds only, translated parentRefs and TLS
    listeners without the control plane cluster's certificates (vCluster pull requests 3969, 3996, 3998 and 3999).
    Use 0.36 or newer.
    """
    for tenant in world.tenants:
        if chart_version(tenant) == (0, 35) and is_on(tenant.value, "sync", "fromHost", "gateways", "enabled"):
            message = "choosing chart: the Gateway sync of 0.35 was redone in 0.36"
            path = ("sync", "fromHost", "gateways")
            yield Hit(at=tenant, path=path, message=message, fix="set `chart.version` to 0.36.1 or newer")


def _releases(world: World) -> Iterator[tuple[Object, FieldPath]]:
    for template in world.of_kind("VirtualClusterTemplate"):
        for version in versions_of(template):
            if isinstance(look(version.value, "helmRelease"), Mapping):
                yield template, (*version.path, "helmRelease")
    for instance in world.of_kind("VirtualClusterInstance"):
        if isinstance(look(instance.value, "spec", "template", "helmRelease"), Mapping):
            yield instance, ("spec", "template", "helmRelease")


@rule("chart-version-missing", Severity.ERROR)
def chart_version_missing(world: World) -> Iterator[Hit]:
    """A template of tenant clusters does not say which chart it installs, or not as a full version.

    `helmRelease.chart.version` is required and a semantic version such as 0.36.1. Without it, with `latest` or with
    a range, the release is refused, or changes under running tenants.
    """
    for owner, path in _releases(world):
        found = look(owner.value, *path, "chart", "version")
        if has_hole(found):
            continue
        at = (*path, "chart", "version") if found is not None else path
        if not found:
            message = "choosing chart: `chart.version` is missing"
            yield Hit(at=owner, path=at, message=message, fix="pin a version, such as 0.36.1")
        elif not isinstance(found, str) or not _SEMVER.fullmatch(found):
            message = f"choosing chart: not a full version: `{found}`"
            yield Hit(at=owner, path=at, message=message, fix="pin a version of three parts, such as 0.36.1")


@rule("values-not-text", Severity.ERROR)
def values_not_text(world: World) -> Iterator[Hit]:
    """A template of tenant clusters holds its values or objects as an object.

    `helmRelease.values`, `objects` and `spaceTemplate.objects` are texts (`values: |`), since the Platform fills
    holes in them before anybody reads YAML.
    """
    for owner, path in _releases(world):
        for place in ((*path, "values"), (*path[:-1], "objects"), (*path[:-1], "spaceTemplate", "objects")):
            if isinstance(look(owner.value, *place), Mapping | list):
                message = f"reading template: `{place[-1]}` is a text, found an object"
                yield Hit(at=owner, path=place, message=message, fix=f"write `{place[-1]}: |` before it")


@rule("template-version-malformed", Severity.ERROR)
def template_version_malformed(world: World) -> Iterator[Hit]:
    """A version of a template has a number that instances cannot name, or one that another version has.

    Template versions have exactly three parts, `1.2.0`, written as text. Two of one number leave open which one
    instances get.
    """
    for template in world.of_kind("VirtualClusterTemplate"):
        seen: set[str] = set()
        for path, version in items(template.value, "spec", "versions"):
            number = look(version, "version")
            parts = parts_of(number) if isinstance(number, str) else None
            if has_hole(number):
                continue
            if parts is None or "x" in parts:
                message = f"numbering template version: it wants three parts, such as 1.2.0, found: `{number}`"
                yield Hit(at=template, path=(*path, "version"), message=message, fix='write `version: "1.2.0"`')
            elif number in seen:
                message = f"numbering template version: two have the number: `{number}`"
                yield Hit(at=template, path=(*path, "version"), message=message, fix="count the newer one up")
            seen.add(str(number))


@rule("template-without-template", Severity.ERROR)
def template_without_template(world: World) -> Iterator[Hit]:
    """A VirtualClusterTemplate, or a version of one, has nothing to make tenant clusters from.

    Either `spec.template` or `spec.versions[].template` holds the Helm release.
    """
    for template in world.of_kind("VirtualClusterTemplate"):
        spec = mapping(template.value, "spec")
        if not spec.get("template") and not spec.get("versions") and not spec.get("spaceTemplateRef"):
            message = "reading template: it has neither `template` nor `versions`"
            yield Hit(at=template, path=("spec",), message=message, fix="add `versions` with number and template")
        for path, version in items(template.value, "spec", "versions"):
            if not look(version, "template"):
                message = f"reading template: version `{look(version, 'version')}` has no template"
                yield Hit(at=template, path=path, message=message, fix="add `template` to the version")


@rule("template-beside-versions", Severity.WARNING)
def template_beside_versions(world: World) -> Iterator[Hit]:
    """A VirtualClusterTemplate has versions and an unversioned template or parameters beside them.

    With versions, instances are made from one of them; what stands beside is not used, and changing it changes
    nothing.
    """
    for template in world.of_kind("VirtualClusterTemplate"):
        spec = mapping(template.value, "spec")
        for key in ("template", "parameters"):
            if spec.get("versions") and spec.get(key):
                message = f"reading template: instances use its versions, never: `spec.{key}`"
                yield Hit(at=template, path=("spec", key), message=message, fix=f"move `{key}` into the versions")


@rule("instance-source-unclear", Severity.ERROR)
def instance_source_unclear(world: World) -> Iterator[Hit]:
    """A tenant cluster is made from a template reference and a template at once, or from neither.

    A VirtualClusterInstance has `templateRef` or `template`. Imported clusters (`external`, `standalone`) need
    neither.
    """
    for instance in world.of_kind("VirtualClusterInstance"):
        spec = mapping(instance.value, "spec")
        forms = [key for key in ("templateRef", "template") if spec.get(key)]
        is_imported = any(is_on(spec, key) for key in ("external", "standalone"))
        if spec and len(forms) != 1 and not (is_imported and not forms):
            message = (
                f"making tenant cluster: it wants `templateRef` or `template`, found {'both' if forms else 'neither'}"
            )
            yield Hit(at=instance, path=("spec",), message=message, fix="keep one of them")
        elif forms == ["templateRef"] and not look(spec, "templateRef", "name"):
            message = "making tenant cluster: `templateRef` has no name"
            yield Hit(at=instance, path=("spec", "templateRef"), message=message, fix="set `templateRef.name`")


@rule("instance-version-malformed", Severity.ERROR)
def instance_version_malformed(world: World) -> Iterator[Hit]:
    """A tenant cluster pins a template version in a form that the Platform does not read.

    A pin has exactly three parts, each a number or `x`: `1.2.0`, `1.2.x`. `latest`, `v1`, `1.2` and ranges end as
    VersionError.
    """
    for instance in world.of_kind("VirtualClusterInstance"):
        path = ("spec", "templateRef", "version")
        found = look(instance.value, *path)
        if found and not has_hole(found) and (not isinstance(found, str) or parts_of(found) is None):
            message = f"choosing template version: it wants three parts, found: `{found}`"
            yield Hit(at=instance, path=path, message=message, fix='write `version: "1.2.0"`')


@rule("instance-version-floating", Severity.INFO)
def instance_version_floating(world: World) -> Iterator[Hit]:
    """A tenant cluster follows new versions of its template.

    With `1.x.x`, or with no version where the template has some, publishing a version changes running tenant
    clusters: a changed value restarts their control planes. Pin an exact version and move it on purpose.
    """
    for instance in world.of_kind("VirtualClusterInstance"):
        path = ("spec", "templateRef", "version")
        found = look(instance.value, *path)
        template = template_of(world, instance)
        has_versions = template is not None and bool(look(template.value, "spec", "versions"))
        parts = parts_of(found) if isinstance(found, str) else None
        if (parts and "x" in parts and found != "x.x.x") or (not found and has_versions):
            message = f"choosing template version: it follows what is published: `{found or 'no version'}`"
            yield Hit(
                at=instance,
                path=path if found else path[:-1],
                message=message,
                fix="pin an exact version, such as 1.2.0",
            )


@rule("instance-version-unknown", Severity.ERROR)
def instance_version_unknown(world: World) -> Iterator[Hit]:
    """A tenant cluster pins a version that its template does not have.

    The template does not resolve: VersionNotFound. An unversioned template takes no pin but `x.x.x`.
    """
    for instance in world.of_kind("VirtualClusterInstance"):
        path = ("spec", "templateRef", "version")
        found = literal(instance.value, *path)
        name = literal(instance.value, "spec", "templateRef", "name")
        template = template_of(world, instance)
        if not found or template is None or parts_of(found) is None:
            continue
        numbers = [version.number for version in versions_of(template)]
        is_unversioned = numbers == [None]
        if is_unversioned and found.lower() != "x.x.x":
            message = f"choosing template version: `{name}` has no versions, found: `{found}`"
            yield Hit(at=instance, path=path, message=message, fix="remove `version`, or give the template versions")
        elif numbers and not is_unversioned and None not in numbers and chosen(template, found) is None:
            message = f"choosing template version: `{name}` does not have: `{found}`"
            fix = f"use one of: {', '.join(str(number) for number in numbers)}"
            yield Hit(at=instance, path=path, message=message, fix=fix)


@rule("chart-name-outdated", Severity.WARNING)
def chart_name_outdated(world: World) -> Iterator[Hit]:
    """A template of tenant clusters installs a chart under an old name.

    The chart is `vcluster`; `vcluster-k8s`, `vcluster-k0s`, `vcluster-eks` and `vcluster-pro` ended with 0.20 and
    do not know today's values.
    """
    for owner, path in _releases(world):
        name = literal(owner.value, *path, "chart", "name")
        if name and name.startswith("vcluster-"):
            message = f"choosing chart: it ended with 0.20: `{name}`"
            yield Hit(at=owner, path=(*path, "chart", "name"), message=message, fix="use the chart `vcluster`")


@rule("sync-once-kept", Severity.WARNING)
def sync_once_kept(world: World) -> Iterator[Hit]:
    """A tenant cluster's manifest asks for a one-time sync with its template.

    `templateRef.syncOnce` resets itself after one sync. Kept in a manifest, whoever applies it again syncs again: a
    change of an unversioned template then reaches tenants at any later apply, and Argo CD never sees the object as
    synced.
    """
    for instance in world.of_kind("VirtualClusterInstance"):
        path = ("spec", "templateRef", "syncOnce")
        if look(instance.value, *path) is True:
            message = "following template: `syncOnce` resets itself, and stays in this manifest"
            yield Hit(at=instance, path=path, message=message, fix="use template versions, and change the pin")

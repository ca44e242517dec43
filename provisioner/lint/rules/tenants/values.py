"""Keys of vcluster.yaml that are gone, were renamed or have another shape than people remember.

The chart refuses unknown keys (its values schema is closed), so the tenant cluster never starts; the Platform shows it
as a template that does not resolve.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from provisioner.catalog.fields import FieldPath, dotted
from provisioner.domain.finding import Severity
from provisioner.lint.joins.tenant import chart_version, deployed_applications, is_on
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import Hole, TextHole, has_hole, is_known, items, literal, look, mapping
from provisioner.lint.world import World

_GONE: Mapping[FieldPath, str] = {
    ("external",): "write `platform: {project, apiKey: {secretName}}` at the top instead of `external.platform`",
    ("sleepMode",): "use `sleep.auto` (and `deletion.auto` for the deletion after inactivity)",
    ("privateNodes", "nodePools"): "use `privateNodes.autoNodes`, a list with one entry per provider",
    ("privateNodes", "importNodeBinaries"): "remove it; nodes fetch their binaries when they join",
    ("controlPlane", "distro", "k3s"): "use `controlPlane.distro.k8s`",
    ("controlPlane", "distro", "k0s"): "use `controlPlane.distro.k8s`",
    ("controlPlane", "virtualScheduler"): "use `controlPlane.advanced.virtualScheduler`",
    ("integrations", "argocd"): "spell it `integrations.argoCD`",
    ("deploy", "argocd"): "spell it `deploy.argoCD`",
    ("deploy", "stack"): "use the list `deploy.stacks`",
    ("syncer",): "use `controlPlane.statefulSet` (keys of before 0.20)",
    ("vcluster",): "use `controlPlane.distro` (keys of before 0.20)",
    ("isolation",): "use `policies` (keys of before 0.20)",
    ("storage",): "use `controlPlane.statefulSet.persistence` (keys of before 0.20)",
    ("mapServices",): "use `networking.replicateServices` (keys of before 0.20)",
    ("multiNamespaceMode",): "use `sync.toHost.namespaces` (keys of before 0.20)",
    ("fallbackHostDns",): "use `networking.advanced.fallbackHostCluster` (keys of before 0.20)",
    ("init",): "use the template's `objects`, or `experimental.deploy` (keys of before 0.20)",
    ("enableHA",): "use `controlPlane.statefulSet.highAvailability.replicas` (keys of before 0.20)",
    ("sync", "nodes"): "use `sync.fromHost.nodes` (keys of before 0.20)",
    ("sync", "ingresses"): "use `sync.toHost.ingresses` (keys of before 0.20)",
    ("sync", "persistentvolumes"): "use `sync.toHost.persistentVolumes` (keys of before 0.20)",
    ("sync", "networkpolicies"): "use `sync.toHost.networkPolicies` (keys of before 0.20)",
}
_PRO: tuple[FieldPath, ...] = (
    ("privateNodes", "enabled"),
    ("controlPlane", "backingStore", "etcd", "embedded", "enabled"),
    ("controlPlane", "backingStore", "database", "external", "enabled"),
    ("sync", "fromHost", "deviceClasses", "enabled"),
    ("sync", "toHost", "resourceClaims", "enabled"),
)
_SNAPSHOT_KEYS: tuple[FieldPath, ...] = (
    ("sync", "toHost", "volumeSnapshots"),
    ("sync", "toHost", "volumeSnapshotContents"),
    ("sync", "fromHost", "volumeSnapshotClasses"),
    ("deploy", "volumeSnapshotController"),
)


@rule("tenant-key-gone", Severity.ERROR)
def tenant_key_gone(world: World) -> Iterator[Hit]:
    """A key of vcluster.yaml does not exist any more.

    `external.platform` and `sleepMode` went with 0.32, `privateNodes.nodePools` became `autoNodes`, and the flat
    keys of before 0.20 were replaced altogether. The chart's values schema is closed: Helm refuses the release.
    Many answers on the web still show the old keys.
    """
    for tenant in world.tenants:
        for path, fix in _GONE.items():
            if path[-1] in mapping(tenant.value, *path[:-1]):
                yield Hit(
                    at=tenant, path=path, message=f"reading values: there is no such key: `{dotted(path)}`", fix=fix
                )


@rule("volume-snapshot-sync-gone", Severity.ERROR)
def volume_snapshot_sync_gone(world: World) -> Iterator[Hit]:
    """Volume snapshots are synced by a key that the chart refuses since 0.36.

    The values schema still accepts `sync.*.volumeSnapshot*` and `deploy.volumeSnapshotController`, but the chart's own
    templates fail on them from 0.36 on, so the mistake shows only when Helm runs.
    """
    for tenant in world.tenants:
        version = chart_version(tenant)
        if version is not None and version < (0, 36):
            continue
        for path in _SNAPSHOT_KEYS:
            if is_on(tenant.value, *path, "enabled"):
                message = f"syncing volume snapshots: refused by chart 0.36 and newer: `{dotted(path)}`"
                yield Hit(at=tenant, path=path, message=message, fix="remove the key; use `snapshots` for backups")


@rule("auto-nodes-not-a-list", Severity.ERROR)
def auto_nodes_not_a_list(world: World) -> Iterator[Hit]:
    """`privateNodes.autoNodes` is written as an object.

    It is a list with one entry per node provider. The object form `autoNodes: {provider: …}` still stands on an
    overview page of the vendor's documentation, and the chart's schema refuses it.
    """
    for tenant in world.tenants:
        found = look(tenant.value, "privateNodes", "autoNodes")
        if isinstance(found, Mapping):
            path = ("privateNodes", "autoNodes")
            message = "reading values: `autoNodes` is a list of providers, found an object"
            yield Hit(at=tenant, path=path, message=message, fix="write `autoNodes: [{provider: …, static: […]}]`")


@rule("pool-key-of-another-kind", Severity.ERROR)
def pool_key_of_another_kind(world: World) -> Iterator[Hit]:
    """A node pool carries a key that belongs to another kind.

    `requirements` is a field of the NodeClaim that the Platform writes, and of Karpenter's own NodePool; in
    vcluster.yaml the field is `nodeTypeSelector`. Likewise `labels`, `template` and `replicas` belong to other
    kinds. The chart's schema refuses them.
    """
    other = {
        "requirements": "nodeTypeSelector",
        "nodeSelector": "nodeTypeSelector",
        "labels": "nodeLabels",
        "replicas": "quantity",
        "count": "quantity",
        "nodeProfile": "profile",
        "nodeTaints": "taints",
    }
    for tenant in world.tenants:
        for top, entry in items(tenant.value, "privateNodes", "autoNodes"):
            for kind in ("static", "dynamic"):
                for path, pool in items(entry, kind):
                    for key in other.keys() & mapping(pool).keys():
                        at = (*top, *path, key)
                        message = f"reading node pool: a pool of vcluster.yaml has no `{key}`"
                        yield Hit(at=tenant, path=at, message=message, fix=f"use `{other[key]}`")


@rule("pool-budget-with-reasons", Severity.ERROR)
def pool_budget_with_reasons(world: World) -> Iterator[Hit]:
    """A disruption budget of a dynamic pool names reasons.

    Karpenter's own NodePool knows `budgets[].reasons`; vcluster.yaml does not, and the chart's schema refuses it (an
    example in the vendor's documentation was corrected for that).
    """
    for tenant in world.tenants:
        for path, pool in _pools(tenant.value, "dynamic"):
            for at, budget in items(pool, "disruption", "budgets"):
                if "reasons" in mapping(budget):
                    message = "reading disruption budget: it takes `nodes`, `schedule` and `duration`, found `reasons`"
                    yield Hit(at=tenant, path=(*path, *at, "reasons"), message=message, fix="remove `reasons`")


@rule("pool-limit-not-text", Severity.ERROR)
def pool_limit_not_text(world: World) -> Iterator[Hit]:
    """A limit of a dynamic pool is a number.

    `limits` holds texts only, also for `nodes` and for GPU counts: the schema refuses `nodes: 4` and takes `nodes:
    "4"`. A hole without quotes becomes a number as well, whatever the type of its parameter.
    """
    for tenant in world.tenants:
        for path, pool in _pools(tenant.value, "dynamic"):
            for key, value in mapping(pool, "limits").items():
                is_bare = isinstance(value, Hole) and not isinstance(value, TextHole)
                if isinstance(value, int | float) or is_bare:
                    found = f"the hole `{value}` without quotes" if is_bare else f"the number {value}"
                    message = f"reading limits of node pool: limits are texts, found {found}"
                    yield Hit(at=tenant, path=(*path, "limits", key), message=message, fix=f'write `{key}: "{value}"`')


@rule("tenant-application-target-unknown", Severity.ERROR)
def application_target_unknown(world: World) -> Iterator[Hit]:
    """The target of an Application in vcluster.yaml is a word that vCluster refuses.

    The code takes nothing, `vCluster` or `host`. The vendor's pages write `target: vcluster` in lower case, which the
    schema accepts and the validation refuses.
    """
    for tenant in world.tenants:
        for entry in deployed_applications(tenant):
            target = look(entry.value, "target")
            if is_known(target) and not has_hole(target) and target not in ("", "vCluster", "host"):
                message = f"deploying application: unknown target: `{target}`"
                yield Hit(at=tenant, path=(*entry.path, "target"), message=message, fix="leave `target` out")


@rule("argocd-connector-misplaced", Severity.ERROR)
def argocd_connector_misplaced(world: World) -> Iterator[Hit]:
    """The Argo CD connector stands under `deploy.argoCD`.

    `deploy.argoCD` holds `applications` only. The switch and the connector's name belong to `integrations.argoCD`;
    at the other place the schema refuses them.
    """
    for tenant in world.tenants:
        for key in ("connector", "enabled"):
            if key in mapping(tenant.value, "deploy", "argoCD"):
                message = f"deploying applications: `deploy.argoCD` has no key `{key}`"
                fix = "write `integrations: {argoCD: {enabled: true, connector: <name>}}`"
                yield Hit(at=tenant, path=("deploy", "argoCD", key), message=message, fix=fix)


@rule("pod-security-standard-unknown", Severity.ERROR)
def pod_security_standard_unknown(world: World) -> Iterator[Hit]:
    """The Pod Security Standard of a tenant cluster is none of the three.

    The control plane refuses to start with anything but `privileged`, `baseline` or `restricted`.
    """
    for tenant in world.tenants:
        found = literal(tenant.value, "policies", "podSecurityStandard")
        if found and found not in ("privileged", "baseline", "restricted"):
            path = ("policies", "podSecurityStandard")
            message = f"enforcing pod security: unknown standard: `{found}`"
            yield Hit(at=tenant, path=path, message=message, fix="use privileged, baseline or restricted")


def _pools(values: Mapping[str, object], kind: str) -> Iterator[tuple[FieldPath, Mapping[str, object]]]:
    for top, entry in items(values, "privateNodes", "autoNodes"):
        for path, pool in items(entry, kind):
            if isinstance(pool, Mapping):
                yield (*top, *path), pool


@rule("oss-image-with-pro-feature", Severity.ERROR)
def oss_image_with_pro_feature(world: World) -> Iterator[Hit]:
    """The open-source image runs a tenant cluster that needs the Pro image.

    Private nodes, embedded etcd, an external database by connector, DRA and custom-resource sync are in the image
    `vcluster-pro` only (they are free with the Platform). With `vcluster-oss` the control plane refuses to start.
    """
    path = ("controlPlane", "statefulSet", "image", "repository")
    for tenant in world.tenants:
        found = literal(tenant.value, *path)
        used = [dotted(feature[:-1]) for feature in _PRO if is_on(tenant.value, *feature)]
        if found and found.endswith("vcluster-oss") and used:
            message = f"starting control plane: the image has no: `{used[0]}`"
            yield Hit(
                at=tenant, path=path, message=message, fix="remove the image; the default is loft-sh/vcluster-pro"
            )


@rule("database-password-in-values", Severity.WARNING)
def database_password_in_values(world: World) -> Iterator[Hit]:
    """The password of the external database stands in the values.

    Values lie in the repository, in the instance object and in Helm's release Secret. Use a `connector` of the
    Platform, an identity provider, or environment variables from a Secret.
    """
    path = ("controlPlane", "backingStore", "database", "external", "dataSource")
    for tenant in world.tenants:
        if re.search(r"//[^:@/\s]+:[^@/\s$({]+@", literal(tenant.value, *path) or ""):
            message = "storing state: the database's password stands in the values"
            yield Hit(
                at=tenant, path=path, message=message, fix="use `external.connector`, or a Secret and `statefulSet.env`"
            )


@rule("tenant-quota-of-gpus-malformed", Severity.ERROR)
def tenant_quota_of_gpus_malformed(world: World) -> Iterator[Hit]:
    """A tenant cluster's quota bounds GPUs by a key that Kubernetes refuses.

    Extended resources are bounded by `requests.<name>` only, such as `requests.nvidia.com/gpu`; `nvidia.com/gpu` and
    `limits.nvidia.com/gpu` make the ResourceQuota invalid, and the release with it.
    """
    path = ("policies", "resourceQuota", "quota")
    for tenant in world.tenants:
        for key in mapping(tenant.value, *path):
            name = str(key).removeprefix("limits.")
            if re.match(r"(nvidia|amd|gpu\.intel)\.com/", name):
                message = f"bounding GPUs: the quota wants `requests.{name}`, found: `{key}`"
                yield Hit(at=tenant, path=(*path, key), message=message, fix=f"write `requests.{name}`")


@rule("quota-without-limit-range", Severity.ERROR)
def quota_without_limit_range(world: World) -> Iterator[Hit]:
    """A tenant cluster's quota demands CPU limits, and its limit range, which would set them, is off.

    With `limits.cpu` in a quota every pod must have a CPU limit. The control plane's own pod has none by default,
    so it is refused first (vCluster issue 1746). The default quota has `limits.cpu`.
    """
    for tenant in world.tenants:
        policies = mapping(tenant.value, "policies")
        limits = look(tenant.value, "controlPlane", "statefulSet", "resources", "limits", "cpu")
        quota = mapping(policies, "resourceQuota", "quota")
        demands = quota.get("limits.cpu", "default") not in (None, "")
        is_off = look(policies, "limitRange", "enabled") in (False, "false")
        if is_on(policies, "resourceQuota", "enabled") and demands and is_off and not limits:
            message = "bounding tenant cluster: `limits.cpu` without a limit range refuses the control plane's pod"
            path = ("policies", "limitRange", "enabled")
            yield Hit(at=tenant, path=path, message=message, fix="leave `policies.limitRange.enabled` at auto")

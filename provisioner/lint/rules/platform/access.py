"""Access keys, connectors and secrets of the Platform.

Sources: the Platform's published Go types (`accesskey_types.go`, `projectsecret_types.go`) and its documentation of
Argo CD and Akuity connectors.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping

from provisioner.domain.finding import Severity, nearest_name, unknown_name_hint
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.platform._platform import CONNECTOR, PREFIXES
from provisioner.lint.values import has_hole, items, literal, look, mapping, whole
from provisioner.lint.world import Object, World

_ROLES = ("agent", "vcluster", "network-peer", "loft-cli", "workspace", "metrics-writer", "metrics-reader")
_ARGO_KEYS = ("server", "token", "username", "password", "namespace", "insecure", "caData", "connectorType")
_AKUITY_KEYS = (
    "akuityOrgId",
    "akuityInstanceId",
    "akuityApiKeyId",
    "akuityApiKeySecret",
    "akuityAgentSize",
    "akuityRepoServerReplicas",
    "akuityRepoServerMemory",
)
_AKUITY_NEEDED = _AKUITY_KEYS[:4]
_MEMBER_ROLES = tuple(f"loft-management-project-{name}" for name in ("admin", "user", "viewer"))


@rule("access-key-without-scope", Severity.INFO)
def access_key_without_scope(world: World) -> Iterator[Hit]:
    """An access key may do all that its user or team may.

    Without `scope` a key is not narrowed at all. A key that creates Projects and templates cannot be scoped to
    projects; the one that runs day by day can: keep two keys, and scope the second.
    """
    for key in world.of_kind("OwnedAccessKey"):
        scope = mapping(key.value, "spec", "scope")
        if mapping(key.value, "spec") and not any(scope.values()):
            message = "narrowing access key: it has no scope"
            yield Hit(
                at=key,
                path=("spec",),
                message=message,
                fix="set `scope.projects`, or keep this key for bootstrapping only",
            )


@rule("access-key-never-expires", Severity.WARNING)
def access_key_never_expires(world: World) -> Iterator[Hit]:
    """An access key has no time to live.

    `ttl` is in seconds; without one a key that leaked works until somebody notices.
    """
    for key in world.of_kind("OwnedAccessKey"):
        ttl = look(key.value, "spec", "ttl")
        if mapping(key.value, "spec") and (ttl is None or ttl == 0):
            message = "limiting access key: it never expires"
            yield Hit(at=key, path=("spec",), message=message, fix="set `ttl` in seconds, such as 7776000, and rotate")


@rule("access-key-owner-unclear", Severity.ERROR)
def access_key_owner_unclear(world: World) -> Iterator[Hit]:
    """An access key belongs to nobody, or to a user and a team at once.

    `spec.user` or `spec.team` says whose rights it carries.
    """
    for key in world.of_kind("OwnedAccessKey"):
        spec = mapping(key.value, "spec")
        owners = [name for name in ("user", "team") if spec.get(name)]
        if spec and len(owners) != 1 and not spec.get("subject"):
            message = f"owning access key: it wants `user` or `team`, found {'both' if owners else 'neither'}"
            yield Hit(at=key, path=("spec",), message=message, fix="set one of them")


@rule("access-key-role-unknown", Severity.ERROR)
def access_key_role_unknown(world: World) -> Iterator[Hit]:
    """The scope of an access key has a role that does not exist.

    Roles are agent, vcluster, network-peer, loft-cli, workspace, metrics-writer and metrics-reader. A ClusterRole
    is no role of a key.
    """
    for key in world.of_kind("OwnedAccessKey"):
        for path, entry in items(key.value, "spec", "scope", "roles"):
            role = literal(entry, "role")
            if role and role not in _ROLES:
                message = f"narrowing access key: unknown role: `{role}`"
                yield Hit(at=key, path=(*path, "role"), message=message, fix=unknown_name_hint(role, _ROLES))


@rule("access-key-in-manifest", Severity.WARNING)
def access_key_in_manifest(world: World) -> Iterator[Hit]:
    """The secret of an access key stands in its manifest.

    Left empty, `key` is made by the server. Written down, it lies in every clone of the repository.
    """
    for key in world.of_kind("OwnedAccessKey"):
        if literal(key.value, "spec", "key"):
            message = "keeping access key: its secret stands in the manifest"
            yield Hit(at=key, path=("spec", "key"), message=message, fix="remove `key`; the server makes one")


@rule("access-key-rules-deprecated", Severity.WARNING)
def access_key_rules_deprecated(world: World) -> Iterator[Hit]:
    """An access key is narrowed by rules, which are deprecated.

    Use `scope.roles`, `scope.projects` and `scope.virtualClusters`.
    """
    for key in world.of_kind("OwnedAccessKey"):
        if look(key.value, "spec", "scope", "rules"):
            message = "narrowing access key: `scope.rules` is deprecated"
            yield Hit(
                at=key, path=("spec", "scope", "rules"), message=message, fix="use `scope.projects` and `scope.roles`"
            )


@rule("access-key-lifetime-short", Severity.WARNING)
def access_key_lifetime_short(world: World) -> Iterator[Hit]:
    """An access key lives for minutes, probably because its unit was taken for something else.

    `ttl` is in seconds: `ttl: 90` is a minute and a half, not ninety days.
    """
    for key in world.of_kind("OwnedAccessKey"):
        ttl = whole(key.value, "spec", "ttl")
        if ttl is not None and 0 < ttl < 600:
            message = f"limiting access key: it ends after {ttl} seconds"
            yield Hit(at=key, path=("spec", "ttl"), message=message, fix="write seconds: 90 days are 7776000")


def _connectors(world: World) -> Iterator[Object]:
    for secret in world.of_kind("Secret"):
        if secret.labels.get(CONNECTOR) == "argocd":
            yield secret


def _data(secret: Object) -> Mapping[str, object]:
    return {**mapping(secret.value, "data"), **mapping(secret.value, "stringData")}


@rule("connector-incomplete", Severity.ERROR)
def connector_incomplete(world: World) -> Iterator[Hit]:
    """An Argo CD connector's Secret misses keys.

    It has `server` and `token` (or `username` and `password`); with `connectorType: akuity` it has `akuityOrgId`,
    `akuityInstanceId`, `akuityApiKeyId` and `akuityApiKeySecret`. Applications report InvalidConnector otherwise.
    """
    for secret in _connectors(world):
        data = _data(secret)
        if not data:
            continue  # filled in by somebody else
        if "connectorType" in data or any(key in data for key in _AKUITY_KEYS):
            missing = [key for key in _AKUITY_NEEDED if key not in data]
            missing += ["connectorType"] if "connectorType" not in data else []
        else:
            has_login = "token" in data or ("username" in data and "password" in data)
            missing = [key for key, there in (("server", "server" in data), ("token", has_login)) if not there]
        if missing:
            message = f"connecting Argo CD: the Secret has no {', '.join(missing)}"
            near = next((str(key) for key in data if nearest_name(str(key), missing) and key not in _ARGO_KEYS), None)
            fix = f"add the missing keys{f'; `{near}` is none of them' if near else ''}"
            yield Hit(
                at=secret, path=("stringData" if "stringData" in secret.value else "data",), message=message, fix=fix
            )


@rule("connector-without-label", Severity.ERROR)
def connector_without_label(world: World) -> Iterator[Hit]:
    """A Secret that a tenant cluster names as connector is none.

    The Platform finds connectors by the label `loft.sh/connector-type: argocd`. Without it the Secret is a Secret
    like any other, and Applications report InvalidConnector.
    """
    wanted = {literal(tenant.value, "integrations", "argoCD", "connector") for tenant in world.tenants}
    for secret in world.of_kind("Secret"):
        label = secret.labels.get(CONNECTOR)
        if secret.name in wanted and label != "argocd":
            message = f"connecting Argo CD: the Secret has no label `{CONNECTOR}: argocd`"
            if label is not None:
                message = f"connecting Argo CD: the label `{CONNECTOR}` wants `argocd`, found: `{label}`"
            yield Hit(at=secret, path=("metadata",), message=message, fix=f"add the label `{CONNECTOR}: argocd`")


@rule("connector-in-project", Severity.WARNING)
def connector_in_project(world: World) -> Iterator[Hit]:
    """An Argo CD connector stands in a project's namespace, or beside Argo CD.

    The Platform reads connectors from the namespace it runs in itself (`vcluster-platform`, or `loft` on older
    installations).
    """
    for secret in _connectors(world):
        namespace = secret.namespace or ""
        if namespace.startswith(PREFIXES) or namespace == "argocd":
            message = f"connecting Argo CD: the Platform does not read connectors from: `{namespace}`"
            fix = "put it into the Platform's own namespace, such as vcluster-platform"
            yield Hit(at=secret, path=("metadata", "namespace"), message=message, fix=fix)


@rule("connector-size-unknown", Severity.ERROR)
def connector_size_unknown(world: World) -> Iterator[Hit]:
    """An Akuity connector asks for an agent size that does not exist.

    Sizes are CLUSTER_SIZE_SMALL, CLUSTER_SIZE_MEDIUM and CLUSTER_SIZE_LARGE.
    """
    for secret in _connectors(world):
        size = literal(secret.value, "stringData", "akuityAgentSize")
        if size and not re.fullmatch(r"CLUSTER_SIZE_(SMALL|MEDIUM|LARGE)", size):
            message = f"connecting Akuity: unknown size: `{size}`"
            fix = "use CLUSTER_SIZE_SMALL, CLUSTER_SIZE_MEDIUM or CLUSTER_SIZE_LARGE"
            yield Hit(at=secret, path=("stringData", "akuityAgentSize"), message=message, fix=fix)


@rule("cluster-with-connector-only", Severity.ERROR)
def cluster_with_connector_only(world: World) -> Iterator[Hit]:
    """A Cluster of the Platform has an Argo CD connector and nothing else.

    The connector is patched into the Cluster that exists; a manifest with only `argoCD` is refused: `spec.config or
    spec.local or spec.networkPeer is required`.
    """
    for cluster in world.of_kind("Cluster"):
        spec = mapping(cluster.value, "spec")
        is_known = any(spec.get(key) for key in ("config", "local", "networkPeer"))
        if cluster.group.endswith("loft.sh") and spec.get("argoCD") and not is_known:
            message = "connecting cluster: `spec.config`, `spec.local` or `spec.networkPeer` is required"
            yield Hit(at=cluster, path=("spec",), message=message, fix="patch `spec.argoCD` into the existing Cluster")


@rule("project-secret-not-base64", Severity.ERROR)
def project_secret_not_base64(world: World) -> Iterator[Hit]:
    """A value of a ProjectSecret is not base64.

    `spec.data` holds base64 like a Secret's `data`; there is no `stringData`.
    """
    for secret in world.of_kind("ProjectSecret"):
        for key, value in mapping(secret.value, "spec", "data").items():
            if isinstance(value, str) and not has_hole(value) and not _is_base64(value):
                message = f"keeping secret: not base64: `{key}`"
                yield Hit(at=secret, path=("spec", "data", key), message=message, fix="write `printf … | base64`")
        if "stringData" in mapping(secret.value, "spec"):
            message = "keeping secret: a ProjectSecret has no `stringData`"
            yield Hit(at=secret, path=("spec", "stringData"), message=message, fix="use `data` with base64")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


@rule("member-role-misspelt", Severity.ERROR)
def member_role_misspelt(world: World) -> Iterator[Hit]:
    """A member of a Project has a role that is nearly one of the Platform's.

    The Platform's roles for members are loft-management-project-admin, -user and -viewer; a ClusterRole of your own
    has another name. A name that does not exist gives no rights.
    """
    for project in world.of_kind("Project"):
        for path, member in items(project.value, "spec", "members"):
            role = literal(member, "clusterRole") or ""
            is_short = role in ("admin", "user", "viewer", "cluster-admin")
            if role not in _MEMBER_ROLES and (is_short or role.startswith("loft-")):
                message = f"giving project rights: unknown role: `{role}`"
                fix = unknown_name_hint(role, _MEMBER_ROLES)
                yield Hit(at=project, path=(*path, "clusterRole"), message=message, fix=fix)

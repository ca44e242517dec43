"""Projects: what they allow, what they bound, and whether what is placed in them fits.

Sources: the Platform's published Go types (`project_types.go`) and its documentation of projects and quotas.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from provisioner.domain.finding import Severity, nearest_name, unknown_name_hint
from provisioner.lint.joins.pools import NODE_TYPE, Pool, pools, term_values
from provisioner.lint.joins.tenant import brings_nodes
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.platform._parameters import filled, given
from provisioner.lint.rules.platform._platform import PREFIXES, PROJECT_KINDS, Placement, allows, placements, project_of
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import Object, World

_KINDS = ("VirtualClusterTemplate", "SpaceTemplate", "DevPodWorkspaceTemplate", "DevPodWorkspacePreset", "AppTemplate")
_QUOTAS = (
    "virtualclusterinstances",
    "virtualclusterinstances.active",
    "nodeclaims",
    "spaceinstances",
    "spaceinstances.active",
)
_QUOTA_PREFIXES = ("virtualclusterinstances.template=", "nodeclaims.provider=", "spaceinstances.template=")
_KUBERNETES_QUOTA = re.compile(
    r"count/.+|limits\.(cpu|memory|ephemeral-storage)|requests\..+|.+\.storageclass\.storage\.k8s\.io/.+|services(\.nodeports|\.loadbalancers)?|pods|"
    r"secrets|configmaps|persistentvolumeclaims|replicationcontrollers|resourcequotas|cpu|memory|storage|ephemeral-storage"
)


@rule("project-template-group", Severity.ERROR)
def project_template_group(world: World) -> Iterator[Hit]:
    """A Project allows templates of a group or kind that does not exist.

    In `allowedTemplates` and `members` the group is `storage.loft.sh`, although the objects themselves are written
    with `management.loft.sh`. With another group the entry matches nothing.
    """
    for project in world.of_kind("Project"):
        for key, kinds in (("allowedTemplates", _KINDS), ("members", ("User", "Team"))):
            for path, entry in items(project.value, "spec", key):
                group, kind = literal(entry, "group"), literal(entry, "kind")
                if group and group != "storage.loft.sh":
                    message = f"allowing in project: unknown group: `{group}`"
                    yield Hit(at=project, path=(*path, "group"), message=message, fix="write `storage.loft.sh`")
                may_be_new = key == "allowedTemplates" and nearest_name(kind or "", kinds) is None
                if kind and kind not in kinds and not may_be_new:
                    message = f"allowing in project: unknown kind: `{kind}`"
                    yield Hit(at=project, path=(*path, "kind"), message=message, fix=unknown_name_hint(kind, kinds))


@rule("project-default-template-twice", Severity.WARNING)
def project_default_template_twice(world: World) -> Iterator[Hit]:
    """A Project has two default templates of one kind.

    `isDefault` says which template is taken where nobody names one; with two of them it is not said.
    """
    for project in world.of_kind("Project"):
        first: dict[str, str] = {}
        for path, item in items(project.value, "spec", "allowedTemplates"):
            kind, name = literal(item, "kind") or "", literal(item, "name") or ""
            if look(item, "isDefault") is True and first.setdefault(kind, name) != name:
                message = f"choosing default template: `{first[kind]}` is it already, and so is `{name}`"
                yield Hit(at=project, path=(*path, "isDefault"), message=message, fix="leave one default for each kind")


@rule("project-node-type-form", Severity.ERROR)
def project_node_type_form(world: World) -> Iterator[Hit]:
    """A Project allows node types by names that match nothing.

    Entries of `allowedNodeTypes` are whole names `<provider>.<type>`, or `<provider>.*`. A name without its
    provider and any other wildcard match no type, so nothing is allowed.
    """
    for project in world.of_kind("Project"):
        for path, entry in items(project.value, "spec", "allowedNodeTypes"):
            name = literal(entry, "name")
            if name and ("." not in name or ("*" in name and not (name.endswith(".*") and name.count("*") == 1))):
                message = f"allowing node types: matches no type: `{name}`"
                fix = "write `<provider>.<type>`, or `<provider>.*` for all of a provider"
                yield Hit(at=project, path=(*path, "name"), message=message, fix=fix)


@rule("project-quota-unknown", Severity.ERROR)
def project_quota_unknown(world: World) -> Iterator[Hit]:
    """A Project's quota has a key that nothing counts.

    The Platform counts `virtualclusterinstances`, `virtualclusterinstances.active`,
    `virtualclusterinstances.template=<name>`, `nodeclaims` and `nodeclaims.provider=<provider>`; all other keys are
    Kubernetes quota keys of the control plane cluster. There is no key for GPUs or for a node type.
    """
    for project in world.of_kind("Project"):
        for block in ("project", "user"):
            for key in mapping(project.value, "spec", "quotas", block):
                known = key in _QUOTAS or str(key).startswith(_QUOTA_PREFIXES) or _KUBERNETES_QUOTA.fullmatch(str(key))
                if not known:
                    message = f"bounding project: nothing counts: `{key}`"
                    fix = unknown_name_hint(str(key), (*_QUOTAS, "nodeclaims.provider=<provider>"))
                    yield Hit(at=project, path=("spec", "quotas", block, key), message=message, fix=fix)


@rule("project-quota-not-text", Severity.ERROR)
def project_quota_not_text(world: World) -> Iterator[Hit]:
    """A Project's quota is a number.

    Quotas are texts: the API refuses `nodeclaims: 4` and takes `nodeclaims: "4"`.
    """
    for project in world.of_kind("Project"):
        for block in ("project", "user"):
            for key, value in mapping(project.value, "spec", "quotas", block).items():
                if isinstance(value, int | float):
                    message = f"bounding project: quotas are texts, found the number {value}"
                    yield Hit(
                        at=project,
                        path=("spec", "quotas", block, key),
                        message=message,
                        fix=f'write "{value}" in quotes',
                    )


@rule("project-quota-misses-gpus", Severity.WARNING)
def project_quota_misses_gpus(world: World) -> Iterator[Hit]:
    """A Project bounds GPUs or pods by a quota that private nodes never meet.

    Kubernetes keys are enforced on the tenant's namespace in the control plane cluster. With private nodes only the
    control plane's pods are there: `requests.nvidia.com/gpu` bounds nothing. Bound GPUs by `nodeclaims`,
    `allowedNodeTypes` and the pools themselves.
    """
    tenants = {id(place.project): place for place in placements(world) if brings_nodes(place.tenant)}
    shared = {id(place.project) for place in placements(world) if not brings_nodes(place.tenant)}
    for project in world.of_kind("Project"):
        if id(project) not in tenants or id(project) in shared:
            continue
        for key in mapping(project.value, "spec", "quotas", "project"):
            if isinstance(key, str) and key.startswith(("requests.", "limits.", "pods", "count/pods")):
                message = f"bounding project: tenant clusters with private nodes are not bound by: `{key}`"
                fix = "use `nodeclaims`, allowedNodeTypes and the pools' own sizes"
                yield Hit(at=project, path=("spec", "quotas", "project", key), message=message, fix=fix)


@rule("project-node-types-unbounded", Severity.INFO)
def project_node_types_unbounded(world: World) -> Iterator[Hit]:
    """A Project lets its tenant clusters claim any node type, in any number.

    `allowedNodeTypes` left out allows every type of every provider (an empty list allows none), and without a
    `nodeclaims` quota nothing bounds the number.
    """
    seen: set[int] = set()
    for place in placements(world):
        spec = mapping(place.project.value, "spec")
        is_open = spec.get("allowedNodeTypes") is None and "nodeclaims" not in mapping(spec, "quotas", "project")
        if is_open and next(pools(place.tenant), None) and id(place.project) not in seen:
            seen.add(id(place.project))
            message = "bounding project: any node type may be claimed, in any number"
            yield Hit(
                at=place.project, path=("spec",), message=message, fix="set allowedNodeTypes and the quota `nodeclaims`"
            )


@rule("node-type-not-allowed", Severity.ERROR)
def node_type_not_allowed(world: World) -> Iterator[Hit]:
    """A tenant cluster's pool wants node types that its Project does not allow.

    `allowedNodeTypes` is checked when a node is claimed, not when the tenant cluster is created: it starts, and its
    nodes never come. An empty list allows none.
    """
    for place in placements(world):
        entries = look(place.project.value, "spec", "allowedNodeTypes")
        if not isinstance(entries, list):
            continue
        for pool in pools(place.tenant):
            wanted = _wanted(place, pool)
            if (wanted and not any(allows(entries, name) for name in wanted)) or (not entries and pool.quantity != 0):
                names = ", ".join(wanted or ()) or "any"
                message = (
                    f"placing in project {place.project.name}: pool `{pool.shown}` wants a type not allowed: `{names}`"
                )
                at = place.instance if place.instance is not None and has_hole(str(pool.selector)) else place.project
                path = ("spec", "parameters") if at is place.instance else ("spec", "allowedNodeTypes")
                yield Hit(at=at, path=path, message=message, fix="allow the type in the Project, or select another one")


def _wanted(place: Placement, pool: Pool) -> list[str] | None:
    """The whole names that a pool is fixed to, None where it is not fixed or not known."""
    parameters = given(place.instance) if place.instance is not None else {}
    for _, term in pool.selector:
        if literal(term, "property") == NODE_TYPE and look(term, "operator") in (None, "", "In"):
            return term_values(filled(term, parameters))
    return None


@rule("quota-below-pools", Severity.ERROR)
def quota_below_pools(world: World) -> Iterator[Hit]:
    """A Project's quota of node claims is smaller than one tenant cluster's static pools.

    Each static node is a NodeClaim. Claims beyond the quota are refused: `cannot create nodeclaim, because project
    nodeclaims limit … would be exceeded`, and the pool never fills.
    """
    for place in placements(world):
        quota = mapping(place.project.value, "spec", "quotas", "project")
        parameters = given(place.instance) if place.instance is not None else {}
        needed: Counter[str] = Counter()
        for pool in pools(place.tenant):
            quantity = _count(filled(pool.value, parameters).get("quantity"))
            for key in ("nodeclaims", f"nodeclaims.provider={pool.provider}"):
                needed[key] += quantity if pool.is_static else 0
        for key, count in needed.items():
            limit = quota.get(key)
            if isinstance(limit, str) and limit.isdecimal() and count > int(limit):
                message = f"bounding project: one tenant cluster has {count} static nodes, `{key}` allows: {limit}"
                path = ("spec", "quotas", "project", key)
                yield Hit(
                    at=place.project, path=path, message=message, fix="raise the quota, or make the pools smaller"
                )


def _count(value: Any) -> int:
    if isinstance(value, str) and value.isdecimal():
        return int(value[:6])
    return value if isinstance(value, int) and value > 0 else 0


@rule("quota-below-instances", Severity.ERROR)
def quota_below_instances(world: World) -> Iterator[Hit]:
    """A Project's quota of tenant clusters is smaller than the number that stands here.

    The Platform refuses the ones beyond `virtualclusterinstances`.
    """
    counts: Counter[int] = Counter()
    for instance in world.of_kind("VirtualClusterInstance"):
        project = project_of(world, instance)
        counts[id(project)] += 1
    for project in world.of_kind("Project"):
        limit = literal(project.value, "spec", "quotas", "project", "virtualclusterinstances")
        if limit and limit.isdecimal() and counts[id(project)] > int(limit):
            message = f"bounding project: {counts[id(project)]} tenant clusters stand here, the quota allows: {limit}"
            path = ("spec", "quotas", "project", "virtualclusterinstances")
            yield Hit(at=project, path=path, message=message, fix="raise the quota, or use another project")


@rule("template-not-allowed", Severity.ERROR)
def template_not_allowed(world: World) -> Iterator[Hit]:
    """A tenant cluster is made from a template that its Project does not allow.

    `allowedTemplates` names templates, or `*` for all of a kind; the Platform refuses an instance of any other one.
    """
    for instance in world.of_kind("VirtualClusterInstance"):
        project = project_of(world, instance)
        name = literal(instance.value, "spec", "templateRef", "name")
        entries = [entry for _, entry in items(project.value if project else None, "spec", "allowedTemplates")]
        names = {
            str(look(entry, "name")) for entry in entries if look(entry, "kind") in (None, "", "VirtualClusterTemplate")
        }
        if project is not None and name and entries and not names & {name, "*"} and not any(map(has_hole, names)):
            message = f"placing in project {project.name}: its allowedTemplates do not have: `{name}`"
            path = ("spec", "templateRef", "name")
            yield Hit(
                at=instance, path=path, message=message, fix="allow the template in the Project, or use another one"
            )


@rule("cluster-not-allowed", Severity.ERROR)
def cluster_not_allowed(world: World) -> Iterator[Hit]:
    """A tenant cluster is placed on a control plane cluster that its Project does not allow.

    `allowedClusters` names clusters, or `*`; an instance whose `clusterRef` names another one is refused.
    """
    for instance in world.of_kind("VirtualClusterInstance"):
        project = project_of(world, instance)
        name = literal(instance.value, "spec", "clusterRef", "cluster")
        entries = items(project.value if project else None, "spec", "allowedClusters")
        names = {str(look(entry, "name")) for _, entry in entries}
        if project is not None and name and names and not names & {name, "*"} and not any(map(has_hole, names)):
            message = f"placing in project {project.name}: its allowedClusters do not have: `{name}`"
            path = ("spec", "clusterRef", "cluster")
            yield Hit(
                at=instance, path=path, message=message, fix="allow the cluster in the Project, or choose another one"
            )


@rule("node-profile-not-allowed", Severity.ERROR)
def node_profile_not_allowed(world: World) -> Iterator[Hit]:
    """A pool or a Project's default uses a node profile that the Project does not allow.

    `allowedNodeProfiles` works like `allowedNodeTypes`: left out it allows all, an empty list none.
    """
    for project in world.of_kind("Project"):
        entries = look(project.value, "spec", "allowedNodeProfiles")
        default = literal(project.value, "spec", "defaultNodeProfile")
        if isinstance(entries, list) and default and not allows(entries, default):
            message = f"choosing node profile: the default is not among allowedNodeProfiles: `{default}`"
            yield Hit(
                at=project, path=("spec", "defaultNodeProfile"), message=message, fix="add it to allowedNodeProfiles"
            )
    for place in placements(world):
        entries = look(place.project.value, "spec", "allowedNodeProfiles")
        for pool in pools(place.tenant):
            profile = literal(pool.value, "profile")
            if isinstance(entries, list) and profile and not allows(entries, profile):
                message = f"placing in project {place.project.name}: its allowedNodeProfiles do not have: `{profile}`"
                path = (*pool.path, "profile")
                yield Hit(
                    at=place.tenant, path=path, message=message, fix="add it to the Project's allowedNodeProfiles"
                )


@rule("project-namespace-prefix-mixed", Severity.WARNING)
def project_namespace_prefix_mixed(world: World) -> Iterator[Hit]:
    """Objects stand in project namespaces with two different prefixes.

    An installation has one prefix: `p-`, or `loft-p-` where it comes from Loft (many examples still show that one).
    What is in the other namespace belongs to no project. `POST …/selves` tells the prefix.
    """
    found: dict[str, list[Object]] = {prefix: [] for prefix in PREFIXES}
    for value in world.of_kind(*PROJECT_KINDS):
        for prefix in PREFIXES:
            if value.namespace is not None and value.namespace.startswith(prefix):
                found[prefix].append(value)
    fewer = min(found.values(), key=len)
    for value in fewer if all(found.values()) else ():
        message = f"placing in project: other objects use another prefix than: `{value.namespace}`"
        yield Hit(
            at=value,
            path=("metadata", "namespace"),
            message=message,
            fix="use the installation's own prefix everywhere",
        )


@rule("outside-project-namespace", Severity.WARNING)
def outside_project_namespace(world: World) -> Iterator[Hit]:
    """An object that belongs to a project stands in a namespace that is called like the project.

    The namespace of project `acme` is `p-acme`: the prefix is part of it. In `acme` itself the Platform does not look.
    """
    for value in world.of_kind(*PROJECT_KINDS):
        if value.namespace and value.group.endswith("loft.sh") and world.find("Project", value.namespace):
            message = f"placing in project: its namespace has a prefix before the name, found: `{value.namespace}`"
            yield Hit(at=value, path=("metadata", "namespace"), message=message, fix=f"write `p-{value.namespace}`")


@rule("outdated-platform-group", Severity.WARNING)
def outdated_platform_group(world: World) -> Iterator[Hit]:
    """An object of the Platform is written in its storage group.

    `storage.loft.sh` is how the Platform keeps its objects; written directly they pass neither its defaults nor its
    checks of quotas and rights. The group for manifests is `management.loft.sh/v1`; access keys are written as
    OwnedAccessKey.
    """
    for value in world.objects:
        if value.group == "storage.loft.sh":
            message = f"writing {value.kind}: the group is for the Platform's own storage: `{value.api_version}`"
            kind = " of kind OwnedAccessKey" if value.kind == "AccessKey" else ""
            yield Hit(at=value, path=("apiVersion",), message=message, fix=f"write `management.loft.sh/v1`{kind}")

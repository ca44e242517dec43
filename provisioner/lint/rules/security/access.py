"""RBAC: roles that grant everything or nothing, bindings that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.references import is_named
from provisioner.lint.joins.slips import meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.security._api_resources import wrong_group
from provisioner.lint.values import has_hole, items, look, text
from provisioner.lint.world import Object, World

_VERBS: tuple[str, ...] = (
    "approve",
    "bind",
    "create",
    "delete",
    "deletecollection",
    "escalate",
    "get",
    "impersonate",
    "list",
    "patch",
)
_VERBS += ("sign", "update", "use", "watch", "*", "attest", "request-serviceaccounts-token-audience")
_BUILT_IN = frozenset(["admin", "cluster-admin", "edit", "view"])


def _rules(world: World) -> Iterator[tuple[Object, FieldPath, object]]:
    for role in world.of_kind("Role", "ClusterRole"):
        for path, item in items(role.value, "rules"):
            yield role, path, item


def _words(item: object, field: str) -> list[str]:
    return [word for _, word in items(item, field) if isinstance(word, str)]


@rule("role-grants-everything", Severity.WARNING)
def role_grants_everything(world: World) -> Iterator[Hit]:
    """A role grants every verb on every resource: whoever has it owns the namespace, or the cluster.

    Reading Secrets, running commands in pods and giving oneself more rights are part of it. Operators that manage
    arbitrary objects may need it; model servers and agents do not.
    """
    for role, path, item in _rules(world):
        if "*" in _words(item, "verbs") and "*" in _words(item, "resources"):
            message = f"granting access: every verb on every resource: {shown(role.name)}"
            yield Hit(at=role, path=path, message=message, fix="name the verbs and resources that are used")


@rule("role-grants-by-wildcard", Severity.INFO)
def role_grants_by_wildcard(world: World) -> Iterator[Hit]:
    """A role names verbs or resources by `*`, which also grants what later versions add.

    A new verb or subresource (`pods/exec`, `serviceaccounts/token`) is granted on the day it appears.
    """
    for role, path, item in _rules(world):
        if ("*" in _words(item, "verbs")) != ("*" in _words(item, "resources")):
            message = f"granting access: a wildcard in {shown(role.name)}"
            yield Hit(at=role, path=path, message=message, fix="name the verbs and resources that are used")


@rule("role-url-refused", Severity.ERROR)
def role_url_refused(world: World) -> Iterator[Hit]:
    """A role grants paths of the API server that do not begin with `/`, or stands in a namespace and grants any.

    Paths are compared with those of requests, which begin with `/`, so nothing is granted; a Role with
    `nonResourceURLs` is refused, only a ClusterRole has them.
    """
    for role, path, item in _rules(world):
        for place, url in items(item, "nonResourceURLs"):
            is_wrong = isinstance(url, str) and not has_hole(url) and url != "*" and not url.startswith("/")
            if is_wrong or role.kind == "Role":
                why = "it begins with no `/`" if is_wrong else "a Role grants none"
                message = f"granting access to paths: {why}: {shown(str(url))}"
                fix = "write the whole path, such as /metrics" if is_wrong else "make it a ClusterRole"
                yield Hit(at=role, path=(*path, *place), message=message, fix=fix)


@rule("role-grants-nothing", Severity.ERROR)
def role_grants_nothing(world: World) -> Iterator[Hit]:
    """A role names a resource that its API groups do not have, or a verb that does not exist, so it grants nothing.

    Deployments are in `apps`, pods and Services in the core group `""`; resources are plural and lower case.
    """
    for role, path, item in _rules(world):
        groups = _words(item, "apiGroups")
        for place, resource in items(item, "resources"):
            why = wrong_group(groups, resource) if isinstance(resource, str) else None
            if why and groups:
                message = f"granting access: no such resource in these API groups: {shown(str(resource))}"
                yield Hit(at=role, path=(*path, *place), message=message, fix=why)
        for place, verb in items(item, "verbs"):
            if isinstance(verb, str) and verb in (
                "read",
                "write",
                "edit",
                "modify",
                "remove",
                "all",
                "view",
                "Get",
                "List",
            ):
                message = f"granting access: there is no verb {shown(verb)}"
                near = nearest_name(verb, _VERBS)
                fix = f"did you mean `{near}`?" if near else "use get, list, watch, create, update, patch, delete"
                yield Hit(at=role, path=(*path, *place), message=message, fix=fix)


def _subjects(world: World) -> Iterator[tuple[Object, FieldPath, str, str | None]]:
    """Service accounts that bindings name."""
    for binding in world.of_kind("RoleBinding", "ClusterRoleBinding"):
        for path, item in items(binding.value, "subjects"):
            name = text(item, "name")
            if text(item, "kind") == "ServiceAccount" and name and not has_hole(name):
                yield binding, path, name, text(item, "namespace")


@rule("cluster-admin-granted", Severity.WARNING)
def cluster_admin_granted(world: World) -> Iterator[Hit]:
    """A service account is bound to cluster-admin: every pod that runs with it owns the cluster.

    An engine or agent that is taken over then reads every tenant's Secrets. Few controllers need more than a role
    of their own.
    """
    for binding, path, name, _ in _subjects(world):
        if text(binding.value, "roleRef", "name") == "cluster-admin" and binding.kind == "ClusterRoleBinding":
            message = f"granting access: service account {shown(name)} owns the cluster"
            yield Hit(at=binding, path=path, message=message, fix="bind a role with what it needs")


@rule("binding-subject-without-namespace", Severity.ERROR)
def binding_subject_without_namespace(world: World) -> Iterator[Hit]:
    """A binding names a service account without its namespace, which the API server refuses.

    A service account is known by namespace and name. The API server answers `subjects[0].namespace: Required
    value`, in a RoleBinding too.
    """
    for binding, path, name, namespace in _subjects(world):
        if namespace is None and look(binding.value, *path, "namespace") is None:
            message = f"granting access: service account {shown(name)} has no namespace"
            yield Hit(at=binding, path=path, message=message, fix="add the namespace of the service account")


@rule("binding-subject-missing", Severity.ERROR)
def binding_subject_missing(world: World) -> Iterator[Hit]:
    """A binding names a service account that the folder does not hold, though it holds others in that namespace.

    Bindings to accounts that do not exist are accepted; the pods that should have the rights get `forbidden` at run
    time.
    """
    accounts = list(world.of_kind("ServiceAccount"))
    for binding, path, name, namespace in _subjects(world):
        near = [found.name for found in accounts if found.namespace == namespace or found.namespace is None]
        if near and namespace and not is_named(world, "ServiceAccount", name, namespace):
            message = f"granting access: there is no service account {shown(f'{namespace}/{name}')}"
            like = nearest_name(name, near)
            fix = f"did you mean `{like}`?" if like else "add the service account or correct the name"
            yield Hit(at=binding, path=(*path, "name"), message=message, fix=fix)


_RBAC = "rbac.authorization.k8s.io"
_GROUP_OF_SUBJECT = {"ServiceAccount": ("",), "User": (_RBAC, ""), "Group": (_RBAC, "")}
"""The API group that a subject of each kind may name; the API server fills in what is left out."""


@rule("binding-subject-refused", Severity.ERROR)
def binding_subject_refused(world: World) -> Iterator[Hit]:
    """A binding names a subject of a kind that does not exist, or of another API group than its kind is in.

    The API server refuses it. Subjects are ServiceAccounts of the core group, Users and Groups.
    """
    for binding in world.of_kind("RoleBinding", "ClusterRoleBinding"):
        for path, item in items(binding.value, "subjects"):
            kind, group = text(item, "kind"), text(item, "apiGroup") or ""
            allowed = _GROUP_OF_SUBJECT.get(kind or "")
            if kind is not None and allowed is None:
                message = f"granting access: there is no kind of subject {shown(kind)}"
                fix = f"write one of: {', '.join(_GROUP_OF_SUBJECT)}"
                yield Hit(at=binding, path=(*path, "kind"), message=message, fix=fix)
            elif allowed is not None and group not in allowed:
                message = f"granting access: a {kind} is not of API group {shown(group)}"
                fix = f"write `apiGroup: {allowed[0]}`" if allowed[0] else "leave apiGroup out"
                yield Hit(at=binding, path=(*path, "apiGroup"), message=message, fix=fix)


@rule("binding-subject-elsewhere", Severity.WARNING)
def binding_subject_elsewhere(world: World) -> Iterator[Hit]:
    """A RoleBinding names a service account of another namespace, and the account of that name is in its own.

    The folder holds the account beside the binding (or, for a ClusterRoleBinding, in one namespace) and shows nothing
    of the namespace that is named. The pods that should have the rights get `forbidden` at run time.
    """
    homes: dict[str, set[str | None]] = {}
    for account in world.of_kind("ServiceAccount"):
        homes.setdefault(account.name, set()).add(account.namespace)
    for binding, path, name, namespace in _subjects(world):
        single = homes.get(name, set())
        own = binding.namespace if binding.kind == "RoleBinding" else next(iter(single)) if len(single) == 1 else None
        if own is None or namespace in (None, own):
            continue
        is_shown = any(found.namespace in (namespace, None) for found in world.of_kind("ServiceAccount"))
        if not is_shown and is_named(world, "ServiceAccount", name, own) and name != "default":
            message = f"granting access: the account `{name}` is in namespace {own}, the binding names `{namespace}`"
            yield Hit(at=binding, path=(*path, "namespace"), message=message, fix=f"write `namespace: {own}`")


@rule("binding-role-missing", Severity.ERROR)
def binding_role_missing(world: World) -> Iterator[Hit]:
    """A binding names a Role that the folder does not hold, though it holds others.

    ClusterRoles often come with an operator and are only reported when one of nearly that name is there.
    """
    for binding in world.of_kind("RoleBinding", "ClusterRoleBinding"):
        kind, name = text(binding.value, "roleRef", "kind"), text(binding.value, "roleRef", "name")
        if kind not in ("Role", "ClusterRole") or not name or name in _BUILT_IN or name.startswith("system:"):
            continue
        namespace = binding.namespace if kind == "Role" else None
        names = [found.name for found in world.of_kind(kind)]
        near = meant(name, names)
        other = "ClusterRole" if kind == "Role" else "Role"
        is_other = world.find(other, name, namespace=binding.namespace if other == "Role" else None) is not None
        if has_hole(name) or world.find(kind, name, namespace=namespace):
            continue
        if (names and (kind == "Role" or near)) or is_other:
            message = f"granting access: there is no {kind} {shown(name)}"
            fix = f"did you mean `{near}`?" if near else "add the role, or say kind: ClusterRole if it is one"
            fix = f"write `kind: {other}`" if is_other else fix
            yield Hit(at=binding, path=("roleRef", "name"), message=message, fix=fix)

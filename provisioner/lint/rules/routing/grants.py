"""References across namespaces: what needs a ReferenceGrant, and grants that grant nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._routes import (
    GATEWAY_GROUP,
    ROUTE_KINDS,
    backends,
    certificate_references,
    gateways,
    listeners,
    routes,
    shown,
)
from provisioner.lint.values import has_hole, is_known, items, text
from provisioner.lint.world import Object, World

_GROUPS = dict.fromkeys((*ROUTE_KINDS, "Gateway", "ListenerSet"), GATEWAY_GROUP)


@dataclass(frozen=True, eq=False)
class _Crossing:
    """A reference into another namespace."""

    at: Object
    path: FieldPath
    group: str
    kind: str
    name: str
    namespace: str


def _crossings(world: World) -> Iterator[_Crossing]:
    for route in routes(world):
        for reference in backends(route):
            group, kind = reference.value.get("group", ""), reference.value.get("kind", "Service")
            namespace = reference.namespace
            if not reference.is_foreign or not is_known(namespace) or has_hole(str(namespace)):
                continue
            if reference.name and isinstance(group, str) and isinstance(kind, str) and namespace != route.namespace:
                yield _Crossing(route, reference.path, group, kind, reference.name, str(namespace))
    for owner in (*gateways(world), *world.of_kind("ListenerSet", "XListenerSet")):
        for one in listeners(owner):
            for path, name, space in certificate_references(one):
                if space and not has_hole(space) and space != owner.namespace:
                    yield _Crossing(owner, path, "", "Secret", name, space)


def _grants(world: World, namespace: str) -> list[Object]:
    return [found for found in world.of_kind("ReferenceGrant") if found.namespace in (None, namespace)]


def _is_granted(crossing: _Crossing, grant: Object) -> bool:
    is_from = any(
        text(item, "group") == crossing.at.group
        and text(item, "kind") == crossing.at.kind
        and (crossing.at.namespace is None or text(item, "namespace") in (None, crossing.at.namespace))
        for _, item in items(grant.value, "spec", "from")
    )
    is_to = any(
        (text(item, "group") or "") == crossing.group
        and text(item, "kind") == crossing.kind
        and text(item, "name") in (None, "", crossing.name)
        for _, item in items(grant.value, "spec", "to")
    )
    return is_from and is_to


def _shows(world: World, crossing: _Crossing) -> bool:
    """Whether the folder shows the namespace that a reference points into."""
    return (
        world.has("ReferenceGrant")
        or bool(shown(world).find(crossing.kind, crossing.name, crossing.namespace))
        or world.find("Namespace", crossing.namespace) is not None
    )


@lru_cache(maxsize=2)
def _ungranted(world: World) -> tuple[tuple[_Crossing, Hit], ...]:
    return tuple(_ungranted_crossings(world))


def _ungranted_crossings(world: World) -> Iterator[tuple[_Crossing, Hit]]:
    for crossing in _crossings(world):
        grants = _grants(world, crossing.namespace)
        if any(_is_granted(crossing, grant) for grant in grants):
            continue
        near = f"; ReferenceGrant {grants[0].name} does not fit" if grants else ""
        yield (
            crossing,
            Hit(
                at=crossing.at,
                path=(*crossing.path, "namespace"),
                message=f"referring to {crossing.kind} `{crossing.name}` in namespace `{crossing.namespace}`:"
                f" no ReferenceGrant there allows it{near}",
                fix=f"add a ReferenceGrant to namespace `{crossing.namespace}`: from {crossing.at.kind} of namespace"
                f" `{crossing.at.namespace or '(its own)'}` to {crossing.kind} `{crossing.name}`",
            ),
        )


@rule("route-foreign-backend-without-grant", Severity.ERROR)
def route_foreign_backend_without_grant(world: World) -> Iterator[Hit]:
    """A route leads into another namespace, which does not allow it.

    A backend of another namespace needs a ReferenceGrant in that namespace. Without it the reference is RefNotPermitted
    and requests are answered with 500 or 503 (aibrix issue 1489). Said where the folder shows that namespace.
    """
    yield from (hit for one, hit in _ungranted(world) if one.at.kind in ROUTE_KINDS and _shows(world, one))


@rule("route-foreign-backend", Severity.INFO)
def route_foreign_backend(world: World) -> Iterator[Hit]:
    """A route leads into another namespace, which the folder does not show.

    It needs a ReferenceGrant there; without one it is RefNotPermitted and requests are answered with 500 or 503.
    """
    yield from (hit for one, hit in _ungranted(world) if one.at.kind in ROUTE_KINDS and not _shows(world, one))


@rule("listener-foreign-certificate-without-grant", Severity.ERROR)
def listener_foreign_certificate_without_grant(world: World) -> Iterator[Hit]:
    """A listener takes its certificate from another namespace, which does not allow it.

    A Secret of another namespace needs a ReferenceGrant there; without it the listener gets ResolvedRefs False, reason
    RefNotPermitted, and serves no TLS. The grant names the kind that refers: a listener of a ListenerSet needs one from
    ListenerSet, one from Gateway does not count. Said where the folder shows that namespace.
    """
    yield from (hit for one, hit in _ungranted(world) if one.at.kind not in ROUTE_KINDS and _shows(world, one))


@rule("listener-foreign-certificate", Severity.WARNING)
def listener_foreign_certificate(world: World) -> Iterator[Hit]:
    """A listener takes its certificate from another namespace, which the folder does not show.

    It needs a ReferenceGrant there; without one the listener serves no TLS.
    """
    yield from (hit for one, hit in _ungranted(world) if one.at.kind not in ROUTE_KINDS and not _shows(world, one))


@rule("grant-malformed", Severity.ERROR)
def grant_malformed(world: World) -> Iterator[Hit]:
    """A ReferenceGrant names a kind or a namespace in a way that never fits.

    There are no wildcards: `namespace: "*"` is no namespace. Routes are in group `gateway.networking.k8s.io`, without
    version; Services and Secrets are in the core group, written `group: ""`.
    """
    for grant in world.of_kind("ReferenceGrant"):
        for side in ("from", "to"):
            for path, item in items(grant.value, "spec", side):
                trouble = _trouble(item, side)
                if trouble:
                    key, reason, fix = trouble
                    yield Hit(
                        at=grant,
                        path=(*path, key),
                        message=f"granting references: {reason}: `{text(item, key)}`",
                        fix=fix,
                    )


def _trouble(item: Any, side: str) -> tuple[str, str, str] | None:
    kind, group, namespace = text(item, "kind") or "", text(item, "group") or "", text(item, "namespace")
    if side == "from" and namespace is not None and "*" in namespace:
        return "namespace", "there are no wildcards for namespaces", "name each namespace in an entry of its own"
    if "*" in kind:
        return "kind", "there are no wildcards for kinds", "name each kind in an entry of its own"
    right = _GROUPS.get(kind, "" if kind in ("Service", "Secret", "ConfigMap") else None)
    if right is not None and group != right:
        return "group", f"{kind} is not in this group", f"write `group: {right or chr(34) * 2}`"
    return None


@rule("grant-matches-nothing", Severity.WARNING)
def grant_matches_nothing(world: World) -> Iterator[Hit]:
    """A ReferenceGrant allows what nobody asks for.

    The folder has references into the grant's namespace, and this grant fits none of them: as a rule the namespace in
    `from` or the name in `to` is wrong. A grant for references that the folder does not show is left alone.
    """
    crossings = list(_crossings(world))
    for grant in world.of_kind("ReferenceGrant"):
        aimed = [one for one in crossings if grant.namespace in (None, one.namespace)]
        if aimed and not any(_is_granted(one, grant) for one in aimed):
            yield Hit(
                at=grant,
                path=("spec",),
                message=f"granting references: none of those into the namespace fits: `{grant.name}`",
                fix=f"write `from` and `to` as {aimed[0].at.title} needs them",
            )


@rule("grant-to-parent", Severity.WARNING)
def grant_to_parent(world: World) -> Iterator[Hit]:
    """A ReferenceGrant allows references to a Gateway, which nobody asks.

    Routes and ListenerSets attach to a parent in another namespace without a grant: the Gateway decides by
    `allowedRoutes` of its listeners and by `allowedListeners` (Gateway API, Cross-Namespace routing).
    """
    for grant in world.of_kind("ReferenceGrant"):
        for path, item in items(grant.value, "spec", "to"):
            if text(item, "kind") in ("Gateway", "ListenerSet"):
                message = f"granting references: attaching to it takes no grant: `{item['kind']}`"
                fix = "remove it; set allowedRoutes or allowedListeners of the Gateway"
                yield Hit(at=grant, path=(*path, "kind"), message=message, fix=fix)


@rule("grant-in-wrong-namespace", Severity.ERROR)
def grant_in_wrong_namespace(world: World) -> Iterator[Hit]:
    """A ReferenceGrant stands in another namespace than what it is for.

    A grant is given by the owner: it stands in the namespace of the Service or Secret, not in that of the route.
    Anywhere else it grants nothing (Gateway API, ReferenceGrant).
    """
    told: set[int] = set()
    for crossing, _ in _ungranted(world):
        for grant in world.of_kind("ReferenceGrant"):
            if grant.namespace not in (None, crossing.namespace) and _is_granted(crossing, grant):
                if id(grant) not in told:
                    yield Hit(
                        at=grant,
                        path=("metadata", "namespace"),
                        message=f"granting references to {crossing.kind} `{crossing.name}`: it is in namespace"
                        f" `{crossing.namespace}`, the grant in: `{grant.namespace}`",
                        fix=f"write `namespace: {crossing.namespace}`",
                    )
                told.add(id(grant))


@rule("grant-for-every-name", Severity.INFO)
def grant_for_every_name(world: World) -> Iterator[Hit]:
    """A ReferenceGrant allows every Secret of its namespace.

    Without `name` in `to` whoever may write in the other namespace reaches every Secret of this one by a Gateway. Name
    the one that is meant.
    """
    for grant in world.of_kind("ReferenceGrant"):
        for path, item in items(grant.value, "spec", "to"):
            if text(item, "kind") == "Secret" and not text(item, "name"):
                yield Hit(
                    at=grant,
                    path=path,
                    message=f"granting references: every Secret of the namespace may be used: `{grant.name}`",
                    fix="add `name`",
                )

"""How routes attach: to a Gateway that exists, at a listener that takes their kind, namespace and hostname.

The Gateway's own rules are `gateways` and `listeners`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.joins.selectors import NAMESPACE_NAME, namespace_labels, selector
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._certificates import certificate_names, certificate_of, covers
from provisioner.lint.rules.routing._hostnames import hostname_fault, hosts_meet
from provisioner.lint.rules.routing._routes import (
    GATEWAY_GROUP,
    Listener,
    Reference,
    certificate_references,
    hostnames,
    listeners,
    parents,
    routes,
    rules,
    shown,
)
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import Object, World

_PROTOCOLS: Mapping[str, frozenset[str]] = {
    "HTTPRoute": frozenset({"HTTP", "HTTPS"}),
    "GRPCRoute": frozenset({"HTTP", "HTTPS"}),
    "TLSRoute": frozenset({"TLS"}),
    "TCPRoute": frozenset({"TCP", "TLS"}),
    "UDPRoute": frozenset({"UDP"}),
}
"""The listener protocols that take each kind of route (Gateway API, Protocol)."""
_EVERY = frozenset().union(*_PROTOCOLS.values())
_OWNERS = (("ListenerSet", GATEWAY_GROUP), ("XListenerSet", "gateway.networking.x-k8s.io"))


@dataclass(frozen=True, eq=False)
class _Attachment:
    """A route at an owner of listeners: those that the reference chooses."""

    parent: Reference
    owner: Object
    chosen: Sequence[Listener]

    @property
    def route(self) -> Object:
        return self.parent.route

    @cached_property
    def fitting(self) -> list[Listener]:
        """The chosen listeners whose protocol takes the route's kind."""
        wanted = _PROTOCOLS.get(self.route.kind, frozenset())
        return [one for one in self.chosen if one.protocol in wanted or one.protocol not in _EVERY]


def _parent_kind(parent: Reference) -> str | None:
    if parent.is_gateway:
        return "Gateway"
    return next((kind for kind, group in _OWNERS if parent.is_to(group, kind, GATEWAY_GROUP, "Gateway")), None)


def _owner(world: World, parent: Reference) -> Object | None:
    kind = _parent_kind(parent)
    found = shown(world).find(kind, parent.name, parent.namespace) if kind and parent.name else None
    return found if found and found.group.startswith("gateway.networking.") else None


@lru_cache(maxsize=2)
def _attachments(world: World) -> tuple[_Attachment, ...]:
    return tuple(one for route in routes(world) for one in _attachments_of(world, route))


def _attachments_of(world: World, route: Object) -> Iterator[_Attachment]:
    for parent in parents(route):
        owner = _owner(world, parent)
        if owner is None or not isinstance(look(owner.value, "spec", "listeners"), list):
            continue
        section = parent.value.get("sectionName")
        chosen = [
            one
            for one in listeners(owner)
            if (section is None or one.name == section) and (parent.port is None or one.port == parent.port)
        ]
        yield _Attachment(parent, owner, chosen)


@rule("route-gateway-unknown", Severity.ERROR)
def route_gateway_unknown(world: World) -> Iterator[Hit]:
    """A route attaches to a Gateway that does not exist.

    Nobody reports it: no controller feels responsible, the route has no status, and its hostname answers nothing.
    Without `namespace` the Gateway is looked for in the route's own namespace. Only said where the folder holds
    Gateways of that namespace, or one of that name in another.
    """
    there = shown(world)
    for route in routes(world):
        for parent in parents(route):
            kind, name = _parent_kind(parent), parent.name
            if kind is None or name is None or there.find(kind, name, parent.namespace):
                continue
            other = there.elsewhere(kind, name, parent.namespace)
            is_set = kind == "Gateway" and any(there.find(one, name, parent.namespace) for one, _ in _OWNERS)
            if not other and not is_set and not there.lacks(kind, name, parent.namespace):
                continue
            near = there.near(kind, name, parent.namespace)
            yield Hit(
                at=route,
                path=(*parent.path, "namespace" if other and parent.is_foreign else "name"),
                message=f"attaching route: no such {kind} in namespace `{parent.namespace or '(default)'}`: `{name}`",
                fix="write `kind: ListenerSet`"
                if is_set
                else f"write `namespace: {other}`"
                if other
                else f"write `{near}`"
                if near
                else "name a Gateway that exists",
            )


@rule("route-section-unknown", Severity.ERROR)
def route_section_unknown(world: World) -> Iterator[Hit]:
    """A route attaches to a listener that its Gateway does not have.

    `sectionName` is the name of a listener and `port` its port; together they must fit one. The route is not accepted,
    reason NoMatchingParent.
    """
    for one in _attachments(world):
        given = [key for key in ("sectionName", "port") if one.parent.value.get(key) is not None]
        if given and not one.chosen:
            names = ", ".join(f"{found.name} ({found.port})" for found in listeners(one.owner))
            yield Hit(
                at=one.route,
                path=(*one.parent.path, given[0]),
                message=f"attaching to {one.owner.title}: it has no such listener: `{one.parent.value[given[0]]}`",
                fix=f"name one of its listeners: {names}",
            )


@rule("route-protocol-mismatch", Severity.ERROR)
def route_protocol_mismatch(world: World) -> Iterator[Hit]:
    """A route attaches to listeners that do not take its kind.

    HTTPRoute and GRPCRoute need protocol HTTP or HTTPS, TLSRoute needs TLS, TCPRoute needs TCP. A listener that
    passes TLS through sees no HTTP. The route is not accepted, reason NotAllowedByListeners.
    """
    for one in _attachments(world):
        if one.chosen and not one.fitting and one.route.kind in _PROTOCOLS:
            protocols = ", ".join(sorted({found.protocol for found in one.chosen}))
            yield Hit(
                at=one.route,
                path=one.parent.path,
                message=f"attaching {one.route.kind} to {one.owner.title}: the protocol does not fit: `{protocols}`",
                fix=f"attach to a listener of protocol {' or '.join(sorted(_PROTOCOLS[one.route.kind]))}",
            )


@rule("route-kind-not-allowed", Severity.ERROR)
def route_kind_not_allowed(world: World) -> Iterator[Hit]:
    """A listener allows other kinds of routes only.

    `allowedRoutes.kinds` lists what may attach; the route is not accepted, reason NotAllowedByListeners.
    """
    for one in _attachments(world):
        if one.fitting and not any(_allows_kind(found, one.route) for found in one.fitting):
            yield Hit(
                at=one.route,
                path=one.parent.path,
                message=f"attaching to {one.owner.title}: its listeners do not allow kind: `{one.route.kind}`",
                fix=f"add `{one.route.kind}` to `allowedRoutes.kinds` of the listener",
            )


def _allows_kind(listener: Listener, route: Object) -> bool:
    kinds = [item for _, item in items(listener.value, "allowedRoutes", "kinds")]
    return not kinds or any(
        text(item, "kind") == route.kind and look(item, "group") in (None, GATEWAY_GROUP) for item in kinds
    )


@rule("route-namespace-not-allowed", Severity.ERROR)
def route_namespace_not_allowed(world: World) -> Iterator[Hit]:
    """A listener does not let routes of this namespace attach.

    `allowedRoutes.namespaces.from` is `Same` when it is left out, so only routes beside the Gateway attach;
    `Selector` wants labels on the route's Namespace. The route is not accepted, reason NotAllowedByListeners. Nothing
    is said about a Namespace that the folder does not hold.
    """
    for one in _attachments(world):
        fitting = [found for found in one.fitting if _allows_kind(found, one.route)]
        reasons = [_refused_namespace(world, found, one.route) for found in fitting]
        if reasons and all(reasons):
            yield Hit(
                at=one.route,
                path=one.parent.path,
                message=f"attaching to {one.owner.title}: {reasons[0]}: `{one.route.namespace}`",
                fix="widen `allowedRoutes.namespaces` of the listener, or label the Namespace as its selector wants",
            )


def _refused_namespace(world: World, listener: Listener, route: Object) -> str | None:
    """Why a listener refuses a route's namespace, None where it does not or nobody knows."""
    namespace, home = route.namespace, listener.owner.namespace
    rule_of = look(listener.value, "allowedRoutes", "namespaces", "from")
    if rule_of in (None, "Same"):
        is_other = namespace is not None and home is not None and namespace != home
        return "it allows its own namespace only, not" if is_other else None
    if rule_of != "Selector" or namespace is None:
        return None
    found = world.find("Namespace", namespace)
    wanted = selector(look(listener.value, "allowedRoutes", "namespaces", "selector"))
    if wanted is None:
        return None
    if wanted.labels.get(NAMESPACE_NAME) not in (None, namespace):
        return "its selector names another namespace than"
    is_chosen = found is None or wanted.matches(namespace_labels(found))
    return None if is_chosen else "its selector does not choose namespace"


@rule("route-hostname-not-served", Severity.ERROR)
def route_hostname_not_served(world: World) -> Iterator[Hit]:
    """No listener answers for a hostname of the route.

    A listener's hostname and the route's must have a name in common; `*.acme.example.com` covers neither
    `acme.example.com` nor another domain. A route none of whose hostnames fits is not accepted, reason
    NoMatchingListenerHostname; one that does not fit is dropped without a word.
    """
    for route in routes(world, "HTTPRoute", "GRPCRoute", "TLSRoute"):
        found = [one for one in _attachments_of(world, route) if one.fitting]
        if not found or len(found) < sum(1 for _ in parents(route)):
            continue
        serving = [listener for one in found for listener in one.fitting]
        if any(listener.is_open for listener in serving):
            continue
        for path, hostname in hostnames(route):
            is_served = any(hosts_meet(hostname, listener.hostname) for listener in serving)
            if not is_served and hostname_fault(hostname) is None:
                known = ", ".join(sorted({listener.hostname or "*" for listener in serving}))
                yield Hit(
                    at=route,
                    path=path,
                    message=f"serving hostname: no listener of {found[0].owner.title} answers for it: `{hostname}`",
                    fix=f"use a name under: {known}",
                )


@rule("route-hostname-without-certificate", Severity.WARNING)
def route_hostname_without_certificate(world: World) -> Iterator[Hit]:
    """A route's hostname fits a listener's, and no certificate of that listener is for it.

    For Gateway API `*.example.com` means `b.a.example.com` too; in a certificate the wildcard covers one label. The
    route is accepted, and every client refuses the connection.
    """
    for one in _attachments(world):
        for path, name in hostnames(one.route):
            serving = [found for found in one.fitting if found.protocol == "HTTPS" and hosts_meet(found.hostname, name)]
            is_wide = all(not found.is_open and found.hostname != name for found in serving)
            certified = [_certified(world, found) for found in serving] if is_wide else []
            if certified and all(certified) and not any(covers(item, name) for names in certified for item in names):
                listed = ", ".join(dict.fromkeys(item for names in certified for item in names))
                message = f"serving hostname: the certificate is for {listed} only, not for `{name}`"
                yield Hit(at=one.route, path=path, message=message, fix=f"add `{name}` to its dnsNames, or rename it")


def _certified(world: World, one: Listener) -> list[str]:
    """The names of all certificates of a listener; none where they are not all known."""
    found = [
        certificate_names(certificate_of(world, name, namespace or one.owner.namespace))
        for _, name, namespace in certificate_references(one)
    ]
    is_known = all(found) and len(found) == len(list(items(one.value, "tls", "certificateRefs")))
    return [item for names in found for item in names] if is_known else []


@rule("route-redirect-loops", Severity.WARNING)
def route_redirect_loops(world: World) -> Iterator[Hit]:
    """A redirect to HTTPS also takes the requests that came by HTTPS.

    Without `sectionName` or `port` a route attaches to every listener of the Gateway. On the one for HTTPS a redirect
    to `https` of the same name leads to itself: `too many redirects` for each request that no other route takes.
    """
    for one in _attachments(world):
        loops = [path for path, part in rules(one.route) if _redirects_to_https(part)]
        if not loops or one.route.kind != "HTTPRoute":
            continue
        names: list[str | None] = [name for _, name in hostnames(one.route)]
        for found in one.fitting:
            is_met = any(hosts_meet(name, found.hostname) for name in names or [None]) and not found.is_open
            if found.protocol == "HTTPS" and is_met and _surely_allows(world, found, one.route):
                message = f"redirecting to HTTPS: requests of the HTTPS listener are redirected too: `{found.name}`"
                fix = "add the `sectionName` of the HTTP listener to the parent"
                yield Hit(at=one.route, path=one.parent.path, message=message, fix=fix)
                break


def _redirects_to_https(part: Mapping[str, Any]) -> bool:
    """Whether a rule redirects everything to itself by HTTPS."""
    for _, item in items(part, "filters"):
        redirect = mapping(item, "requestRedirect")
        if redirect.get("scheme") == "https" and set(redirect) <= {"scheme", "statusCode", "port"}:
            return redirect.get("port") in (None, 443)
    return False


def _surely_allows(world: World, listener: Listener, route: Object) -> bool:
    """Whether a listener takes a route, and the folder shows it."""
    is_chosen_by_label = look(listener.value, "allowedRoutes", "namespaces", "from") == "Selector"
    is_known = not is_chosen_by_label or world.find("Namespace", route.namespace or "") is not None
    return is_known and _allows_kind(listener, route) and _refused_namespace(world, listener, route) is None


@rule("route-without-parent", Severity.ERROR)
def route_without_parent(world: World) -> Iterator[Hit]:
    """A route attaches to nothing.

    Without `parentRefs` no controller serves it.
    """
    for route in routes(world):
        spec = mapping(route.value, "spec")
        if spec and not spec.get("parentRefs"):
            yield Hit(
                at=route,
                path=("spec",),
                message=f"attaching route: it names no parent: `{route.name}`",
                fix="add `parentRefs` with the name and namespace of a Gateway",
            )


@rule("route-parent-twice", Severity.ERROR)
def route_parent_twice(world: World) -> Iterator[Hit]:
    """A route names one Gateway several times without telling the listeners apart.

    Two references to one parent need different `sectionName` or `port`; the API server refuses the route.
    """
    for route in routes(world):
        seen: set[str] = set()
        for parent in parents(route):
            spot = [parent.value.get(key) for key in ("group", "kind", "name", "namespace", "sectionName", "port")]
            key = str(spot)
            if key in seen:
                yield Hit(
                    at=route,
                    path=parent.path,
                    message=f"attaching route: the same parent is named before: `{parent.value.get('name')}`",
                    fix="remove one of them, or give each a `sectionName`",
                )
            seen.add(key)

"""Hostnames of routes, listeners and Ingresses: their form, whose they are, and who else has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._hostnames import hostname_fault, hosts_meet
from provisioner.lint.rules.routing._ingresses import ingresses
from provisioner.lint.rules.routing._routes import gateways, listeners, parents, routes
from provisioner.lint.values import has_hole, items, look, mapping, text
from provisioner.lint.world import Object, World


@dataclass(frozen=True, slots=True)
class _Name:
    """A hostname and where it is written."""

    at: Object
    path: FieldPath
    value: str


@lru_cache(maxsize=2)
def _names(world: World) -> tuple[_Name, ...]:
    return tuple(_written_names(world))


def _written_names(world: World) -> Iterator[_Name]:
    for route in routes(world, "HTTPRoute", "GRPCRoute", "TLSRoute"):
        for path, item in items(route.value, "spec", "hostnames"):
            yield from _known(route, path, item)
    for owner in (*gateways(world), *world.of_kind("ListenerSet", "XListenerSet")):
        for listener in listeners(owner):
            yield from _known(owner, (*listener.path, "hostname"), listener.value.get("hostname"))
    for ingress in ingresses(world):
        for path, item in items(ingress.value, "spec", "rules"):
            yield from _known(ingress, (*path, "host"), look(item, "host"))
        for path, item in items(ingress.value, "spec", "tls"):
            for inner, host in items(item, "hosts"):
                yield from _known(ingress, (*path, *inner), host)


def _known(at: Object, path: FieldPath, value: object) -> Iterator[_Name]:
    if isinstance(value, str) and value and not has_hole(value) and "${" not in value:
        yield _Name(at, path, value)


@rule("hostname-malformed", Severity.ERROR)
def hostname_malformed(world: World) -> Iterator[Hit]:
    """A hostname is none: a URL, an address, a port, capitals, or a wildcard in the middle.

    Gateway API and Ingress want a DNS name in small letters; `*.` may only stand at its beginning, for whole labels,
    and never alone. No scheme, no port, no path, no IP address. The API server refuses the object.
    """
    for name in _names(world):
        fault = hostname_fault(name.value)
        if fault:
            yield Hit(
                at=name.at,
                path=name.path,
                message=f"reading hostname: {fault[0]}: `{name.value}`",
                fix=fault[1],
            )


@rule("hostname-by-ingress-and-route", Severity.WARNING)
def hostname_by_ingress_and_route(world: World) -> Iterator[Hit]:
    """An Ingress and a route of Gateway API answer for one hostname.

    Two controllers with two addresses serve one name: DNS leads to one of them, timeouts and access rules differ, and a
    change to the other does nothing. While moving from one to the other that is meant; afterwards it is left over.
    """
    by_ingress = {name.value: name.at for name in _names(world) if name.at.kind == "Ingress" and "tls" not in name.path}
    for name in _names(world):
        if name.at.kind in ("HTTPRoute", "GRPCRoute") and name.value in by_ingress:
            yield Hit(
                at=name.at,
                path=name.path,
                message=f"serving hostname: {by_ingress[name.value].title} serves it too: `{name.value}`",
                fix="remove one of both",
            )


@rule("hostname-not-allowed-by-import", Severity.ERROR)
def hostname_not_allowed_by_import(world: World) -> Iterator[Hit]:
    """A route of a tenant cluster uses a hostname that the imported Gateway does not allow it.

    `sync.fromHost.gateways.allowedRoutes.overrides[].allowedHostnames` limits what routes of the tenant cluster may
    ask of the shared Gateway; a route with another name is not synced.
    """
    allowed = _allowed_by_import(world)
    for route in routes(world, "HTTPRoute", "TLSRoute") if allowed else ():
        for parent in parents(route):
            names = allowed.get((parent.namespace or "", parent.name or ""))
            for path, item in items(route.value, "spec", "hostnames") if names else ():
                is_open = not isinstance(item, str) or has_hole(item)
                if not is_open and names and not any(hosts_meet(item, name) for name in names):
                    yield Hit(
                        at=route,
                        path=path,
                        message=f"serving hostname: Gateway `{parent.name}` does not allow it here: `{item}`",
                        fix=f"use a name under: {', '.join(names)}",
                    )


def _allowed_by_import(world: World) -> dict[tuple[str, str], list[str]]:
    """The hostnames that tenant clusters may use, by namespace and name of the Gateway in the tenant cluster."""
    found: dict[tuple[str, str], list[str]] = {}
    for tenant in world.tenants:
        base = mapping(tenant.value, "sync", "fromHost", "gateways")
        names = {text(base, "mappings", "byName", key): key for key in mapping(base, "mappings", "byName")}
        for virtual, host in names.items():
            for _, override in items(base, "allowedRoutes", "overrides"):
                same = host == f"{text(override, 'hostNamespace')}/{text(override, 'name')}"
                hosts = [item for _, item in items(override, "allowedHostnames")]
                known = [item for item in hosts if isinstance(item, str) and not has_hole(item)]
                if same and known and len(known) == len(hosts) and virtual and "/" in virtual:
                    namespace, _, name = virtual.partition("/")
                    found.setdefault((namespace, name), []).extend(known)
    return found


@rule("hostname-of-another-tenant", Severity.ERROR)
def hostname_of_another_tenant(world: World) -> Iterator[Hit]:
    """A route of one tenant uses a hostname under another tenant's domain.

    The label `tenantry.io/tenant` says whose a route is. The listeners of a tenant's own Gateway name its domain; a
    route that carries the label of another tenant takes over names that do not belong to it.
    """
    domains: dict[str, str] = {}
    for gateway in gateways(world):
        tenant = gateway.labels.get("tenantry.io/tenant")
        for listener in listeners(gateway):
            if tenant and listener.hostname and listener.hostname.startswith("*."):
                domains[listener.hostname] = tenant
    for name in _names(world):
        tenant = name.at.labels.get("tenantry.io/tenant")
        if name.at.kind not in ("HTTPRoute", "GRPCRoute", "TLSRoute", "Ingress") or not tenant:
            continue
        owner = next((domains[domain] for domain in domains if hosts_meet(name.value, domain)), tenant)
        if owner != tenant:
            yield Hit(
                at=name.at,
                path=name.path,
                message=f"serving hostname for tenant `{tenant}`: its domain belongs to `{owner}`: `{name.value}`",
                fix=f"use a name under the domain of `{tenant}`",
            )

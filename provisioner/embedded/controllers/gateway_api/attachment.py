"""Which routes attach to which listeners of which Gateways, and the conditions that say so, with the reasons of the
Gateway API. Pure.

Supported is what the product's manifests use: HTTPRoutes whose rules match by path and forward to Services. A route
that asks for more is refused (`UnsupportedValue`) instead of being half obeyed.
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.conditions import Condition
from provisioner.embedded.controllers.core.selector import selects
from provisioner.embedded.controllers.gateway_api.world import Reference, World, meets, parent_gateway

_ROUTE_SOURCE = ("gateway.networking.k8s.io", "HTTPRoute")


def derive_accepted(world: World, gateway: Json, route: Json, parent: Json) -> Condition:
    """The `Accepted` condition of a route for one of its parentRefs, which names `gateway`."""
    named = list(_named_listeners(gateway, parent))
    if not named:
        return _refused("NoMatchingParent", "no listener of the Gateway has this section name and port")
    allowed = [listener for listener in named if _allows(world, gateway, listener, route)]
    if not allowed:
        return _refused("NotAllowedByListeners", "no listener admits HTTPRoutes of this namespace")
    if not any(_common_hostnames(listener, route) for listener in allowed):
        return _refused("NoMatchingListenerHostname", "no listener's hostname meets one of the route's")
    if unsupported := _unsupported(route):
        return _refused("UnsupportedValue", unsupported)
    return Condition("Accepted", met=True, reason="Accepted", message="the route is accepted")


def derive_resolved(world: World, route: Json) -> Condition:
    """The `ResolvedRefs` condition of a route: every backend is a Service that exists and may be named."""
    for reference in _backend_references(route):
        if problem := backend_problem(world, route, reference):
            return Condition("ResolvedRefs", met=False, reason=problem[0], message=problem[1])
    return Condition("ResolvedRefs", met=True, reason="ResolvedRefs", message="all references are resolved")


def backend_problem(world: World, route: Json, reference: Json) -> tuple[str, str] | None:
    """Reason and message of what is wrong with a backendRef, or None."""
    namespace = route["metadata"]["namespace"]
    target = (reference.get("namespace") or namespace, reference["name"])
    what = f"{reference.get('kind', 'Service')} {target[0]}/{target[1]}"
    if (reference.get("group", ""), reference.get("kind", "Service")) != ("", "Service"):
        return "InvalidKind", f"a backend must be a Service: {what}"
    if not world.is_granted((*_ROUTE_SOURCE, namespace), ("", "Service", *target)):
        return "RefNotPermitted", f"no ReferenceGrant in the backend's namespace permits: {what}"
    service = world.services.get(target)
    if service is None:
        return "BackendNotFound", f"no such backend: {what}"
    ports = [port["port"] for port in service["spec"].get("ports") or ()]
    if reference.get("port") not in ports:
        return "BackendNotFound", f"{what} has no port: {reference.get('port')}"
    return None


def attached_routes(world: World, gateway_reference: Reference, listener: Json) -> list[tuple[Json, list[str]]]:
    """The accepted routes of a listener, each with the hostnames under which it serves them, oldest route first."""
    gateway = world.gateways[gateway_reference]
    found = []
    for route in sorted(world.routes.values(), key=_age):
        serves = any(
            parent_gateway(route, parent) == gateway_reference
            and listener in _named_listeners(gateway, parent)
            and derive_accepted(world, gateway, route, parent).met
            for parent in route["spec"].get("parentRefs") or ()
        )
        hostnames = _common_hostnames(listener, route)
        if serves and hostnames and _allows(world, gateway, listener, route):
            found.append((route, hostnames))
    return found


def _refused(reason: str, message: str) -> Condition:
    return Condition("Accepted", met=False, reason=reason, message=message)


def _age(route: Json) -> tuple[str, str, str]:
    metadata = route["metadata"]
    return metadata.get("creationTimestamp", ""), metadata["namespace"], metadata["name"]


def _named_listeners(gateway: Json, parent: Json) -> Iterator[Json]:
    for listener in gateway["spec"].get("listeners") or ():
        if parent.get("sectionName") in (None, listener["name"]) and parent.get("port") in (None, listener["port"]):
            yield listener


def _allows(world: World, gateway: Json, listener: Json, route: Json) -> bool:
    if listener["protocol"] not in ("HTTP", "HTTPS"):
        return False
    allowed = listener.get("allowedRoutes") or {}
    kinds = allowed.get("kinds") or ()
    if kinds and not any(entry["kind"] == "HTTPRoute" for entry in kinds):
        return False
    namespace = route["metadata"]["namespace"]
    namespaces = allowed.get("namespaces") or {}
    match namespaces.get("from", "Same"):
        case "All":
            return True
        case "Selector":
            found = world.namespaces.get(("", namespace))
            labels = (found["metadata"].get("labels") or {}) if found else {}
            return found is not None and selects(namespaces.get("selector") or {}, labels)
        case _:
            return bool(namespace == gateway["metadata"]["namespace"])


def _common_hostnames(listener: Json, route: Json) -> list[str]:
    pattern = listener.get("hostname")
    hostnames = route["spec"].get("hostnames") or ()
    if not hostnames:
        return [pattern or "*"]
    return [common for hostname in hostnames if (common := meets(pattern, hostname)) is not None]


def _backend_references(route: Json) -> Iterator[Json]:
    for rule in route["spec"].get("rules") or ():
        yield from rule.get("backendRefs") or ()


def _unsupported(route: Json) -> str | None:
    for number, rule in enumerate(route["spec"].get("rules") or ()):
        for match in rule.get("matches") or ():
            extra = sorted(match.keys() - {"path"})
            if extra:
                return f"the embedded Gateway matches by path only: rules[{number}].matches: {', '.join(extra)}"
            if (match.get("path") or {}).get("type", "PathPrefix") not in ("PathPrefix", "Exact"):
                return f"the embedded Gateway knows PathPrefix and Exact only: rules[{number}].matches"
        if rule.get("filters") or any(reference.get("filters") for reference in rule.get("backendRefs") or ()):
            return f"the embedded Gateway has no filters: rules[{number}].filters"
    return None

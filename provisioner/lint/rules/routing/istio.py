"""Routes of Istio: gateways, hosts, ports and subsets that lead nowhere.

A VirtualService is accepted whatever it names; what is not there is told by nobody, and requests get 404 or 503.
Sources: Istio's reference, "Virtual Service", "Gateway", "Destination Rule" and "Protocol Selection".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.selectors import equality, nothing_selected, selected
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._durations import seconds
from provisioner.lint.rules.routing._hostnames import hosts_meet
from provisioner.lint.rules.routing._routes import serves_models, shown
from provisioner.lint.values import has_hole, items, literal, look, mapping, text, texts, whole
from provisioner.lint.world import Object, World

_GROUP = "networking.istio.io"
_MESH = "mesh"
_CLUSTER = re.compile(r"(?P<name>[a-z0-9-]+)(?:\.(?P<space>[a-z0-9-]+)(?:\.svc(?:\.cluster\.local)?)?)?")
_PROTOCOLS = "grpc|grpc-web|http|http2|https|mongo|mysql|redis|tcp|tls|udp"
_NAMED = re.compile(rf"({_PROTOCOLS})(-.*)?")


@dataclass(frozen=True, eq=False)
class _Destination:
    """Where a route of a VirtualService leads, and the Service that this is, where it is one of the cluster."""

    route: Object
    path: FieldPath
    value: Mapping[str, Any]

    @property
    def host(self) -> str:
        """As it is written; empty where it is not known."""
        return literal(self.value, "host") or ""

    @property
    def service(self) -> tuple[str, str | None] | None:
        """Name and namespace of a Service; None for a name from elsewhere."""
        found = _CLUSTER.fullmatch(self.host)
        if found is None or (found["space"] and ".svc" not in self.host and self.host.count(".") > 1):
            return None
        return found["name"], found["space"] or self.route.namespace


def _of_istio(world: World, kind: str) -> Iterator[Object]:
    return (found for found in world.of_kind(kind) if found.group == _GROUP)


def _destinations(world: World) -> Iterator[_Destination]:
    for route in _of_istio(world, "VirtualService"):
        for protocol in ("http", "tls", "tcp"):
            for path, part in items(route.value, "spec", protocol):
                for inner, item in items(part, "route"):
                    yield _Destination(route, (*path, *inner, "destination"), mapping(item, "destination"))
                if mapping(part, "mirror"):
                    yield _Destination(route, (*path, "mirror"), mapping(part, "mirror"))
                for inner, item in items(part, "mirrors"):
                    yield _Destination(route, (*path, *inner, "destination"), mapping(item, "destination"))


@lru_cache(maxsize=2)
def _gateways(world: World) -> Mapping[str, Sequence[Object]]:
    """The Gateways of Istio by name."""
    found: dict[str, list[Object]] = {}
    for one in _of_istio(world, "Gateway"):
        found.setdefault(one.name, []).append(one)
    return found


@lru_cache(maxsize=2)
def _names_of_gateways(world: World) -> Mapping[str | None, Sequence[str]]:
    """The names of Istio's Gateways by namespace."""
    found: dict[str | None, list[str]] = {}
    for one in _of_istio(world, "Gateway"):
        found.setdefault(one.namespace, []).append(one.name)
    return {space: sorted(names) for space, names in found.items()}


def _bound(world: World, route: Object) -> Iterator[tuple[FieldPath, str, str | None, Object | None]]:
    """The gateways of a VirtualService but the mesh: where, name, namespace, and the gateway where it is shown."""
    for path, item in items(route.value, "spec", "gateways"):
        if isinstance(item, str) and item != _MESH and not has_hole(item):
            space, _, name = item.partition("/") if "/" in item else (route.namespace or "", "", item)
            found = [one for one in _gateways(world).get(name, ()) if one.namespace in (space or None, None)]
            yield path, name, space or None, found[0] if found else None


@rule("istio-gateway-unknown", Severity.ERROR)
def istio_gateway_unknown(world: World) -> Iterator[Hit]:
    """A VirtualService is bound to a Gateway of Istio that the folder does not hold, though it holds others there.

    The routes are loaded into no gateway, and callers get 404. A name without a namespace is looked up beside the
    VirtualService; `mesh` means the sidecars.
    """
    by_space = _names_of_gateways(world)
    for route in _of_istio(world, "VirtualService") if by_space else ():
        for path, name, space, found in _bound(world, route):
            spaces = by_space if space is None else (space, None)
            names = [one for where in spaces for one in by_space.get(where, ())]
            elsewhere = next(iter(_gateways(world).get(name, ())), None)
            if found is not None or not (names or elsewhere):
                continue
            near = nearest_name(name, names)
            fix = f"did you mean `{near}`?" if near else f"name one of: {', '.join(names)}"
            fix = f"write `{elsewhere.namespace}/{name}`" if elsewhere and elsewhere.namespace else fix
            message = f"binding routes: namespace `{space or '(default)'}` has no Gateway of that name: `{name}`"
            yield Hit(at=route, path=path, message=message, fix=fix)


def _served(gateway: Object, route: Object) -> Iterator[str]:
    """The hosts that a gateway serves for a route's namespace."""
    for _, server in items(gateway.value, "spec", "servers"):
        for _, item in items(server, "hosts"):
            if isinstance(item, str):
                space, _, host = item.partition("/") if "/" in item else ("*", "", item)
                at_home = space == "." and gateway.namespace in (route.namespace, None)
                if space in ("*", route.namespace) or at_home or route.namespace is None:
                    yield host


@rule("istio-host-not-served", Severity.ERROR)
def istio_host_not_served(world: World) -> Iterator[Hit]:
    """None of the hosts of a VirtualService is among those that its Gateways serve.

    A Gateway of Istio takes the routes of hosts that one of its servers lists, with wildcards and `namespace/` before
    them. Of any other host callers get 404.
    """
    for route in _of_istio(world, "VirtualService"):
        bound = list(_bound(world, route))
        own = [item for _, item in items(route.value, "spec", "gateways")]
        hosts = [(path, item) for path, item in items(route.value, "spec", "hosts") if isinstance(item, str)]
        served = [host for _, _, _, found in bound if found for host in _served(found, route)]
        is_open = _MESH in own or len(bound) < len(own) or any(found is None for _, _, _, found in bound)
        if is_open or not bound or not hosts or any(has_hole(one) for one in (*served, *(host for _, host in hosts))):
            continue
        if not any(_meet(host, one) for _, host in hosts for one in served):
            path, host = hosts[0]
            fix = f"serve the host there, or write one of: {', '.join(dict.fromkeys(served))[:200]}"
            message = f"serving `{host}`: no server of Gateway `{bound[0][1]}` has this host"
            yield Hit(at=route, path=path, message=message, fix=fix if served else "serve the host there")


def _meet(one: str, other: str) -> bool:
    return "*" in (one, other) or hosts_meet(one, other)


@rule("istio-host-unknown", Severity.ERROR)
def istio_host_unknown(world: World) -> Iterator[Hit]:
    """A VirtualService leads to a Service that the folder does not hold, though it holds others of that namespace.

    Requests get 503 (`NC`, cluster not found). A short name means the VirtualService's own namespace. Hosts of
    ServiceEntries and names from elsewhere are left alone.
    """
    there = shown(world)
    known = {item for one in _of_istio(world, "ServiceEntry") for _, item in items(one.value, "spec", "hosts")}
    for found in _destinations(world):
        if found.service is None or not found.host or found.host in known:
            continue
        name, space = found.service
        if there.lacks("Service", name, space):
            other, near = there.elsewhere("Service", name, space), there.near("Service", name, space)
            fix = (
                f"write `{near}`"
                if near
                else f"write `{name}.{other}.svc.cluster.local`"
                if other
                else "name a Service"
            )
            message = f"routing to Service: there is none in namespace `{space or '(default)'}`: `{name}`"
            yield Hit(at=found.route, path=(*found.path, "host"), message=message, fix=fix)


@rule("istio-port-unknown", Severity.ERROR)
def istio_port_unknown(world: World) -> Iterator[Hit]:
    """A VirtualService leads to a port that the Service does not have.

    The port is the Service's `port`, not the pod's. Requests get 503 (`NC`, cluster not found).
    """
    for found, service, ports in _with_service(world):
        port = whole(found.value, "port", "number")
        if port is not None and port not in ports:
            message = f"routing to Service `{service.name}`: it has no such port: `{port}`"
            path = (*found.path, "port", "number")
            yield Hit(at=found.route, path=path, message=message, fix=f"write one of: {', '.join(map(str, ports))}")


@rule("istio-port-missing", Severity.WARNING)
def istio_port_missing(world: World) -> Iterator[Hit]:
    """A VirtualService leads to a Service with several ports and does not say to which.

    Only of a Service with a single port may it be left out; otherwise Istio takes the port that the request came in on,
    which at a gateway (443) the Service does not have.
    """
    for found, service, ports in _with_service(world):
        if len(ports) > 1 and not mapping(found.value, "port"):
            message = (
                f"routing to Service `{service.name}`: it has {len(ports)} ports and none is named: `{found.host}`"
            )
            yield Hit(at=found.route, path=found.path, message=message, fix=f"add port.number: {ports[0]}")


def _with_service(world: World) -> Iterator[tuple[_Destination, Object, list[int]]]:
    """Destinations whose Service is shown, and its ports."""
    there = shown(world)
    for found in _destinations(world):
        service = there.find("Service", *found.service) if found.service and found.host else None
        ports = [whole(item, "port") for _, item in items(service.value, "spec", "ports")] if service else []
        if service is not None and ports and None not in ports:
            yield found, service, [port for port in ports if port is not None]


@lru_cache(maxsize=2)
def _rules_by_host(world: World) -> Mapping[object, Sequence[Object]]:
    """The DestinationRules by the Service that their host means, or by the host as it is written."""
    found: dict[object, list[Object]] = {}
    for one in _of_istio(world, "DestinationRule"):
        other = _Destination(one, (), mapping(one.value, "spec"))
        for key in dict.fromkeys((other.service, other.host)):
            found.setdefault(key, []).append(one)
    return found


def _subsets(world: World, found: _Destination) -> list[tuple[Object, FieldPath, Mapping[str, Any]]] | None:
    """The subsets of the rules for a destination; None where there is no rule for it."""
    known = _rules_by_host(world)
    rules = (known.get(found.service) if found.service else None) or known.get(found.host)
    if not rules:
        return None
    return [(one, path, mapping(item)) for one in rules for path, item in items(one.value, "spec", "subsets")]


@rule("istio-subset-unknown", Severity.ERROR)
def istio_subset_unknown(world: World) -> Iterator[Hit]:
    """A VirtualService leads to a subset that no DestinationRule of the host defines.

    Requests get 503 (`NC`, cluster not found). Said where the folder holds DestinationRules.
    """
    for found in _destinations(world) if any(_of_istio(world, "DestinationRule")) else ():
        subset = literal(found.value, "subset")
        subsets = _subsets(world, found) if subset else None
        names = [literal(item, "name") or "" for _, _, item in subsets or ()]
        if subset and subset not in names and found.host:
            near = nearest_name(subset, names)
            fix = (
                f"did you mean `{near}`?" if near else "define it under spec.subsets of a DestinationRule of this host"
            )
            message = f"routing to `{found.host}`: no DestinationRule has the subset `{subset}`"
            yield Hit(at=found.route, path=(*found.path, "subset"), message=message, fix=fix)


@rule("istio-subset-selects-nothing", Severity.ERROR)
def istio_subset_selects_nothing(world: World) -> Iterator[Hit]:
    """A subset of a DestinationRule has labels that no pod behind the Service has.

    Requests to it get 503 (`UH`, no healthy upstream). Said where the folder shows the Service and its pods.
    """
    there = shown(world)
    for one in _of_istio(world, "DestinationRule"):
        owner = _Destination(one, (), mapping(one.value, "spec"))
        service = there.find("Service", *owner.service) if owner.service and owner.host else None
        chosen = equality(look(service.value, "spec", "selector")) if service else None
        if service is None or chosen is None or not chosen.is_certain or chosen.is_empty:
            continue
        pods = selected(world, chosen, service.namespace)
        for path, item in items(one.value, "spec", "subsets"):
            labels = texts(item, "labels")
            is_sure = pods and labels and len(labels) == len(mapping(item, "labels"))
            both = equality({**chosen.labels, **labels})
            if is_sure and both is not None and not selected(world, both, service.namespace):
                said = ", ".join(f"{key}={value}" for key, value in labels.items())
                message = f"choosing pods of Service `{service.name}`: none of them has the labels `{said}`"
                yield Hit(
                    at=one, path=(*path, "labels"), message=message, fix="correct the labels, or label the pods so"
                )


@rule("istio-port-without-protocol", Severity.INFO)
def istio_port_without_protocol(world: World) -> Iterator[Hit]:
    """A Service that Istio routes to has a port of which nobody says what it speaks.

    Istio tells it from the port's `appProtocol`, or from the first word of its name: `http-…`, `grpc-…`. Otherwise it
    guesses from the first bytes of each connection, and what it takes for plain TCP gets no routes, retries or metrics
    of its own.
    """
    named: dict[int, Object] = {}
    there = shown(world)
    owners = [*_destinations(world), *_rules(world)]
    for found in owners:
        service = there.find("Service", *found.service) if found.service and found.host else None
        if service is not None:
            named[id(service)] = service
    for service in named.values():
        for path, port in items(service.value, "spec", "ports"):
            name = look(port, "name")
            is_said = look(port, "appProtocol") is not None or (isinstance(name, str) and _says(name))
            if not is_said and text(port, "protocol") != "UDP" and "metrics" not in str(name):
                message = f"routing by Istio: nobody says what the port speaks: `{name or look(port, 'port')}`"
                fix = "name it after its protocol, such as grpc-inference, or set appProtocol"
                yield Hit(at=service, path=(*path, "name"), message=message, fix=fix)


_SELECTING = ("AuthorizationPolicy", "PeerAuthentication", "RequestAuthentication")
_GATEWAY_PODS = frozenset({"istio", "gateway.networking.k8s.io/gateway-name", "istio.io/gateway-name"})


@rule("istio-policy-selects-nothing", Severity.WARNING)
def istio_policy_selects_nothing(world: World) -> Iterator[Hit]:
    """A policy of Istio selects no pod of its namespace, so it protects nobody.

    An AuthorizationPolicy that allows a few callers leaves everybody in where it selects nothing. In Istio's root
    namespace a policy is for all; the pods of gateways are rarely in the folder, and are left alone.
    """
    for found in world.of_kind(*_SELECTING):
        chosen = equality(look(found.value, "spec", "selector", "matchLabels"))
        if found.group != "security.istio.io" or chosen is None or not chosen.is_certain or chosen.is_empty:
            continue
        is_elsewhere = bool(chosen.keys & _GATEWAY_PODS) or found.namespace == "istio-system"
        why = None if is_elsewhere else nothing_selected(world, chosen, found)
        if why:
            message = f"protecting pods: {why[0]}: `{chosen}`"
            yield Hit(at=found, path=("spec", "selector"), message=message, fix=why[1])


_LEAST_SECONDS = 60.0


@rule("istio-timeout-short", Severity.WARNING)
def istio_timeout_short(world: World) -> Iterator[Hit]:
    """A VirtualService ends requests to a model server before a long generation is through.

    `timeout`, and `perTryTimeout` of its retries, cover the whole answer, a stream to its last token: a thousand tokens
    at 20 tokens a second take 50 seconds. A retry generates everything once more. Without a timeout Istio waits.
    """
    for route in _of_istio(world, "VirtualService"):
        for path, part in items(route.value, "spec", "http"):
            hosts = [_Destination(route, (), mapping(item, "destination")) for _, item in items(part, "route")]
            is_served = any(one.service and serves_models(world, *one.service) for one in hosts)
            retries = look(part, "retries", "attempts") != 0
            for place in (("timeout",), *((("retries", "perTryTimeout"),) if retries else ())):
                limit = seconds(literal(part, *place))
                if is_served and limit and limit < _LEAST_SECONDS:
                    message = f"routing inference: a long generation is cut by `{place[-1]}`: `{look(part, *place)}`"
                    yield Hit(at=route, path=(*path, *place), message=message, fix="allow some minutes, such as 600s")


def _rules(world: World) -> Sequence[_Destination]:
    return [_Destination(one, (), mapping(one.value, "spec")) for one in _of_istio(world, "DestinationRule")]


def _says(name: str) -> bool:
    return has_hole(name) or _NAMED.fullmatch(name) is not None

"""Backends of routes: whether they exist, have the port, get traffic, and may be reached from the route's namespace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._routes import Reference, backends, is_address, routes, rules, shown
from provisioner.lint.values import items, literal, look, text, whole
from provisioner.lint.world import Object, World

_POOL_GROUPS = ("inference.networking.k8s.io", "inference.networking.x-k8s.io")
_PREDICTOR_PORT = 80
_VISIBILITY = "networking.kserve.io/visibility"
_ANSWERS_ITSELF = {"RequestRedirect", "ExtensionRef"}


def _references(world: World) -> Iterator[Reference]:
    for route in routes(world):
        yield from backends(route)


@rule("route-backend-unknown", Severity.ERROR)
def route_backend_unknown(world: World) -> Iterator[Hit]:
    """A route leads to a Service or an InferencePool that does not exist.

    The route gets ResolvedRefs False, reason BackendNotFound, and every request is answered with 500. Only said where
    the folder holds such objects of the namespace.
    """
    there = shown(world)
    for reference in _references(world):
        kind = "Service" if reference.is_service else _pool_kind(reference)
        name = reference.name
        if kind is None or name is None or is_address(name):
            continue
        other = there.elsewhere(kind, name, reference.namespace)
        if not there.lacks(kind, name, reference.namespace) and not _is_meant_elsewhere(reference, other):
            continue
        near = there.near(kind, name, reference.namespace)
        yield Hit(
            at=reference.route,
            path=(*reference.path, "name"),
            message=f"routing to {kind}: there is none in namespace `{reference.namespace or '(default)'}`: `{name}`",
            fix=f"write `{near}`"
            if near
            else f"write `namespace: {other}` and let a ReferenceGrant there allow it"
            if other
            else f"name a {kind} that exists, or deliver it",
        )


def _is_meant_elsewhere(reference: Reference, other: str | None) -> bool:
    """Whether a backend without a namespace was left out of it: others of the route name the one where it is."""
    if other is None or reference.is_foreign:
        return False
    spaces = {one.namespace for one in backends(reference.route) if one.is_foreign}
    return other in spaces


def _pool_kind(reference: Reference) -> str | None:
    is_pool = any(reference.is_to(group, "InferencePool", "", "Service") for group in _POOL_GROUPS)
    return "InferencePool" if is_pool else None


@rule("route-backend-group", Severity.ERROR)
def route_backend_group(world: World) -> Iterator[Hit]:
    """A route leads to a kind in an API group where it does not exist.

    Without `group` the core group is meant: an InferencePool needs `group: inference.networking.k8s.io`, and a
    Service has no group. The route gets ResolvedRefs False, reason InvalidKind.
    """
    for reference in _references(world):
        group, kind = reference.value.get("group", ""), reference.value.get("kind", "Service")
        is_pool = kind == "InferencePool" and group not in _POOL_GROUPS
        is_service = kind == "Service" and group in ("v1", "core", "core/v1", "apps")
        if is_pool or is_service:
            yield Hit(
                at=reference.route,
                path=(*reference.path, "group") if "group" in reference.value else reference.path,
                message=f"routing to {kind}: it is not in API group: `{group}`",
                fix="write `group: inference.networking.k8s.io`"
                if is_pool
                else 'leave `group` out, or write `group: ""`',
            )


@rule("route-backend-without-port", Severity.ERROR)
def route_backend_without_port(world: World) -> Iterator[Hit]:
    """A route leads to a Service without saying to which port.

    `port` is required for a Service; the API server refuses the route.
    """
    for reference in _references(world):
        if reference.is_service and reference.value.get("port") is None:
            yield Hit(
                at=reference.route,
                path=reference.path,
                message=f"routing to Service: there is no port: `{reference.value.get('name')}`",
                fix="set `port` to a port of the Service",
            )


@rule("route-backend-port-unknown", Severity.ERROR)
def route_backend_port_unknown(world: World) -> Iterator[Hit]:
    """A route leads to a port that the Service does not have.

    The port is the Service's `port`, not its `targetPort` nor the container's. The route gets ResolvedRefs False and
    requests are answered with 500 or 503.
    """
    there = shown(world)
    for reference in _references(world):
        if not (reference.is_service and reference.name):
            continue
        service = there.find("Service", reference.name, reference.namespace)
        if service is None or service.group or not isinstance(look(service.value, "spec", "ports"), list):
            continue
        ports = [whole(item, "port") for _, item in items(service.value, "spec", "ports")]
        if reference.port is None or None in ports or reference.port in ports:
            continue
        targets = [
            item for _, item in items(service.value, "spec", "ports") if item.get("targetPort") == reference.port
        ]
        yield Hit(
            at=reference.route,
            path=(*reference.path, "port"),
            message=f"routing to Service `{reference.name}`: it has no such port: `{reference.port}`",
            fix=f"write the Service's port `{targets[0]['port']}`; `{reference.port}` is the pod's"
            if targets
            else f"write one of: {', '.join(map(str, ports))}",
        )


def _serving_rules(world: World) -> Iterator[tuple[Object, tuple[str | int, ...], Mapping[str, Any]]]:
    for route in routes(world):
        for path, part in rules(route):
            kinds = {text(item, "type") for _, item in items(part, "filters")}
            if not kinds & _ANSWERS_ITSELF:
                yield route, path, part


@rule("route-protocol-of-port", Severity.WARNING)
def route_protocol_of_port(world: World) -> Iterator[Hit]:
    """A GRPCRoute leads to a port that serves plain HTTP, by its name or its `appProtocol`.

    A gateway speaks HTTP/2 to the backends of a GRPCRoute. A server of HTTP/1 answers with a protocol error, and every
    call fails with `UNAVAILABLE`. A port for gRPC is named `grpc`, or has an `appProtocol` of `kubernetes.io/h2c`.
    """
    there = shown(world)
    for reference in _references(world):
        if reference.route.kind != "GRPCRoute" or not (reference.is_service and reference.name):
            continue
        service = there.find("Service", reference.name, reference.namespace)
        ports = [item for _, item in items(service.value, "spec", "ports")] if service else []
        chosen = next((item for item in ports if whole(item, "port") == reference.port), None)
        name, spoken = text(chosen, "name") or "", text(chosen, "appProtocol")
        is_plain = spoken in ("http", "https") if spoken else re.fullmatch(r"https?(-.*)?", name) is not None
        if chosen is not None and is_plain:
            others = [whole(item, "port") for item in ports if "grpc" in (text(item, "name") or "")]
            yield Hit(
                at=reference.route,
                path=(*reference.path, "port"),
                message=f"routing gRPC to Service `{reference.name}`: its port serves plain HTTP: `{spoken or name}`",
                fix=f"write `port: {others[0]}`" if others else "name the port that serves gRPC",
            )


@rule("route-without-backend", Severity.ERROR)
def route_without_backend(world: World) -> Iterator[Hit]:
    """A rule of a route leads nowhere.

    Without `backendRefs`, and without a filter that answers by itself, every request is answered with 500 (Gateway
    API), and controllers that make routes may wait for ever (kserve issue 5385).
    """
    for route, path, part in _serving_rules(world):
        if not part.get("backendRefs"):
            yield Hit(
                at=route,
                path=path,
                message=f"routing: a rule has no backend: `{route.name}`",
                fix="add `backendRefs` with name and port, or a filter of type RequestRedirect",
            )


@rule("route-without-weight", Severity.ERROR)
def route_without_weight(world: World) -> Iterator[Hit]:
    """All backends of a rule have weight 0, so that none gets a request.

    Every request is answered with 500 (Gateway API, BackendRef weight).
    """
    for route, path, part in _serving_rules(world):
        weights = [look(item, "weight") for _, item in items(part, "backendRefs")]
        if weights and all(weight == 0 and weight is not False for weight in weights):
            yield Hit(
                at=route,
                path=(*path, "backendRefs"),
                message=f"sharing requests out: the weights of all backends are 0: `{route.name}`",
                fix="give at least one backend a weight above 0",
            )


@rule("route-backend-by-address", Severity.ERROR)
def route_backend_by_address(world: World) -> Iterator[Hit]:
    """A route names its backend by a DNS name or an address instead of an object's name.

    `name` is the name of a Service in the cluster; `namespace` and `port` stand in fields of their own.
    """
    for reference in _references(world):
        name = reference.name
        if reference.is_service and name and is_address(name):
            yield Hit(
                at=reference.route,
                path=(*reference.path, "name"),
                message=f"routing to Service: this is no name of one: `{name}`",
                fix=f"write `name: {name.split('://')[-1].split('.')[0].split(':')[0]}`, `namespace` and `port`",
            )


def _predictors(world: World) -> Iterator[tuple[Reference, Object]]:
    """References to the Service of a predictor, which KServe makes, and whose it is."""
    for reference in _references(world) if world.has("InferenceService") else ():
        match = re.fullmatch(r"(.+)-predictor(-default)?", reference.name or "")
        found = world.find("InferenceService", match[1], namespace=reference.namespace) if match else None
        is_own = world.find("Service", reference.name or "", namespace=reference.namespace) is not None
        if found and reference.is_service and not is_own:
            yield reference, found


@rule("route-to-predictor-port", Severity.WARNING)
def route_to_predictor_port(world: World) -> Iterator[Hit]:
    """A route leads to a port that the Service of a predictor does not have.

    The Service that KServe makes for a predictor listens on 80, whatever port the container has, and on the further
    ports of that container. The route gets ResolvedRefs False and requests are answered with 500 or 503.
    """
    for reference, found in _predictors(world):
        if reference.port in (None, _PREDICTOR_PORT, 443, 8443) or reference.port in _further_ports(world, found):
            continue
        yield Hit(
            at=reference.route,
            path=(*reference.path, "port"),
            message=f"routing to `{reference.name}`: KServe's Service listens on {_PREDICTOR_PORT}: `{reference.port}`",
            fix=f"write `port: {_PREDICTOR_PORT}`",
        )


def _further_ports(world: World, found: Object) -> set[int | None]:
    """The ports of a predictor's containers, or of its runtime's, behind the first one."""
    runtime = literal(found.value, "spec", "predictor", "model", "runtime") or ""
    served = [
        world.find("ServingRuntime", runtime, namespace=found.namespace),
        world.find("ClusterServingRuntime", runtime),
    ]
    boxes = [look(found.value, "spec", "predictor", "model")]
    boxes += [item for _, item in items(found.value, "spec", "predictor", "containers")]
    boxes += [item for one in served if one for _, item in items(one.value, "spec", "containers")]
    return {whole(port, "containerPort") for box in boxes for path, port in items(box, "ports") if path[-1] != 0}


@rule("route-beside-kserve", Severity.INFO)
def route_beside_kserve(world: World) -> Iterator[Hit]:
    """A route leads to the predictor of an InferenceService, which has a route of its own.

    KServe makes and owns Service, route and autoscaler of an InferenceService; a second route goes around its
    authorisation and canary weights, and breaks when KServe renames its Services. It is meant where KServe is told to
    make no route (`networking.kserve.io/visibility: cluster-local`, or `disableIngressCreation` in its settings).
    """
    for reference, found in _predictors(world):
        if found.labels.get(_VISIBILITY) != "cluster-local" and found.annotations.get(_VISIBILITY) != "cluster-local":
            yield Hit(
                at=reference.route,
                path=reference.path,
                message=f"routing to `{reference.name}`: KServe has a route of its own for: `{found.title}`",
                fix="remove the route, and set the hostname by KServe's own settings",
            )

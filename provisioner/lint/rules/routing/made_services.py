"""Services that operators make: routes and Ingresses to a name that they do not give, or to Ray's dashboard.

Source: the names in KubeRay's `GenerateServeServiceName` and `GenerateHeadServiceName`, and in KServe's guides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.services import serve_ports
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._routes import backends, hostnames, routes
from provisioner.lint.values import has_hole, items, look, text, texts, whole
from provisioner.lint.world import Object, World, same_namespace

_MADE: Mapping[str, tuple[str, ...]] = {
    "RayCluster": ("-head-svc", "-serve-svc", "-headless"),
    "RayService": ("-serve-svc", "-head-svc"),
}
_SLIP = re.compile(r"-(serve|serve-service|serving|svc|service|head|head-service|ray-head-svc|serve-svc-service)$")
_DASHBOARD = {8265: "dashboard", 6379: "store of its state", 10001: "port for clients"}
_NAMED = {"dashboard": 8265, "gcs-server": 6379, "gcs": 6379, "redis": 6379, "client": 10001}
_IS_MEANT = re.compile(r"(?i)dash|ray|admin|console|ops|internal")


@dataclass(frozen=True, slots=True)
class _Backend:
    """A Service that a route or an Ingress leads to."""

    at: Object
    path: FieldPath
    name: str
    namespace: str | None
    port: int | str | None
    host: str


def _all(world: World) -> Iterator[_Backend]:
    for route in routes(world):
        hosts = " ".join(name for _, name in hostnames(route))
        for one in backends(route):
            if one.is_service and one.name and not has_hole(one.name):
                yield _Backend(route, one.path, one.name, one.namespace, one.port, f"{route.name} {hosts}")
    for ingress in world.of_kind("Ingress"):
        for base, entry in items(ingress.value, "spec", "rules"):
            for inner, item in items(entry, "http", "paths"):
                service = look(item, "backend", "service")
                name = text(service, "name")
                if name and not has_hole(name):
                    port = whole(service, "port", "number") or text(service, "port", "name")
                    path = (*base, *inner, "backend", "service")
                    host = f"{ingress.name} {text(entry, 'host') or ''}"
                    yield _Backend(ingress, path, name, ingress.namespace, port, host)


@rule("backend-name-not-made", Severity.ERROR)
def backend_name_not_made(world: World) -> Iterator[Hit]:
    """A route leads to a Service of a Ray cluster by a name that KubeRay does not give.

    A RayService has `<name>-serve-svc` for requests and `<name>-head-svc`; a RayCluster has `<name>-head-svc`. The
    route gets ResolvedRefs False, and each request is answered with 500.
    """
    makers = [found for kind in _MADE for found in world.of_kind(kind)]
    for one in _all(world) if makers else ():
        if world.find("Service", one.name, namespace=one.namespace):
            continue
        near = [maker for maker in makers if same_namespace(maker.namespace, one.namespace)]
        made = [f"{maker.name}{ending}" for maker in near for ending in _MADE[maker.kind]]
        maker = next((found for found in near if _SLIP.sub("", one.name) == found.name), None)
        if maker is not None and one.name not in made and _is_free(world, one):
            right = nearest_name(one.name, [f"{maker.name}{ending}" for ending in _MADE[maker.kind]]) or made[0]
            message = f"routing to {maker.title}: KubeRay makes no Service `{one.name}`"
            yield Hit(at=one.at, path=(*one.path, "name"), message=message, fix=f"write {right}")


def _is_free(world: World, one: _Backend) -> bool:
    """Whether the folder makes no Service of that name through a field of the cluster itself."""
    return not any(
        text(maker.value, *path) == one.name
        for maker in world.of_kind("RayService", "RayCluster")
        for path in (
            ("spec", "serveService", "metadata", "name"),
            ("spec", "headGroupSpec", "headService", "metadata", "name"),
        )
    )


@rule("route-to-ray-dashboard", Severity.ERROR)
def route_to_ray_dashboard(world: World) -> Iterator[Hit]:
    """A route for requests leads to a port of Ray that answers none: its dashboard, its state, its own clients.

    Ray Serve answers on 8000, `<name>-serve-svc`. The dashboard on 8265 knows no `/v1`, and lets whoever reaches it
    run programs in the cluster. A route whose name or host speaks of a dashboard is left alone.
    """
    for one in _all(world):
        number = one.port if isinstance(one.port, int) else _NAMED.get(str(one.port))
        service = world.find("Service", one.name, namespace=one.namespace)
        if service is None and not one.name.endswith("-head-svc"):
            continue
        is_head = one.name.endswith("-head-svc") or (service is not None and _is_head(service))
        target = _target(service, number) if service is not None else number
        if is_head and target in _DASHBOARD and not _IS_MEANT.search(one.host):
            message = f"routing to Ray's head: `{target}` is its {_DASHBOARD[target]}, not the API"
            fix = "lead to port 8000 of the Service <name>-serve-svc"
            yield Hit(at=one.at, path=one.path, message=message, fix=fix)


def _is_head(service: Object) -> bool:
    selector = texts(service.value, "spec", "selector")
    return selector.get("ray.io/node-type") == "head" or "ray.io/cluster" in selector


def _target(service: Object, number: int | None) -> int | None:
    """The number of the pod's port behind a Service's."""
    for _, item in items(service.value, "spec", "ports"):
        if whole(item, "port") == number:
            target = look(item, "targetPort") or number
            return target if isinstance(target, int) else _NAMED.get(str(target), number)
    return number


@rule("route-to-ray-serve-port", Severity.ERROR)
def route_to_ray_serve_port(world: World) -> Iterator[Hit]:
    """A route leads to Ray Serve's Service on a port that it does not have.

    KubeRay gives `<name>-serve-svc` the port called `serve` of the containers, 8000 where none is called so. The route
    gets ResolvedRefs False, and each request is answered with 500.
    """
    for one in _all(world):
        maker = world.find("RayService", one.name.removesuffix("-serve-svc"), namespace=one.namespace)
        if maker is None or not one.name.endswith("-serve-svc") or not isinstance(one.port, int):
            continue
        ports = serve_ports(maker)
        if one.port not in ports and world.find("Service", one.name, namespace=one.namespace) is None:
            message = f"routing to {maker.title}: its Service has no port `{one.port}`"
            yield Hit(at=one.at, path=one.path, message=message, fix=f"write {ports[0]}")

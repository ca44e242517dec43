"""Routes, Gateways and Services as the rules about routing see them: who refers to whom, and what the folder shows.

A reference is missing only where the folder shows the namespace that it points into. No rules here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import nearest_name
from provisioner.lint.joins.applications import applications
from provisioner.lint.joins.deliveries import deliveries
from provisioner.lint.joins.model_names import sounds_like_inference
from provisioner.lint.joins.selectors import selected
from provisioner.lint.joins.services import services
from provisioner.lint.joins.slips import meant
from provisioner.lint.model_servers import engines
from provisioner.lint.values import has_hole, is_known, items, literal, look, mapping, text, texts, whole
from provisioner.lint.world import Object, World

GATEWAY_GROUP = "gateway.networking.k8s.io"
ROUTE_KINDS = ("HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute")
_INFERENCE_PATH = re.compile(
    r"/(openai/)?v[0-9]+/?$|/(openai/)?v[0-9]+/(chat|completions|embeddings|audio|responses|models|messages|rerank|score|images)"
    r"|/(generate|generate_stream|predict|infer|inference|completion|invocations)\b|/api/(chat|generate|embed)"
)
_QUIET_PATH = re.compile(r"/(v[0-9]+/)?(health|healthz|livez|readyz|ready|metrics|version|ping|models)(/|$)")
_MADE_BY = re.compile(
    r"-(predictor(-default)?|kserve-workload-svc|epp(-service)?|head-svc|serve-svc|frontend|transformer)$"
)


def routes(world: World, *kinds: str) -> Iterator[Object]:
    """The routes of Gateway API."""
    for found in world.of_kind(*(kinds or ROUTE_KINDS)):
        if found.group == GATEWAY_GROUP:
            yield found


@dataclass(frozen=True, eq=False)
class Reference:
    """A reference of a route: to a backend, or to a parent that it attaches to."""

    route: Object
    path: FieldPath
    value: Mapping[str, Any]

    @property
    def name(self) -> str | None:
        """The name, None where it is not known."""
        return literal(self.value, "name")

    @property
    def is_foreign(self) -> bool:
        """Whether it names a namespace of its own."""
        return "namespace" in self.value

    @property
    def namespace(self) -> str | None:
        """The namespace it points into, the route's own where it names none."""
        return text(self.value, "namespace") if self.is_foreign else self.route.namespace

    @property
    def port(self) -> int | None:
        """The port, where it names one."""
        return whole(self.value, "port")

    def is_to(self, group: str, kind: str, default_group: str, default_kind: str) -> bool:
        """Whether it points to a kind."""
        return (
            self.value.get("group", default_group) == group
            and self.value.get("kind", default_kind) == kind
            and is_known(self.value.get("name"))
        )

    @property
    def is_service(self) -> bool:
        """Whether it is a backend that is a Service."""
        return self.is_to("", "Service", "", "Service")

    @property
    def is_gateway(self) -> bool:
        """Whether it is a parent that is a Gateway."""
        return self.is_to(GATEWAY_GROUP, "Gateway", GATEWAY_GROUP, "Gateway")


def is_address(name: str) -> bool:
    """Whether the name of a backend is a DNS name, a URL or an address instead of an object's name."""
    return re.search(r"[.:/]", name) is not None


def backends(route: Object) -> Iterator[Reference]:
    """The backends of a route, mirrors too."""
    for path, part in items(route.value, "spec", "rules"):
        for inner, item in items(part, "backendRefs"):
            if isinstance(item, Mapping):
                yield Reference(route, (*path, *inner), item)
        for inner, item in items(part, "filters"):
            mirror = mapping(item, "requestMirror", "backendRef")
            if mirror:
                yield Reference(route, (*path, *inner, "requestMirror", "backendRef"), mirror)


def parents(route: Object) -> Iterator[Reference]:
    """What a route attaches to."""
    for path, item in items(route.value, "spec", "parentRefs"):
        if isinstance(item, Mapping):
            yield Reference(route, path, item)


@dataclass(frozen=True, eq=False)
class Listener:
    """A listener of a Gateway, or of a ListenerSet."""

    owner: Object
    path: FieldPath
    value: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return text(self.value, "name") or ""

    @property
    def protocol(self) -> str:
        """Its protocol."""
        return text(self.value, "protocol") or ""

    @property
    def port(self) -> int | None:
        """Its port."""
        return whole(self.value, "port")

    @property
    def hostname(self) -> str | None:
        """The hostname that it answers for; None for every one."""
        return literal(self.value, "hostname") or None

    @property
    def is_open(self) -> bool:
        """Whether a part of it is not known, so that anything may fit."""
        hostname = self.value.get("hostname")
        return isinstance(hostname, str) and literal(self.value, "hostname") is None


def listeners(owner: Object) -> Iterator[Listener]:
    """The listeners of a Gateway or a ListenerSet."""
    for path, item in items(owner.value, "spec", "listeners"):
        if isinstance(item, Mapping):
            yield Listener(owner, path, item)


def certificate_references(one: Listener) -> Iterator[tuple[FieldPath, str, str | None]]:
    """The Secrets that a listener takes certificates from: where, name, and the namespace where it names one."""
    for path, item in items(one.value, "tls", "certificateRefs"):
        name = literal(item, "name")
        if name and look(item, "kind") in (None, "Secret") and look(item, "group") in (None, ""):
            yield (*one.path, *path), name, text(item, "namespace")


def gateways(world: World) -> Iterator[Object]:
    """The Gateways of Gateway API, not those of a mesh of the same name."""
    for found in world.of_kind("Gateway"):
        if found.group == GATEWAY_GROUP:
            yield found


def hostnames(route: Object) -> Iterator[tuple[FieldPath, str]]:
    """The known hostnames of a route."""
    for path, item in items(route.value, "spec", "hostnames"):
        if isinstance(item, str) and not has_hole(item):
            yield path, item


class Shown:
    """What the folder shows of each kind and namespace. Built once for a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._by_name: dict[tuple[str, str], list[Object]] = {}
        self._in_space: dict[str, dict[str | None, dict[str, Object]]] = {}
        for kind in ("Service", "Gateway", "InferencePool", "ListenerSet", "XListenerSet", "Backend"):
            for found in gateways(world) if kind == "Gateway" else world.of_kind(kind):
                self._by_name.setdefault((kind, found.name), []).append(found)
                names = self._in_space.setdefault(kind, {}).setdefault(found.namespace, {})
                names.setdefault(found.name, found)

    @cached_property
    def _open(self) -> set[str | None]:
        """Namespaces into which a chart or an unseen folder delivers."""
        complete = {app for app, delivery in deliveries(self._world) if delivery.is_whole or not delivery.folders}
        found = {app.namespace for app in applications(self._world) if app not in complete and app.is_argo}
        for release in self._world.of_kind("HelmRelease", "HelmChart"):
            found.add(text(release.value, "spec", "targetNamespace") or release.namespace)
        return found

    def named(self, kind: str, name: str) -> Sequence[Object]:
        """The objects of a kind and name in any namespace."""
        return self._by_name.get((kind, name), ())

    def find(self, kind: str, name: str, namespace: str | None) -> Object | None:
        """The object of a kind and name in a namespace."""
        if namespace is None:
            return next(iter(self.named(kind, name)), None)
        spaces = self._in_space.get(kind, {})
        return next((found for space in (namespace, None) if (found := spaces.get(space, {}).get(name))), None)

    def names(self, kind: str, namespace: str | None) -> list[str]:
        """The names of a kind in a namespace."""
        spaces = self._in_space.get(kind, {})
        chosen = spaces if namespace is None else (namespace, None)
        return list(dict.fromkeys(name for space in chosen for name in spaces.get(space, ())))

    def lacks(self, kind: str, name: str, namespace: str | None) -> bool:
        """Whether the folder shows that there is no such object."""
        if kind not in self._in_space or self.find(kind, name, namespace):
            return False
        if kind == "Service" and self._is_made(name, namespace):
            return False
        if namespace in self._open:
            return meant(name, self.names(kind, namespace)) is not None
        seen = self._in_space[kind]
        is_seen = namespace is None or namespace in seen or None in seen
        pods = self._world.pods_in(namespace)
        return is_seen or (kind == "Service" and any(pod.namespace == namespace for pod in pods))

    def near(self, kind: str, name: str, namespace: str | None) -> str | None:
        """The name in the namespace that was most likely meant."""
        return nearest_name(name, self.names(kind, namespace))

    def elsewhere(self, kind: str, name: str, namespace: str | None) -> str | None:
        """Another namespace that has an object of that kind and name."""
        return next((found.namespace for found in self.named(kind, name) if found.namespace != namespace), None)

    def _is_made(self, name: str, namespace: str | None) -> bool:
        """Whether a controller makes a Service of that name for another object."""
        if self._world.find("LeaderWorkerSet", name, namespace=namespace):
            return True
        makers = ("InferenceService", "LLMInferenceService", "RayService", "RayCluster", "DynamoGraphDeployment")
        return any(
            name == maker.name or (name.startswith(f"{maker.name}-") and _MADE_BY.search(name))
            for maker in self._world.of_kind(*makers)
        )


@lru_cache(maxsize=2)
def shown(world: World) -> Shown:
    """What the folder shows."""
    return Shown(world)


@lru_cache(maxsize=2)
def _engine_services(world: World) -> frozenset[int]:
    """The Services that select pods of a model server, by identity."""
    pods = {id(engine.pod) for engine in engines(world)}
    return frozenset(
        id(service)
        for service, chosen in services(world)
        if any(id(pod) in pods for pod in selected(world, chosen, service.namespace))
    )


def serves_models(world: World, name: str | None, namespace: str | None) -> bool | None:
    """Whether a Service leads to a model server; None where the folder does not show it."""
    service = shown(world).find("Service", name, namespace) if name else None
    if service is None:
        return None
    if id(service) in _engine_services(world):
        return True
    selector = texts(service.value, "spec", "selector")
    return False if selector and any(True for _ in world.pods_of(selector, namespace=service.namespace)) else None


def is_inference_path(path: str) -> bool:
    """Whether a path is one of a model server's API, and not its health or metrics."""
    return _INFERENCE_PATH.search(path) is not None and not re.fullmatch(r".*/(health|metrics|models)/?", path)


def is_quiet_path(path: str) -> bool:
    """Whether a path answers at once: health, metrics, the list of models."""
    return _QUIET_PATH.search(path) is not None


def rules(route: Object) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """The rules of a route."""
    for path, item in items(route.value, "spec", "rules"):
        if isinstance(item, Mapping):
            yield path, item


def match_paths(rule: Mapping[str, Any]) -> list[str | None]:
    """The paths that a rule matches; None for a match without a path that is known."""
    return [text(match, "path", "value") for _, match in items(rule, "matches")]


def is_inference_rule(world: World, route: Object, rule: Mapping[str, Any]) -> bool:
    """Whether a rule leads requests to a model server."""
    paths = [path for path in match_paths(rule) if path]
    if paths and all(is_quiet_path(path) for path in paths):
        return False
    answers: list[bool | None] = []
    for _, item in items(rule, "backendRefs"):
        if look(item, "kind") == "InferencePool":
            return True
        namespace = text(item, "namespace") or route.namespace
        answers.append(serves_models(world, literal(item, "name"), namespace))
    if any(answers):
        return True
    if not answers or all(answer is False for answer in answers):
        return False
    if any(is_inference_path(path) for path in paths):
        return True
    names = [literal(item, "name") for _, item in items(rule, "backendRefs")]
    return not paths and sounds_like_inference(route.name, *names)

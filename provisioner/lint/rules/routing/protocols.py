"""What is spoken behind a port and what a route asks for by name: words that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.slips import meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._routes import routes, rules
from provisioner.lint.values import has_hole, items, text
from provisioner.lint.world import World

_KUBERNETES = ("kubernetes.io/h2c", "kubernetes.io/ws", "kubernetes.io/wss")
_SERVICES = (
    *("inference.GRPCInferenceService", "grpc.health.v1.Health", "vllm.grpc.engine.VllmEngine"),
    *("sglang.grpc.scheduler.SglangScheduler", "envoy.service.ext_proc.v3.ExternalProcessor", "tei.v1.Embed"),
)


@rule("app-protocol-unknown", Severity.WARNING)
def app_protocol_unknown(world: World) -> Iterator[Hit]:
    """A port of a Service names a protocol of Kubernetes that there is not.

    `kubernetes.io/h2c`, `kubernetes.io/ws` and `kubernetes.io/wss` are all. Gateways take any other for HTTP/1.1, and
    gRPC behind it fails. Source: Kubernetes documentation, Service, Application protocol.
    """
    for found in world.of_kind("Service"):
        for path, item in items(found.value, "spec", "ports"):
            word = text(item, "appProtocol") or ""
            is_own = word.startswith("kubernetes.io/") or word in ("h2c", "ws", "wss")
            if is_own and word not in _KUBERNETES and not has_hole(word):
                near = nearest_name(word, _KUBERNETES) or _KUBERNETES[0]
                message = f"naming protocol: Kubernetes has no `{word}`"
                yield Hit(at=found, path=(*path, "appProtocol"), message=message, fix=f"did you mean {near}?")


@rule("grpc-service-misspelt", Severity.WARNING)
def grpc_service_misspelt(world: World) -> Iterator[Hit]:
    """A GRPCRoute matches a gRPC service whose name is nearly that of a model server's.

    The name is compared letter by letter, with its package: no request matches, and each is answered with
    UNIMPLEMENTED.
    """
    for route in routes(world, "GRPCRoute"):
        for path, part in rules(route):
            for inner, match in items(part, "matches"):
                name = text(match, "method", "service") or ""
                near = meant(name, _SERVICES) if name not in _SERVICES else None
                near = near or next((one for one in _SERVICES if name and one.rpartition(".")[2] == name), None)
                if near is not None:
                    message = f"matching gRPC: no server has a service `{name}`"
                    place = (*path, *inner, "method", "service")
                    yield Hit(at=route, path=place, message=message, fix=f"did you mean {near}?")

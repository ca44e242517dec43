"""Where a model server listens, and where probes, Services and neighbours look for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._reach import container_ports, port_number, probes, service_ways
from provisioner.lint.values import look, mapping
from provisioner.lint.world import World

_LOOPBACK = ("127.", "localhost", "::1", "[::1]")


def _is_meant_for_others(engine: Engine, world: World) -> bool:
    """Whether somebody outside of the pod is to reach the engine itself."""
    if engine.is_worker:
        return False
    ports = {engine.port}
    asked = any(port_number(engine, look(found.value, "httpGet", "port")) in ports for found in probes(engine))
    return asked or bool(container_ports(engine)) or engine.is_alone


@rule("engine-bound-to-loopback", Severity.ERROR)
def engine_bound_to_loopback(world: World) -> Iterator[Hit]:
    """A model server listens on the loopback address only.

    The kubelet's probes, Services and gateways reach a pod by its own address; on 127.0.0.1 only containers of the
    same pod can connect. The pod never becomes ready, or is ready and refuses every connection.
    """
    for engine in engines(world):
        host, flag = engine.value("host"), engine.find("host")
        if host is None or not host.startswith(_LOOPBACK) or not _is_meant_for_others(engine, world):
            continue
        variable = engine.variable(engine.profile.variables.get("host", ""))
        yield Hit(
            at=engine.pod.owner,
            path=flag.path if flag else variable or engine.container.path,
            message=f"reading arguments of {engine.kind}: nobody outside of the pod reaches this address: `{host}`",
            fix="listen on 0.0.0.0 (or :: where pods have IPv6 addresses)",
        )


@rule("engine-host-left-out", Severity.WARNING)
def engine_host_left_out(world: World) -> Iterator[Hit]:
    """A model server whose default address is the loopback one is not told where to listen.

    llama.cpp's server and SGLang listen on 127.0.0.1 unless they get `--host`. Some images of llama.cpp set
    LLAMA_ARG_HOST themselves, so that it works until the image changes.
    """
    for engine in engines(world):
        if engine.profile.host.startswith(_LOOPBACK) and engine.is_complete and engine.find("host") is None:
            variable = engine.profile.variables.get("host", "")
            if engine.variable(variable) is None and _is_meant_for_others(engine, world):
                message = f"reading arguments of {engine.kind}: no --host, its own default is `{engine.profile.host}`"
                yield Hit(at=engine.pod.owner, path=engine.container.path, message=message, fix="add --host 0.0.0.0")


def _foreign(engine: Engine, number: int | None) -> bool:
    """Whether a port is certainly not one that this engine's container serves."""
    if number is None or engine.port is None or number == engine.port:
        return False
    text = str(number)
    spoken = any(text in (word.text or "") for word in engine.words) or text in engine.environment.values()
    return not spoken and number not in engine.profile.more_ports


@rule("probe-on-other-port", Severity.ERROR)
def probe_on_other_port(world: World) -> Iterator[Hit]:
    """A probe asks at a port on which the model server does not listen.

    The connection is refused, so the container never becomes ready, or is restarted for ever. The engine's port is its
    `--port`, else its default (vLLM 8000, SGLang 30000, llama.cpp 8080, Text Generation Inference 80).
    """
    for engine in engines(world):
        for found in probes(engine) if engine.is_alone else ():
            kind = next((kind for kind in ("httpGet", "tcpSocket", "grpc") if look(found.value, kind)), None)
            number = port_number(engine, look(found.value, kind, "port")) if kind else None
            if kind and number is not None and _is_asked_amiss(engine, kind, number, found.asks):
                yield Hit(
                    at=engine.pod.owner,
                    path=(*found.path, kind, "port"),
                    message=f"reading {found.name}: {engine.kind} listens on {engine.port}, not on `{number}`",
                    fix=f"ask at {engine.port}, or start the engine with --port {number}",
                )


def _is_asked_amiss(engine: Engine, kind: str, number: int, asked: str | None) -> bool:
    spoken = engine.profile.more_ports.get(number) if number != engine.port else None
    if spoken is not None:
        return kind == "httpGet" and (spoken == "gRPC" or asked != "/metrics")
    return _foreign(engine, number) and not _several(engine)


def _several(engine: Engine) -> bool:
    """Whether the container's script may start another server beside the engine."""
    return any("&" in word and "&&" not in word for word in engine.container.arguments)


@rule("service-on-other-port", Severity.ERROR)
def service_on_other_port(world: World) -> Iterator[Hit]:
    """A Service leads to a port of the pod on which the model server does not listen.

    Kubernetes does not check that anything listens on a containerPort: the Service has endpoints, and each connection
    is refused.
    """
    for engine in engines(world):
        ways = service_ways(engine, world) if engine.is_alone and not _several(engine) else ()
        right = {id(way.through) for way in ways if port_number(engine, way.port) == engine.port}
        for way in ways:
            number = port_number(engine, way.port)
            if id(way.through) in right:
                continue  # its other ports lead to something else in the container
            if _foreign(engine, number) and (number in container_ports(engine) or not container_ports(engine)):
                yield Hit(
                    at=way.through,
                    path=way.path,
                    message=f"following {way.through.title} to {engine.pod.owner.title}: {engine.kind} listens on "
                    f"{engine.port}, not on `{number}`",
                    fix=f"lead to {engine.port}, or start the engine with --port {number}",
                )


_INSIDE = re.compile(r"(internal|private)", re.IGNORECASE)


@rule("engine-behind-load-balancer", Severity.WARNING)
def engine_behind_load_balancer(world: World) -> Iterator[Hit]:
    """A load balancer of the cloud leads straight to a model server.

    The server speaks plain HTTP and knows no callers: whoever finds the address uses the GPUs and reads the traffic.
    Requests come in through a Gateway, which has certificates, keys and limits. Internal load balancers, source ranges
    and servers with an API key of their own are left alone.
    """
    for engine in engines(world):
        if engine.find("key") or engine.value("key"):
            continue
        for service in {id(way.through): way.through for way in service_ways(engine, world)}.values():
            spec = mapping(service.value, "spec")
            is_inside = any(_INSIDE.search(f"{key}={value}") for key, value in service.annotations.items())
            if spec.get("type") == "LoadBalancer" and not is_inside and not spec.get("loadBalancerSourceRanges"):
                message = f"publishing {engine.kind}: anybody can call it without a key through `{service.title}`"
                fix = "make it ClusterIP and lead a route to it, or set loadBalancerSourceRanges"
                yield Hit(at=service, path=("spec", "type"), message=message, fix=fix)


@rule("engine-port-not-declared", Severity.WARNING)
def engine_port_not_declared(world: World) -> Iterator[Hit]:
    """A container declares ports, and the one its model server listens on is not among them.

    One of both numbers is a slip. Named target ports, PodMonitors and network policies with named ports go by the
    declaration and miss the engine.
    """
    for engine in engines(world):
        declared = container_ports(engine)
        if engine.port is None or not declared or engine.port in declared.values() or engine.profile.more_ports:
            continue
        numbers = sorted(set(declared.values()))
        if all(_foreign(engine, number) for number in numbers) and not _several(engine):
            listed = ", ".join(map(str, numbers))
            yield Hit(
                at=engine.pod.owner,
                path=(*engine.container.path, "ports"),
                message=f"reading ports: {engine.kind} listens on {engine.port}, the container declares `{listed}`",
                fix=f"declare {engine.port}, or start the engine with --port {numbers[0]}",
            )


@rule("engines-on-one-port", Severity.ERROR)
def engines_on_one_port(world: World) -> Iterator[Hit]:
    """Two model servers of one pod listen on the same port.

    Containers of a pod share one network, so the second cannot bind the address and ends.
    """
    seen: dict[tuple[int, object, int], Engine] = {}
    for engine in engines(world):
        if engine.port is None or engine.find("--headless"):
            continue
        first = seen.setdefault((id(engine.pod.owner), engine.pod.path, engine.port), engine)
        if first is not engine:
            flag = engine.find("port")
            yield Hit(
                at=engine.pod.owner,
                path=flag.path if flag else engine.container.path,
                message=f"reading ports: containers {first.container.name} and {engine.container.name} both listen on "
                f"`{engine.port}`",
                fix="give one of them another --port",
            )

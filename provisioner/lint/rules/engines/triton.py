"""Triton's own switches: ports that collide, an API that is off, and models that nobody loads.

Source: Triton's `--help` and its model management guide.
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._reach import port_number, probes, service_ways
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import look
from provisioner.lint.world import World

_PORTS = {
    "--http-port": (8000, "--allow-http"),
    "--grpc-port": (8001, "--allow-grpc"),
    "--metrics-port": (8002, "--allow-metrics"),
}
"""Each port's flag, its default, and what switches the server behind it off."""
_OFF = ("false", "False", "0")


def _servers(world: World) -> Iterator[Engine]:
    return (engine for engine in engines(world) if engine.kind is EngineKind.TRITON)


@rule("triton-ports-collide", Severity.ERROR)
def triton_ports_collide(world: World) -> Iterator[Hit]:
    """Two of Triton's servers are given one port.

    HTTP has 8000, gRPC 8001 and metrics 8002 where nothing else is said. The second one cannot listen, and Triton ends.
    """
    for engine in _servers(world):
        taken: dict[int, str] = {}
        for name, (default, switch) in _PORTS.items():
            port = engine.count(name, default)
            if port is None or engine.value(switch) in _OFF:
                continue
            flag = engine.find(name) or engine.find(taken.get(port, ""))
            if port in taken and flag is not None:
                message = f"starting Triton: {taken[port]} and {name} are the same: `{port}`"
                yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix="give each a port of its own")
            taken.setdefault(port, name)


@rule("triton-http-off", Severity.ERROR)
def triton_http_off(world: World) -> Iterator[Hit]:
    """Triton's HTTP API is switched off, and a probe or a Service leads to it.

    With `--allow-http=false` nothing listens on its port: the pod never becomes ready, or each request is refused.
    """
    for engine in _servers(world):
        flag = engine.find("--allow-http")
        if flag is None or flag.value not in _OFF or engine.port is None:
            continue
        asked = [port_number(engine, look(found.value, "httpGet", "port")) for found in probes(engine)]
        led = [port_number(engine, way.port) for way in service_ways(engine, world)]
        if engine.port in asked or engine.port in led:
            message = f"starting Triton: its HTTP API is off, and somebody asks for it at `{engine.port}`"
            fix = "remove --allow-http, or ask by gRPC"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)


@rule("triton-loads-nothing", Severity.WARNING)
def triton_loads_nothing(world: World) -> Iterator[Hit]:
    """Triton is told to load models when asked, and nobody names one at the start.

    With `--model-control-mode=explicit` and no `--load-model` it is ready at once and serves no model until somebody
    calls its repository API; after each restart somebody has to call again.
    """
    for engine in _servers(world):
        flag = engine.find("--model-control-mode")
        if flag is not None and flag.value == "explicit" and not engine.has("--load-model") and engine.is_complete:
            message = f"starting Triton: no model is loaded before somebody asks for it: `{flag.name}={flag.value}`"
            fix = "add --load-model=NAME for each model, or --load-model=*"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)


@rule("triton-load-refused", Severity.ERROR)
def triton_load_refused(world: World) -> Iterator[Hit]:
    """Triton is told which models to load, and not to load models when told.

    `--load-model` is only for `--model-control-mode=explicit`; with another mode, and none is the default, Triton ends
    while it reads its command line.
    """
    for engine in _servers(world):
        flag, mode = engine.find("--load-model"), engine.find("--model-control-mode")
        is_other = mode is None if engine.is_complete else False
        if mode is not None and mode.value is not None:
            is_other = mode.value != "explicit"
        if flag is not None and is_other:
            message = f"starting Triton: only explicit control takes --load-model: `{flag.value or flag.name}`"
            fix = "add --model-control-mode=explicit, or remove --load-model to load all"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)

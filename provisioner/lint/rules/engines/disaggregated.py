"""Servers that share one model's work: prefill and decode apart, and the ports that they open beside the API's."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.world import World, same_namespace

_MODE, _TRANSFER = "--disaggregation-mode", "--disaggregation-transfer-backend"
_DEFAULTS = {_TRANSFER: "mooncake"}
_ALIKE = (_TRANSFER, "model", "--kv-cache-dtype", "--page-size")
_PORTS = ("--disaggregation-bootstrap-port", "--nccl-port", "--prometheus-port", "--grpc-port")


def _sides(world: World, mode: str) -> list[Engine]:
    found = (engine for engine in engines(world) if engine.kind is EngineKind.SGLANG)
    return [engine for engine in found if engine.value(_MODE) == mode]


@rule("prefill-and-decode-disagree", Severity.ERROR)
def prefill_and_decode_disagree(world: World) -> Iterator[Hit]:
    """A prefill server and the decode servers beside it hand caches over in different ways.

    Both sides must name one transfer backend, one model, one page size and one type of cache; with different ones no
    request gets past its prompt.
    """
    for decode in _sides(world, "decode"):
        beside = [one for one in _sides(world, "prefill") if same_namespace(one.pod.namespace, decode.pod.namespace)]
        for name in _ALIKE if len(beside) == 1 else ():
            default = _DEFAULTS.get(name)
            ours, theirs = decode.value(name) or default, beside[0].value(name) or default
            flag = decode.find(name) or beside[0].find(name)
            is_known = decode.is_complete and beside[0].is_complete and None not in (ours, theirs)
            if flag is not None and is_known and ours != theirs:
                message = f"handing caches over: {flag.name} is `{ours}` to decode and `{theirs}` to prefill"
                path = flag.path if decode.find(name) else decode.container.path
                yield Hit(at=decode.pod.owner, path=path, message=message, fix="write the same for both")


@rule("engine-ports-collide", Severity.ERROR)
def engine_ports_collide(world: World) -> Iterator[Hit]:
    """A model server is to open one port twice.

    The second listener ends with `Address already in use`, and the server with it.
    """
    for engine in engines(world):
        for name in _PORTS if engine.kind is not EngineKind.TRITON else ():
            flag = engine.find(name)
            if flag is not None and engine.port is not None and flag.value == str(engine.port):
                message = f"starting {engine.kind}: {name} is the port of its API: `{flag.value}`"
                yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix="give each a port of its own")

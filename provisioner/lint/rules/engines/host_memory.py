"""What a model server takes of its host beside the GPUs: memory while it loads, cores while it serves."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from provisioner.domain.finding import Severity
from provisioner.lint.joins.quantities import amount
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._models import weights_of
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import look
from provisioner.lint.world import World

_GIB = 2**30
_PYTHON = frozenset([EngineKind.VLLM, EngineKind.SGLANG, EngineKind.TGI])
_SHARE_ON_GPU = 8
"""Weights pass through the page cache, which the kernel takes back; with less than an eighth it does nothing else."""
_LEAST_CORES = Decimal("0.5")
_ROUGH = 0.8
"""A size that only the model's name tells is taken this much smaller."""


def _limit(engine: Engine) -> Decimal | None:
    return amount(look(engine.container.value, "resources", "limits", "memory"))


@rule("memory-limit-below-engine", Severity.WARNING)
def memory_limit_below_engine(world: World) -> Iterator[Hit]:
    """The memory limit of a model server on GPUs is less than it takes while it loads.

    PyTorch, CUDA's libraries and one process per GPU need about 4 GiB and 2 more for every further GPU, and the weights
    pass through the page cache, which counts too. Below that the kernel kills the container (OOMKilled, exit code 137)
    or it loads for hours.
    """
    for engine in engines(world):
        limit, gpus = _limit(engine), engine.gpus
        if engine.kind not in _PYTHON or limit is None or not gpus:
            continue
        weights = weights_of(engine, world.catalog)
        pods = max(1, ((engine.count("tensor") or 1) * (engine.count("pipeline") or 1)) // gpus)
        loaded = weights.stored_bytes / pods / _SHARE_ON_GPU if weights else 0
        need = max((4 + 2 * (gpus - 1)) * _GIB, loaded)
        if limit < need:
            yield _told(engine, limit, f"loading over {gpus} GPU{'s' * (gpus > 1)} takes about {need / _GIB:.0f} GiB")


@rule("memory-limit-below-weights", Severity.WARNING)
def memory_limit_below_weights(world: World) -> Iterator[Hit]:
    """A model that runs on the CPU is larger than the container's memory.

    Without a GPU the weights lie in the container's memory. Above the limit the kernel kills the container, or, where
    they are mapped from a file, reads them from disk anew for every token.
    """
    for engine in engines(world):
        limit, weights = _limit(engine), weights_of(engine, world.catalog)
        if limit is None or weights is None or engine.gpus != 0 or engine.kind is EngineKind.TRITON:
            continue
        need = weights.loaded_bytes * (1 if weights.is_exact else _ROUGH)
        if limit < need:
            yield _told(engine, limit, f"the weights alone are {need / _GIB:.1f} GiB")


@rule("engine-cpu-tiny", Severity.WARNING)
def engine_cpu_tiny(world: World) -> Iterator[Hit]:
    """A model server on GPUs asks for less than half a core, or may not use more.

    Tokenizing, scheduling and sampling run on the CPU: the GPUs wait for it, and probes time out. `8m` is eight
    thousandths of a core.
    """
    for engine in engines(world):
        for part in ("requests", "limits"):
            path = ("resources", part, "cpu")
            cores = amount(look(engine.container.value, *path))
            if engine.kind in _PYTHON and engine.gpus and cores is not None and 0 < cores < _LEAST_CORES:
                message = f"sizing {engine.kind}: {part} of `{float(cores):g}` cores leave its GPUs waiting"
                where = (*engine.container.path, *path)
                yield Hit(at=engine.pod.owner, path=where, message=message, fix="give it a few cores for each GPU")


def _told(engine: Engine, limit: Decimal, fact: str) -> Hit:
    return Hit(
        at=engine.pod.owner,
        path=(*engine.container.path, "resources", "limits", "memory"),
        message=f"limiting memory of {engine.kind}: {fact}, allowed are `{float(limit) / _GIB:.1f} GiB`",
        fix="raise limits.memory (and the request with it)",
    )

"""Shared memory at /dev/shm, through which the processes of one replica exchange tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.quantities import amount, plain
from provisioner.lint.joins.scaling import pods_made_by
from provisioner.lint.model_servers import GPU_RESOURCES, Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import World

_NCCL = frozenset([EngineKind.VLLM, EngineKind.SGLANG, EngineKind.TGI])
_SHM = "/dev/shm"  # noqa: S108  the path in the container that a manifest names
_LEAST = 2**30


def _processes(engine: Engine) -> int:
    """GPUs of one container that exchange tensors; 1 where that is not certain."""
    tensor, pipeline = engine.count("tensor") or 1, engine.count("pipeline") or 1
    if engine.kind is EngineKind.TGI and engine.value("tensor") is None:
        tensor = engine.gpus or 1
    together = tensor * pipeline
    return min(together, engine.gpus) if engine.is_multi_node and engine.gpus else together


def _mount(engine: Engine) -> tuple[FieldPath, Mapping[str, Any]] | None:
    """The volume that is mounted at /dev/shm, and where it stands."""
    for _, mount in items(engine.container.value, "volumeMounts"):
        if (text(mount, "mountPath") or "").rstrip("/") == _SHM:
            for path, volume in items(engine.pod.spec, "volumes"):
                if look(volume, "name") == look(mount, "name"):
                    return engine.pod.at(*path), mapping(volume)
            return engine.container.path, {}
    return None


def _unmounted(engine: Engine) -> bool:
    """Whether there is a memory-backed volume that goes elsewhere."""
    return any(look(volume, "emptyDir", "medium") == "Memory" for _, volume in items(engine.pod.spec, "volumes"))


@rule("shared-memory-missing", Severity.ERROR)
def shared_memory_missing(world: World) -> Iterator[Hit]:
    """An engine on several GPUs has only the 64 MiB of shared memory that every container gets.

    NCCL and the workers of tensor or pipeline parallel exchange data through /dev/shm; with 64 MiB they end with "Error
    while creating shared memory segment" (production-stack issue 276, vLLM's Kubernetes guide).
    """
    for engine in engines(world):
        if engine.kind not in _NCCL or _processes(engine) < 2 or _mount(engine) or look(engine.pod.spec, "hostIPC"):
            continue
        if engine.pod.owner.kind.startswith("Ray"):
            continue  # KubeRay mounts one by itself
        flag = engine.find("tensor") or engine.find("pipeline")
        elsewhere = " (a memory-backed volume is there, mounted elsewhere)" if _unmounted(engine) else ""
        yield Hit(
            at=engine.pod.owner,
            path=flag.path if flag else engine.container.path,
            message=f"sharing memory between {_processes(engine)} GPUs: nothing is mounted at `{_SHM}`{elsewhere}",
            fix="mount an emptyDir with medium: Memory and a sizeLimit of a few Gi at /dev/shm",
        )


@rule("shared-memory-missing-in-workers", Severity.ERROR)
def shared_memory_missing_in_workers(world: World) -> Iterator[Hit]:
    """The workers of a group have several GPUs each and only 64 MiB of shared memory.

    Each pod of a LeaderWorkerSet runs as many ranks as it has GPUs, and those exchange data through the pod's own
    /dev/shm, in workers as in the leader.
    """
    for engine in engines(world):
        owner = engine.pod.owner
        if owner.kind != "LeaderWorkerSet" or engine.kind not in _NCCL or (engine.count("tensor") or 1) < 2:
            continue
        for pod in pods_made_by(owner, world):
            if pod.path[-1] != "workerTemplate" or pod.path == engine.pod.path or look(pod.spec, "hostIPC"):
                continue
            for container in pod.containers:
                places = [
                    (text(mount, "mountPath") or "").rstrip("/") for _, mount in items(container.value, "volumeMounts")
                ]
                limits = mapping(container.value, "resources", "limits")
                gpus = max((amount(limits.get(name)) or 0 for name in GPU_RESOURCES), default=0)
                if gpus > 1 and _SHM not in places:
                    message = f"sharing memory between {gpus} GPUs of {container.name}: nothing is mounted at `{_SHM}`"
                    fix = "mount an emptyDir with medium: Memory and a sizeLimit of a few Gi at /dev/shm"
                    yield Hit(at=owner, path=container.path, message=message, fix=fix)


@rule("shared-memory-on-disk", Severity.WARNING)
def shared_memory_on_disk(world: World) -> Iterator[Hit]:
    """The volume at /dev/shm is on the node's disk.

    An emptyDir without `medium: Memory` is a folder of the node's file system: every tensor that passes between GPUs
    is written to disk.
    """
    for engine in engines(world):
        found = _mount(engine)
        if found is None or not isinstance(look(found[1], "emptyDir"), Mapping):
            continue
        if look(found[1], "emptyDir", "medium") in (None, ""):
            message = f"mounting {_SHM}: the volume is on disk, since it has no medium: `{look(found[1], 'name')}`"
            path = (*found[0], "emptyDir")
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="set medium: Memory")


@rule("shared-memory-small", Severity.WARNING)
def shared_memory_small(world: World) -> Iterator[Hit]:
    """Several GPUs share less than 1 GiB.

    vLLM's guides use 2 GiB and more, the production-stack chart 20 GiB; a full segment ends the engine in the middle
    of its work.
    """
    for engine in engines(world):
        found = _mount(engine)
        size = amount(look(found[1], "emptyDir", "sizeLimit")) if found else None
        if found is not None and size is not None and size < _LEAST and engine.kind in _NCCL and _processes(engine) > 1:
            message = f"sharing memory between {_processes(engine)} GPUs: {_SHM} is limited to `{plain(size)}`"
            path = (*found[0], "emptyDir", "sizeLimit")
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="allow 2Gi or more")

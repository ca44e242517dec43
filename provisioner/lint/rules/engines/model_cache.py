"""Where weights are kept: room, permission to write, and what is lost with the pod."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from provisioner.domain.finding import Severity
from provisioner.lint.joins.pods import volumes
from provisioner.lint.joins.quantities import amount, plain
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._cache import BARE_IMAGES, Mount, cache_folder, holds, is_hub_name, mounts
from provisioner.lint.rules.engines._models import Weights, weights_of
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import Container, PodTemplate, World

_ROUGH = 0.8
"""A size that only the model's name tells is taken this much smaller before a volume is called too small."""
_WORTH_KEEPING = 10 * 10**9
_WRITING = frozenset([EngineKind.VLLM, EngineKind.SGLANG])


@lru_cache(maxsize=20_000)
def _cache_mount(engine: Engine, world: World) -> Mount | None:
    """The volume that the weights go to or come from: the most specific mount around the folder."""
    model = engine.model or ""
    folder = model if model.startswith("/") else cache_folder(engine)
    if folder is None:
        return None
    found = [mount for mount in mounts(engine, world) if holds(mount, folder)]
    return max(found, key=lambda mount: len(mount.where), default=None)


def _least(weights: Weights) -> float:
    return weights.stored_bytes * (1 if weights.is_exact else _ROUGH)


@rule("cache-smaller-than-weights", Severity.ERROR)
def cache_smaller_than_weights(world: World) -> Iterator[Hit]:
    """The volume for the model is smaller than its weights.

    The download stops with "no space left on device", or the kubelet evicts the pod when an emptyDir passes its limit;
    each start downloads again. Bytes come from the catalog or the publisher, else from parameters in the model's name.
    """
    for engine in engines(world):
        weights, mount = weights_of(engine, world.catalog), _cache_mount(engine, world)
        if weights is None or mount is None:
            continue
        claimed = amount(look(mount.claim, "resources", "requests", "storage"))
        limited = amount(look(mount.volume, "emptyDir", "sizeLimit"))
        size = claimed if claimed is not None else limited
        if size is None or size >= _least(weights):
            continue
        at = mount.claim_at if claimed is not None and mount.claim_at else engine.pod.owner
        claim_path = (*mount.claim_path, "resources", "requests", "storage")
        yield Hit(
            at=at,
            path=claim_path if claimed is not None else (*mount.volume_path, "emptyDir", "sizeLimit"),
            message=f"keeping {engine.model}: {weights.stored_bytes / 10**9:.0f} GB of weights do not fit into "
            f"`{plain(size)}`",
            fix="make the volume at least a tenth larger than the weights",
        )


@rule("ephemeral-limit-below-weights", Severity.ERROR)
def ephemeral_limit_below_weights(world: World) -> Iterator[Hit]:
    """A container downloads its model to local disk and may use less of it than the weights take.

    emptyDir volumes and the container's own file system count against limits.ephemeral-storage; above it the kubelet
    evicts the pod, which starts again elsewhere with the same download.
    """
    for engine in engines(world):
        limit = amount(look(engine.container.value, "resources", "limits", "ephemeral-storage"))
        weights, mount = weights_of(engine, world.catalog), _cache_mount(engine, world)
        if limit is None or weights is None or not is_hub_name(engine) or limit >= _least(weights):
            continue
        local = mount is None or isinstance(look(mount.volume, "emptyDir"), Mapping)
        if local and (mount is None or look(mount.volume, "emptyDir", "medium") != "Memory"):
            path = (*engine.container.path, "resources", "limits", "ephemeral-storage")
            size = f"{weights.stored_bytes / 10**9:.0f} GB"
            message = f"keeping {engine.model}: {size} of weights pass the limit of local disk: `{plain(limit)}`"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="raise it, or keep the model on a volume")


def _writes_nowhere(engine: Engine, world: World) -> bool:
    folder = cache_folder(engine)
    read_only = look(engine.container.value, "securityContext", "readOnlyRootFilesystem") is True
    if folder is None or not read_only:
        return False
    writable = [mount for mount in mounts(engine, world) if not mount.read_only]
    home_unknown = folder.startswith("/root/") and any(
        mount.where.startswith(("/root", "/home", "/cache", "/data", "/models")) for mount in writable
    )
    return not home_unknown and not any(holds(mount, folder) for mount in writable)


@rule("cache-not-writable", Severity.ERROR)
def cache_not_writable(world: World) -> Iterator[Hit]:
    """The model is downloaded to a folder that the container may not write.

    The root file system is read-only, and no writable volume is mounted where the hub's cache lies (--download-dir,
    HF_HUB_CACHE, HF_HOME, else ~/.cache/huggingface).
    """
    for engine in engines(world):
        if is_hub_name(engine) and _writes_nowhere(engine, world):
            message = f"downloading {engine.model}: the root file system is read-only, nothing is mounted at "
            yield Hit(
                at=engine.pod.owner,
                path=(*engine.container.path, "securityContext", "readOnlyRootFilesystem"),
                message=f"{message}`{cache_folder(engine)}`",
                fix="mount a volume there, or point HF_HOME at one",
            )


@rule("cache-mounted-read-only", Severity.WARNING)
def cache_mounted_read_only(world: World) -> Iterator[Hit]:
    """The hub's cache is mounted read-only.

    It works while everything lies in it already and no lock or index has to be written; the first missing file ends
    the start. With HF_HUB_OFFLINE=1 the intention is clear and nothing is written.
    """
    for engine in engines(world):
        mount = _cache_mount(engine, world)
        if mount is not None and mount.read_only and is_hub_name(engine) and not engine.variable("HF_HUB_OFFLINE"):
            message = f"downloading {engine.model}: its cache is mounted read-only: `{mount.where}`"
            fix = "mount it writable, or set HF_HUB_OFFLINE=1 and fill it before"
            yield Hit(at=engine.pod.owner, path=mount.path, message=message, fix=fix)


_FILLING = re.compile(
    r"\b(huggingface-cli|hf) download\b|\bsnapshot_download\b|\baws s3 (cp|sync)\b|\bgsutil\b|\brclone\b"
)
"""What an init container or a Job fills a volume with."""


def _is_read_only(claim: Mapping[str, object]) -> bool:
    return bool(look(claim, "accessModes") == ["ReadOnlyMany"])


@rule("cache-on-read-only-claim", Severity.WARNING)
def cache_on_read_only_claim(world: World) -> Iterator[Hit]:
    """A model is downloaded to a claim whose only access mode is ReadOnlyMany.

    Storage that keeps to the mode mounts it read-only, and the download fails with `Read-only file system`; where it
    does not, pods on several nodes write at once. ReadOnlyMany is for volumes that are filled already, such as clones.
    """
    for engine in engines(world):
        mount = _cache_mount(engine, world)
        if mount is None or mount.read_only or not _is_read_only(mount.claim) or engine.variable("HF_HUB_OFFLINE"):
            continue
        if is_hub_name(engine) and look(mount.volume, "persistentVolumeClaim", "readOnly") is not True:
            message = f"downloading {engine.model}: its claim is only ReadOnlyMany: `{mount.where}`"
            fix = "give the claim ReadWriteMany, or fill it before and set HF_HUB_OFFLINE=1"
            yield Hit(at=engine.pod.owner, path=mount.path, message=message, fix=fix)
    for pod in world.pods if world.has("PersistentVolumeClaim") else ():
        for container in pod.containers:
            yield from _filled(world, pod, container)


def _filled(world: World, pod: PodTemplate, container: Container) -> Iterator[Hit]:
    script = " ".join(container.arguments)
    claims = {name: text(volume, "persistentVolumeClaim", "claimName") for name, volume in volumes(pod).items()}
    for path, entry in items(container.value, "volumeMounts") if _FILLING.search(script) else ():
        where, name = text(entry, "mountPath"), claims.get(text(entry, "name") or "")
        claim = world.find("PersistentVolumeClaim", name, namespace=pod.namespace) if name else None
        if where and where in script and claim and _is_read_only(mapping(claim.value, "spec")):
            message = f"filling {where}: its claim is only ReadOnlyMany: `{claim.name}`"
            fix = "give the claim ReadWriteOnce or ReadWriteMany"
            yield Hit(at=pod.owner, path=(*container.path, *path), message=message, fix=fix)


_SCRATCH = "/tmp"  # noqa: S108  a path in containers


@rule("engine-without-scratch", Severity.WARNING)
def engine_without_scratch(world: World) -> Iterator[Hit]:
    """A model server may write nowhere: its root filesystem is read-only and nothing is mounted at /tmp.

    vLLM and SGLang put sockets, compiled kernels and locks into the folder for temporary files, and end with
    "Read-only file system" or "No usable temporary directory found". An emptyDir at /tmp is enough.
    """
    for engine in engines(world):
        security = mapping(engine.container.value, "securityContext")
        if security.get("readOnlyRootFilesystem") is not True or engine.kind not in _WRITING:
            continue
        folder = engine.environment.get("TMPDIR", _SCRATCH)
        if not any(holds(mount, folder) and not mount.read_only for mount in mounts(engine, world)):
            message = f"starting {engine.kind}: the root filesystem is read-only and nothing is mounted at `{folder}`"
            path = (*engine.container.path, "securityContext", "readOnlyRootFilesystem")
            yield Hit(at=engine.pod.owner, path=path, message=message, fix=f"mount an emptyDir at {folder}")


_FOR_MODELS = re.compile(r"(?i)(^|[/_-])(hf|hub|huggingface|models?|weights|cache)($|[/_-])")
_NOT_FOR_MODELS = re.compile(r"(?i)vllm|torch|triton|compile|flashinfer|lora|adapter")


def _is_kept(mount: Mount) -> bool:
    """Whether what is written to a mount outlives the pod."""
    return any(kind in mapping(mount.volume) for kind in ("persistentVolumeClaim", "hostPath", "nfs")) or bool(
        mount.claim
    )


@rule("cache-volume-unused", Severity.WARNING)
def cache_volume_unused(world: World) -> Iterator[Hit]:
    """A volume for models is mounted, and the download goes somewhere else.

    HF_HOME, HF_HUB_CACHE, `--download-dir` or their defaults name a folder on none of the container's mounts, and
    nothing in its flags and variables speaks of the volume that is called like a cache. It stays empty, and every new
    pod downloads the model again to its own disk.
    """
    for engine in engines(world):
        folder = cache_folder(engine)
        if folder is None or not is_hub_name(engine) or _cache_mount(engine, world) is not None:
            continue
        spoken = " ".join((*engine.container.arguments, *engine.environment.values()))
        for mount in mounts(engine, world):
            is_meant = _FOR_MODELS.search(mount.where) and not _NOT_FOR_MODELS.search(mount.where)
            if is_meant and _is_kept(mount) and not mount.read_only and mount.where not in spoken:
                message = f"keeping {engine.model}: it is downloaded to `{folder}`, the volume is at `{mount.where}`"
                fix = f"set HF_HOME to {mount.where}, or mount the volume at {folder}"
                yield Hit(at=engine.pod.owner, path=mount.path, message=message, fix=fix)


_SAID = frozenset(["1", "true", "yes", "on"])


@rule("offline-without-weights", Severity.ERROR)
def offline_without_weights(world: World) -> Iterator[Hit]:
    """A model server may not ask the hub, and its cache is empty in every new pod.

    With HF_HUB_OFFLINE=1 the weights must lie in the cache already. Here it is on no volume, or on an emptyDir that
    nobody fills, and the image is an engine without weights: the server ends with `couldn't find them in the cached
    files`.
    """
    for engine in engines(world):
        is_offline = engine.environment.get("HF_HUB_OFFLINE", "").lower() in _SAID
        is_bare = any(name in engine.container.image for name in BARE_IMAGES)
        if not is_offline or not is_bare or not is_hub_name(engine) or cache_folder(engine) is None or engine.in_shell:
            continue
        mount = _cache_mount(engine, world)
        if mount is None or ("emptyDir" in mapping(mount.volume) and not _is_filled(engine, mount)):
            message = f"loading {engine.model}: the hub may not be asked, and nothing is in `{cache_folder(engine)}`"
            path = engine.variable("HF_HUB_OFFLINE") or engine.model_path
            fix = "mount the volume that holds the weights there, or let it ask the hub"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix=fix)


def _is_filled(engine: Engine, mount: Mount) -> bool:
    """Whether another container of the pod has the mount's volume too."""
    name = mount.volume.get("name")
    others = (other for other in engine.pod.containers if other.path != engine.container.path)
    return any(text(one, "name") == name for other in others for _, one in items(other.value, "volumeMounts"))


@rule("weights-lost-with-pod", Severity.INFO)
def weights_lost_with_pod(world: World) -> Iterator[Hit]:
    """Large weights are downloaded anew for every pod.

    An emptyDir or the container's own disk ends with the pod: each roll-out, eviction and scale-up loads everything
    from the hub again, which takes minutes and depends on the hub.
    """
    for engine in engines(world):
        weights = weights_of(engine, world.catalog)
        if weights is None or weights.stored_bytes < _WORTH_KEEPING or not is_hub_name(engine):
            continue
        mount = _cache_mount(engine, world)
        lost = mount is None or "emptyDir" in mapping(mount.volume)
        if lost and cache_folder(engine) is not None:
            size = f"{weights.stored_bytes / 10**9:.0f} GB"
            message = f"keeping {engine.model}: every new pod downloads `{size}`"
            fix = "keep the cache on a persistent volume or on the node's disk"
            yield Hit(at=engine.pod.owner, path=engine.model_path, message=message, fix=fix)

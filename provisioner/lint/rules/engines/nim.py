"""NVIDIA NIM: its key, its cache and the secret that pulls its image.

Source: the getting-started and configuration pages of NIM for LLMs and of the NeMo Retriever NIMs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.quantities import amount
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._cache import Mount, holds, mounts
from provisioner.lint.rules.engines._models import billions_in
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import items, literal, look, mapping, text
from provisioner.lint.world import World, same_namespace

_KEY = "NGC_API_KEY"
_ALIKE = re.compile(r"NGC.*KEY|NVIDIA_API_KEY|NIM_API_KEY|NGC_TOKEN")
_CACHE = "/opt/nim/.cache"
_GPU = "nvidia.com/gpu"
_GPU_SLIPS = ("nvidia.com/gpus", "nvidia/gpu", "nvidia.com.gpu", "gpu")
_PARALLEL = ("spec", "source", "ngc", "model", "tensorParallelism")
_FOR_CACHE = re.compile(r"(?i)cache|model|nim|weights")
_KEPT = ("persistentVolumeClaim", "hostPath", "nfs", "csi", "ephemeral")


def _servers(world: World) -> Iterator[Engine]:
    return (engine for engine in engines(world) if engine.kind is EngineKind.NIM)


def _cache(engine: Engine) -> str | None:
    """The folder of the cache, None where a variable decides that is not known here."""
    if engine.variable("NIM_CACHE_PATH") is None:
        return _CACHE
    return engine.environment.get("NIM_CACHE_PATH")


def _is_filled(engine: Engine, world: World) -> bool:
    """Whether the cache may hold the model already."""
    folder = _cache(engine)
    found = [mount for mount in mounts(engine, world) if folder is None or holds(mount, folder)]
    return any(_is_kept(mount) for mount in found)


def _is_kept(mount: Mount) -> bool:
    return any(kind in mount.volume for kind in _KEPT) or bool(mount.claim)


@rule("nim-without-key", Severity.ERROR)
def nim_without_key(world: World) -> Iterator[Hit]:
    """A NIM has no key for NGC, and no volume that could hold its model already.

    It downloads the model with `NGC_API_KEY` and ends without it: `Authentication error`. A variable of another name
    is not read. Models of other places (NIM_MODEL_NAME) and caches that are filled before need none.
    """
    for engine in _servers(world):
        names = {text(item, "name") or "" for _, item in items(engine.container.value, "env")}
        is_other = "NIM_MODEL_NAME" in names or look(engine.container.value, "envFrom") is not None
        wrong = next((name for name in sorted(names) if _ALIKE.fullmatch(name) and name != _KEY), None)
        if _KEY in names or is_other or (wrong is None and _is_filled(engine, world)):
            continue
        path = engine.variable(wrong) if wrong else engine.container.path
        message = f"starting NIM: it reads its key from {_KEY}, not from `{wrong}`"
        message = message if wrong else f"starting NIM: nothing sets `{_KEY}`"
        fix = f"set {_KEY} from a Secret"
        yield Hit(at=engine.pod.owner, path=path or engine.container.path, message=message, fix=fix)


@rule("nim-cache-elsewhere", Severity.WARNING)
def nim_cache_elsewhere(world: World) -> Iterator[Hit]:
    """A volume is mounted into a NIM, and its cache lies somewhere else.

    Models go to NIM_CACHE_PATH, `/opt/nim/.cache` where nobody says otherwise. The volume stays empty, and every new
    pod downloads its model again to its own disk.
    """
    for engine in _servers(world):
        folder, found = _cache(engine), list(mounts(engine, world))
        if folder is None or any(holds(mount, folder) for mount in found):
            continue
        for mount in found:
            if _is_kept(mount) and not mount.read_only and _FOR_CACHE.search(mount.where):
                message = f"keeping the model of a NIM: it goes to {folder}, the volume is at `{mount.where}`"
                fix = f"mount the volume at {folder}, or set NIM_CACHE_PATH"
                yield Hit(at=engine.pod.owner, path=mount.path, message=message, fix=fix)


@rule("nim-image-without-secret", Severity.WARNING)
def nim_image_without_secret(world: World) -> Iterator[Hit]:
    """The image of a NIM is pulled without a secret.

    `nvcr.io/nim` gives its images only to those who sign in: the pod stays in ImagePullBackOff. Where the nodes or the
    service account bring the secret, nothing is missing; a ServiceAccount of the folder is looked at.
    """
    for engine in _servers(world):
        name = text(engine.pod.spec, "serviceAccountName")
        account = world.find("ServiceAccount", name or "default", namespace=engine.pod.namespace)
        is_hidden = name is not None and account is None
        given = look(engine.pod.spec, "imagePullSecrets") or (account and look(account.value, "imagePullSecrets"))
        if "nvcr.io/nim/" in engine.container.image and not given and not is_hidden:
            message = f"pulling image of a NIM: nobody signs in to the registry: `{engine.container.image}`"
            path = (*engine.container.path, "image")
            fix = "name a Secret of type kubernetes.io/dockerconfigjson in imagePullSecrets"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix=fix)


@rule("nim-cache-unknown", Severity.ERROR)
def nim_cache_unknown(world: World) -> Iterator[Hit]:
    """A NIMService uses a NIMCache that its namespace does not have, though it has others.

    The operator waits for the cache and never makes the pods.
    """
    for found in world.of_kind("NIMService"):
        name = literal(found.value, "spec", "storage", "nimCache", "name")
        near = [one.name for one in world.of_kind("NIMCache") if same_namespace(one.namespace, found.namespace)]
        if name and near and name not in near:
            like = nearest_name(name, near)
            message = f"keeping the model of a NIM: the namespace has no NIMCache `{name}`"
            fix = f"did you mean {like}?" if like else f"write one of: {', '.join(near)}"
            yield Hit(at=found, path=("spec", "storage", "nimCache", "name"), message=message, fix=fix)


@rule("nim-profile-needs-more-gpus", Severity.ERROR)
def nim_profile_needs_more_gpus(world: World) -> Iterator[Hit]:
    """A NIMService gets fewer GPUs than the profile that its cache holds is cut over.

    `tensorParallelism` of the NIMCache chooses profiles for so many GPUs; no cached profile fits the service, and it
    ends with `No profiles compatible`.
    """
    for found in world.of_kind("NIMService"):
        name = literal(found.value, "spec", "storage", "nimCache", "name")
        cache = world.find("NIMCache", name, namespace=found.namespace) if name else None
        wanted = literal(cache.value, *_PARALLEL) if cache else None
        gpus = look(found.value, "spec", "resources", "limits", "nvidia.com/gpu")
        given, need = str(gpus), wanted or ""
        if given.isdigit() and need.isdigit() and int(given) < int(need):
            message = f"starting NIM: the cached profile is for {need} GPUs, the service gets `{given}`"
            path = ("spec", "resources", "limits", "nvidia.com/gpu")
            yield Hit(at=found, path=path, message=message, fix=f"give it {need}, or cache the profile for {given}")


@rule("nim-resource-misspelt", Severity.ERROR)
def nim_resource_misspelt(world: World) -> Iterator[Hit]:
    """A NIMService asks for a resource whose name is nearly that of GPUs.

    No node has it: the pods stay Pending.
    """
    for found in world.of_kind("NIMService"):
        for part in ("limits", "requests"):
            for name in mapping(found.value, "spec", "resources", part):
                if name in _GPU_SLIPS:
                    message = f"starting NIM: no node has a resource `{name}`"
                    path = ("spec", "resources", part, str(name))
                    yield Hit(at=found, path=path, message=message, fix=f"write {_GPU}")


_SMALLEST = 0.5
"""Bytes that a parameter takes at least: four bits."""


@rule("nim-cache-too-small", Severity.ERROR)
def nim_cache_too_small(world: World) -> Iterator[Hit]:
    """The claim of a NIMCache is smaller than its model at four bits a parameter.

    The job that fills the cache ends with "no space left on device". Parameters are those in the image's name.
    """
    for found in world.of_kind("NIMCache"):
        puller = literal(found.value, "spec", "source", "ngc", "modelPuller") or ""
        billions = billions_in(puller.partition(":")[0].rpartition("/")[2])
        path = ("spec", "storage", "pvc", "size")
        size = amount(look(found.value, *path))
        if billions is not None and size is not None and size < billions * 10**9 * _SMALLEST:
            message = f"keeping {billions:g} billion parameters: they do not fit into `{look(found.value, *path)}`"
            yield Hit(at=found, path=path, message=message, fix=f"claim {max(20, round(billions * 3))}Gi or more")

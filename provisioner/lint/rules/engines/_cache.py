"""Where an engine keeps the weights it loads: mounts, volumes and their size. Pure; no rules stand here.

The rules about model caches look through it. Folders are those in which the Hugging Face hub and the engines keep
downloads when nobody says otherwise, by their own documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.model_servers import Engine
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import Object, World

_NO_MODELS = ("/dev/shm", "/tmp", "/var/run", "/run", "/etc")  # noqa: S108  paths in containers
_HUB_ENGINES = frozenset([EngineKind.VLLM, EngineKind.SGLANG, EngineKind.TGI])


BARE_IMAGES = (
    *("vllm/vllm-openai", "lmsysorg/sglang", "huggingface/text-generation-inference", "ggml-org/llama.cpp"),
    *("ggerganov/llama.cpp", "ericlbuehler/mistral.rs", "nvidia/tritonserver", "huggingface/text-embeddings-inference"),
    "nvidia/tensorrt-llm",
)
"""Images that hold an engine and nothing else: no weights, adapters, templates or certificates."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume that the engine's container mounts. `claim` is the PersistentVolumeClaim's spec, where it is shown."""

    where: str
    path: FieldPath
    read_only: bool
    volume: Mapping[str, Any]
    volume_path: FieldPath
    claim: Mapping[str, Any]
    claim_at: Object | None
    claim_path: FieldPath


def is_hub_name(engine: Engine) -> bool:
    """Whether the model is the name of a repository that is downloaded at the start."""
    model = engine.model or ""
    if engine.kind not in _HUB_ENGINES or engine.find("--load-format") or engine.find("--config-format"):
        return False
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", model) is not None


def mounts(engine: Engine, world: World) -> Iterator[Mount]:
    """What the engine's container mounts, with volumes and claims."""
    volumes = {text(item, "name"): (engine.pod.at(*path), item) for path, item in items(engine.pod.spec, "volumes")}
    for path, item in items(engine.container.value, "volumeMounts"):
        where, name = text(item, "mountPath"), text(item, "name")
        if where is None:
            continue
        at, volume = volumes.get(name, (engine.container.path, {}))
        owner, claim_path = _claim(engine, world, volume, name)
        claim = mapping(owner.value, *claim_path) if owner else {}
        read_only = look(item, "readOnly") is True
        yield Mount(
            where.rstrip("/") or "/",
            (*engine.container.path, *path),
            read_only,
            mapping(volume),
            at,
            claim,
            owner,
            claim_path,
        )


def _claim(engine: Engine, world: World, volume: Any, name: str | None) -> tuple[Object | None, FieldPath]:
    """The object that holds the spec of a mount's claim, and where in it."""
    claimed = text(volume, "persistentVolumeClaim", "claimName")
    if claimed is not None:
        return world.find("PersistentVolumeClaim", claimed, namespace=engine.pod.namespace), ("spec",)
    for path, item in items(engine.pod.spec, "volumes"):
        if item is volume and mapping(volume, "ephemeral", "volumeClaimTemplate"):
            return engine.pod.owner, (*engine.pod.at(*path), "ephemeral", "volumeClaimTemplate", "spec")
    if isinstance(look(volume, "ephemeral"), Mapping):
        return None, ()
    for path, template in items(engine.pod.owner.value, "spec", "volumeClaimTemplates"):
        if text(template, "metadata", "name") == name:
            return engine.pod.owner, (*path, "spec")
    return None, ()


def keeps_models(engine: Engine) -> bool:
    """Whether a volume that may hold weights already is mounted: any but scratch space of the pod's own."""
    filled = {
        text(mount, "name")
        for container in engine.pod.containers
        if container.is_init
        for _, mount in items(container.value, "volumeMounts")
    }
    scratch = {
        text(volume, "name")
        for _, volume in items(engine.pod.spec, "volumes")
        if any(kind in mapping(volume) for kind in ("emptyDir", "configMap", "secret", "projected", "downwardAPI"))
    }
    for _, mount in items(engine.container.value, "volumeMounts"):
        name = text(mount, "name")
        if not (text(mount, "mountPath") or "").startswith(_NO_MODELS) and (name not in scratch or name in filled):
            return True
    return False


def cache_folder(engine: Engine) -> str | None:
    """Where a download goes, None where a variable decides that is not known here."""
    given = engine.value("download")
    if given is not None:
        return given
    for name, rest in (
        ("HF_HUB_CACHE", ""),
        ("HUGGINGFACE_HUB_CACHE", ""),
        ("HF_HOME", ""),
        ("XDG_CACHE_HOME", "/huggingface"),
        ("HOME", "/.cache/huggingface"),
    ):
        if name in engine.environment:
            return engine.environment[name].rstrip("/") + rest
        if engine.variable(name) is not None:
            return None
    if look(engine.container.value, "envFrom") or engine.find("download"):
        return None
    return "/data" if engine.kind is EngineKind.TGI else "/root/.cache/huggingface"


def holds(mount: Mount, folder: str) -> bool:
    """Whether a folder lies on a mount."""
    return folder == mount.where or folder.startswith(f"{mount.where.rstrip('/')}/")


def starts_empty(engine: Engine, world: World) -> bool:
    """Whether the hub's cache lies on a claim that the folder makes, and nothing of the folder fills."""
    folder = cache_folder(engine)
    found = [mount for mount in mounts(engine, world) if folder is not None and holds(mount, folder)]
    mount = max(found, key=lambda one: len(one.where), default=None)
    if mount is None or mount.claim_at is None or mount.read_only:
        return False
    is_copied = any(look(mount.claim, field) for field in ("dataSource", "dataSourceRef", "volumeName"))
    name = text(mount.volume, "persistentVolumeClaim", "claimName")
    return not is_copied and not _is_shared(world, engine, name, text(mount.volume, "name"))


def _is_shared(world: World, engine: Engine, claim: str | None, volume: str | None) -> bool:
    """Whether other pods mount the claim, or other containers of the pod the volume."""
    inits = (one for one in engine.pod.containers if one.path != engine.container.path)
    if any(text(item, "name") == volume for one in inits for _, item in items(one.value, "volumeMounts")):
        return True
    pods = (pod for pod in world.pods_in(engine.pod.namespace) if pod.owner is not engine.pod.owner)
    theirs = (item for pod in pods for _, item in items(pod.spec, "volumes"))
    return claim is not None and any(text(item, "persistentVolumeClaim", "claimName") == claim for item in theirs)

"""Files that a model server is told to read: whether anything puts them into its container."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.model_servers import Engine, Flag, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._cache import BARE_IMAGES
from provisioner.lint.values import items, literal, look, mapping, text
from provisioner.lint.world import POD_TEMPLATES, World

_IN_IMAGES = ("/vllm-workspace", "/sgl-workspace", "/workspace", "/app", "/usr", "/opt", "/etc", "/lib", "/bin")
_FILES = (
    *("model", "tls", "--chat-template", "--tokenizer", "--lora-modules", "--tool-parser-plugin", "--lora"),
    *("--reasoning-parser-plugin", "--chat-template-file", "--mmproj", "--lora-paths", "--hf-config-path"),
)


def _path(flag: Flag) -> str | None:
    """The absolute path that a flag names, also behind `name=`."""
    value = (flag.value or "").rpartition("=")[2]
    return posixpath.normpath(value) if value.startswith("/") else None


def _is_there(engine: Engine, path: str) -> bool:
    """Whether a path lies on a mount, or in a folder that the image brings."""
    mounts = [text(mount, "mountPath") for _, mount in items(engine.container.value, "volumeMounts")]
    folders = [f"/{mount.strip('/')}" for mount in mounts if mount is not None] + list(_IN_IMAGES)
    return None in mounts or any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _lacking_key(world: World, engine: Engine, path: str) -> tuple[str, list[str]] | None:
    """The ConfigMap or Secret that is mounted where a file should be and has no such entry, and what it has."""
    volumes = {text(item, "name"): item for _, item in items(engine.pod.spec, "volumes")}
    for _, mount in items(engine.container.value, "volumeMounts"):
        folder, volume = text(mount, "mountPath"), volumes.get(text(mount, "name"))
        if folder is None or posixpath.dirname(path) != f"/{folder.strip('/')}" or "subPath" in mapping(mount):
            continue
        for kind, part, key in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
            name = literal(volume, part, key)
            held = world.find(kind, name, namespace=engine.pod.namespace) if name else None
            if held is None or look(volume, part, "items") is not None:
                continue
            entries = [str(one) for field in ("data", "stringData", "binaryData") for one in mapping(held.value, field)]
            if entries and posixpath.basename(path) not in entries:
                return held.title, entries
    return None


@rule("engine-file-not-in-volume", Severity.ERROR)
def engine_file_not_in_volume(world: World) -> Iterator[Hit]:
    """A model server is told to read a file of a ConfigMap or Secret that has no such entry.

    Each entry is a file under its own name. The engine ends: `No such file or directory`.
    """
    for engine in engines(world):
        for concept in (*_FILES, "--api-key-file", "--ssl-keyfile", "--ssl-certfile"):
            flag = engine.find(concept)
            path = _path(flag) if flag is not None and not flag.is_unknown else None
            found = _lacking_key(world, engine, path) if path is not None else None
            if flag is not None and found is not None:
                near = nearest_name(posixpath.basename(path or ""), found[1])
                message = f"loading for {engine.kind}: {found[0]} has no entry for the file `{path}`"
                fix = f"did you mean {near}?" if near else f"it has: {', '.join(sorted(found[1]))[:200]}"
                yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)


def _is_one_command(engine: Engine) -> bool:
    """Whether a shell runs the engine and nothing that could fetch files before."""
    return re.search(r"[;&|\n`]|\$\(", engine.container.arguments[-1].strip()) is None


@rule("engine-file-not-mounted", Severity.WARNING)
def engine_file_not_mounted(world: World) -> Iterator[Hit]:
    """A model server is told to read a file that nothing puts into its container.

    The images of the engines' makers hold no weights, adapters, chat templates or certificates. A path on none of the
    container's mounts is not there, and the engine ends while it loads. Images of one's own, scripts and operators,
    which may bring or fetch it, are left alone.
    """
    for engine in engines(world):
        is_whole = engine.pod.owner.kind in POD_TEMPLATES and (not engine.in_shell or _is_one_command(engine))
        if not is_whole or not any(name in engine.container.image for name in BARE_IMAGES):
            continue
        for concept in _FILES:
            flag = engine.find(concept)
            path = _path(flag) if flag is not None and not flag.is_unknown else None
            if flag is not None and path is not None and not _is_there(engine, path):
                message = f"loading for {engine.kind}: nothing is mounted at `{path}`"
                fix = "mount the volume that holds it there, or correct the path"
                yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)

"""Files that a model server is told to read: whether anything puts them into its container."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.model_servers import Engine, Flag, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._cache import BARE_IMAGES
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import items, text
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


def _positional(engine: Engine) -> Flag | None:
    """The model of `vllm serve MODEL` as if it were a flag's."""
    return Flag("model", engine.model, engine.model_path) if (engine.model or "").startswith("/") else None


def _is_there(engine: Engine, path: str) -> bool:
    """Whether a path lies on a mount, or in a folder that the image brings."""
    mounts = [text(mount, "mountPath") for _, mount in items(engine.container.value, "volumeMounts")]
    folders = [f"/{mount.strip('/')}" for mount in mounts if mount is not None] + list(_IN_IMAGES)
    return None in mounts or any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


_FETCHES = re.compile(
    r"\b(curl|wget|aws|azcopy|gcloud|gsutil|rclone|s5cmd|hf|huggingface-cli|modelscope|git|oras|modctl|skopeo|rsync|scp)\s"
    r"|\b(cp|mv|ln|mkdir|tar|unzip|mount|pip|uv|source|eval|tee)\s|\.(py|sh)\b|(^|[\s;&])\.\s|snapshot_download|>\s*/"
)
"""What may put a file somewhere."""


def _makes_no_files(engine: Engine) -> bool:
    """Whether a shell runs the engine and nothing that could fetch files before."""
    return _FETCHES.search(" ".join(engine.container.arguments)) is None


@rule("engine-file-not-mounted", Severity.WARNING)
def engine_file_not_mounted(world: World) -> Iterator[Hit]:
    """A model server is told to read a file that nothing puts into its container.

    The images of the engines' makers hold no weights, adapters, chat templates or certificates. A path on none of the
    container's mounts is not there, and the engine ends while it loads. Images of one's own, scripts and operators,
    which may bring or fetch it, are left alone.
    """
    for engine in engines(world):
        is_whole = engine.pod.owner.kind in POD_TEMPLATES and (not engine.in_shell or _makes_no_files(engine))
        if not is_whole or not any(name in engine.container.image for name in BARE_IMAGES):
            continue
        for concept in _FILES:
            flag = engine.find(concept) or (_positional(engine) if concept == "model" else None)
            path = _path(flag) if flag is not None and not flag.is_unknown else None
            if flag is not None and path is not None and not _is_there(engine, path):
                message = f"loading for {engine.kind}: nothing is mounted at `{path}`"
                fix = "mount the volume that holds it there, or correct the path"
                yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)


@rule("llama-model-is-no-file", Severity.ERROR)
def llama_model_is_no_file(world: World) -> Iterator[Hit]:
    """llama.cpp is told to load a repository's name as a file.

    `--model` takes the path of a GGUF file; a repository of the hub is given by `-hf`, and must hold GGUF files. The
    server ends with `failed to open GGUF file`.
    """
    for engine in engines(world):
        flag = engine.find("--model") or engine.find("-m")
        value = flag.value if flag is not None and engine.kind is EngineKind.LLAMA_CPP else None
        is_name = value is not None and re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", value) is not None
        if flag is not None and value is not None and is_name and ".gguf" not in value.lower():
            message = f"loading for {engine.kind}: --model takes a GGUF file, found `{value}`"
            fix = "write the path of the file, or use -hf"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)

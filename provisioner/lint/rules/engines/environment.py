"""The environment of a model server: visible devices, addresses, hub access, secrets, trust in code."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import lru_cache

from provisioner.domain.finding import Severity
from provisioner.lint.joins.slips import distance
from provisioner.lint.model_servers import Engine, engines, vllm_version
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._cache import is_hub_name, keeps_models, starts_empty
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.vllm_variables import VLLM_VARIABLES
from provisioner.lint.world import World

_SLIP = 2
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_NO_DEVICE = frozenset(["", "-1", "none", "void", "NoDevFiles"])
_NOT_ROUTABLE = ("0.0.0.0", "127.", "localhost", "::")  # noqa: S104  what manifests set by mistake
_OFFICIAL = ("vllm/vllm-openai", "lmsysorg/sglang", "huggingface/text-generation-inference", "rocm/vllm")
"""Images that hold no weights."""
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT")
_LIKE_TOKEN = re.compile(r"(HF|HUGGING_?FACE(_?HUB)?)_.*(TOKEN|KEY)$")
_GATED = re.compile(r"^(meta-llama/|google/gemma|mistralai/(Mistral-Large|Codestral)|black-forest-labs/FLUX.1-dev)")
_NCCL = re.compile(r"^(NCCL_(IB|SOCKET|NET|CROSS|TOPO)|GLOO_SOCKET|UCX_|NVSHMEM_)")
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


_CLOSE = 0.87
"""How much of a variable's name must be the same: VLLM_LOG_LEVEL is meant to be VLLM_LOGGING_LEVEL."""


@lru_cache(maxsize=1024)
def _meant_variable(name: str) -> str | None:
    near = next((known for known in sorted(VLLM_VARIABLES) if distance(name, known) <= _SLIP), None)
    return near or next(iter(difflib.get_close_matches(name, sorted(VLLM_VARIABLES), n=1, cutoff=_CLOSE)), None)


@rule("engine-variable-misspelt", Severity.WARNING)
def engine_variable_misspelt(world: World) -> Iterator[Hit]:
    """A variable for vLLM is almost one that it reads.

    Nobody reads the misspelt one, so the setting is not in effect. Known are the variables of the releases up to 0.32.
    """
    for engine in engines(world):
        for name in engine.environment if engine.kind is EngineKind.VLLM else ():
            if name.startswith("VLLM_") and name not in VLLM_VARIABLES and (near := _meant_variable(name)):
                path = engine.variable(name) or engine.container.path
                message = f"reading environment: vLLM does not read `{name}`"
                yield Hit(at=engine.pod.owner, path=path, message=message, fix=f"did you mean {near}?")


@rule("engine-version-switched-off", Severity.WARNING)
def engine_version_switched_off(world: World) -> Iterator[Hit]:
    """vLLM is told to use its old engine, which its release no longer has.

    Since 0.11 there is only V1; `VLLM_USE_V1=0` ends with an error or is ignored.
    """
    for engine in engines(world):
        version, path = vllm_version(engine), engine.variable("VLLM_USE_V1")
        if version is not None and version >= (0, 11) and engine.environment.get("VLLM_USE_V1") == "0" and path:
            message = f"reading environment: release {version[0]}.{version[1]} has no old engine: `VLLM_USE_V1=0`"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="remove it")


@rule("visible-devices-by-hand", Severity.WARNING)
def visible_devices_by_hand(world: World) -> Iterator[Hit]:
    """A container names its GPUs itself.

    The device plugin gives a container the GPUs of its limit and sets the variable accordingly; inside they are always
    numbered from 0. A number written by hand is right on one node at most, and with NVIDIA_VISIBLE_DEVICES a container
    sees GPUs that belong to other pods.
    """
    for engine in engines(world):
        for name in _VISIBLE:
            path = engine.variable(name)
            if path is not None and not _hides(engine, name):
                value = engine.environment.get(name, "…")
                message = f"reading environment: the device plugin sets {name}, not the manifest: `{value}`"
                fix = "remove it and ask for GPUs in limits"
                yield Hit(at=engine.pod.owner, path=path, message=message, fix=fix)


def _devices(engine: Engine, name: str) -> list[str] | None:
    value = engine.environment.get(name)
    return None if value is None or value == "all" else [part.strip() for part in value.split(",")]


def _hides(engine: Engine, name: str) -> bool:
    """Whether the variable leaves the engine fewer GPUs than it needs, or names one that is not there."""
    devices, gpus = _devices(engine, name), engine.gpus
    if devices is None or not gpus:
        return False
    if set(devices) <= _NO_DEVICE:
        return True
    if not all(part.isascii() and part.isdigit() for part in devices):
        return False
    tensor = engine.count("tensor") or 1
    beyond = name != "NVIDIA_VISIBLE_DEVICES" and any(int(part) >= gpus for part in devices if len(part) < 6)
    return beyond or len(set(devices)) < min(tensor, gpus)


@rule("visible-devices-against-limit", Severity.ERROR)
def visible_devices_against_limit(world: World) -> Iterator[Hit]:
    """A container hides GPUs that its engine needs, or names ones that it does not have.

    Inside a container GPUs are numbered from 0 to the limit minus 1, whatever their numbers on the node. CUDA stops at
    the first number it cannot find, and the engine sees too few devices.
    """
    for engine in engines(world):
        for name in _VISIBLE:
            path = engine.variable(name)
            if path is not None and _hides(engine, name):
                value = engine.environment[name]
                message = f"reading environment: {name} does not agree with {engine.gpus} GPUs in limits: `{value}`"
                fix = "remove it; the device plugin sets it"
                yield Hit(at=engine.pod.owner, path=path, message=message, fix=fix)


@rule("engine-without-gpu", Severity.WARNING)
def engine_without_gpu(world: World) -> Iterator[Hit]:
    """A model server that needs a GPU asks for none.

    The scheduler puts it on any node, the device plugin gives it nothing, and the CUDA build ends with "no GPU found".
    It works only on clusters whose default runtime shows all GPUs to everybody.
    """
    for engine in engines(world):
        official = any(name in engine.container.image for name in _OFFICIAL) and "cpu" not in engine.container.image
        others = mapping(engine.container.value, "resources", "limits")
        if not official or engine.gpus != 0 or engine.find("--device") or any("/" in str(name) for name in others):
            continue
        elsewhere = engine.pod.owner.kind in (
            "ServingRuntime",
            "ClusterServingRuntime",
        )  # resources come with the model
        if elsewhere or look(engine.pod.spec, "resourceClaims") or look(engine.pod.spec, "runtimeClassName"):
            continue
        message = f"counting GPUs: {engine.kind} in container {engine.container.name} asks for `0`"
        path = (*engine.container.path, "resources")
        yield Hit(at=engine.pod.owner, path=path, message=message, fix="set limits nvidia.com/gpu: 1")


@rule("vllm-address-by-environment", Severity.WARNING)
def vllm_address_by_environment(world: World) -> Iterator[Hit]:
    """VLLM_PORT or VLLM_HOST_IP is set as if it were the server's address.

    Both are for vLLM's own processes: VLLM_PORT is the first port they use among themselves, and VLLM_HOST_IP must be
    the pod's own address (fieldRef status.podIP). The API server listens where --host and --port say.
    Source: docs.vllm.ai, environment variables.
    """
    for engine in engines(world):
        if engine.kind is not EngineKind.VLLM:
            continue
        port, host = engine.environment.get("VLLM_PORT"), engine.environment.get("VLLM_HOST_IP")
        if port is not None and not port.startswith("tcp:"):
            message = f"reading environment: VLLM_PORT is no port of the API server: `{port}`"
            path = engine.variable("VLLM_PORT") or engine.container.path
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="remove it and set --port")
        if host is not None and host.startswith(_NOT_ROUTABLE):
            message = f"reading environment: VLLM_HOST_IP must be the pod's own address, found `{host}`"
            path = engine.variable("VLLM_HOST_IP") or engine.container.path
            fix = "take it from fieldRef status.podIP, or remove it; the server's address is --host"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix=fix)


@rule("nccl-settings-without-peers", Severity.INFO)
def nccl_settings_without_peers(world: World) -> Iterator[Hit]:
    """Network settings of NCCL stand on a model server that runs on one node.

    GPUs of one node talk over NVLink, PCIe and shared memory; interfaces and InfiniBand adapters matter only between
    nodes.
    """
    for engine in engines(world):
        name = next((name for name in engine.environment if _NCCL.match(name)), None)
        if name is not None and not engine.is_multi_node and not engine.find("--kv-transfer-config"):
            message = f"reading environment: {engine.kind} runs on one node, this does nothing: `{name}`"
            path = engine.variable(name) or engine.container.path
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="remove it")


@rule("hub-offline-without-weights", Severity.ERROR)
def hub_offline_without_weights(world: World) -> Iterator[Hit]:
    """The hub is switched off and there is nowhere else to take the weights from.

    With HF_HUB_OFFLINE an engine reads its cache only. The image holds no weights, and no volume is mounted where they
    could lie.
    """
    for engine in engines(world):
        name = next((name for name in _OFFLINE if engine.environment.get(name, "0") not in ("0", "false")), None)
        official = any(part in engine.container.image for part in _OFFICIAL)
        if name is not None and official and is_hub_name(engine) and not keeps_models(engine):
            message = f"loading {engine.model}: {name} is set and no volume holds the weights: `{name}`"
            path = engine.variable(name) or engine.container.path
            fix = "mount a volume with the weights at HF_HOME, or allow the hub"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix=fix)


@rule("gated-model-without-token", Severity.WARNING)
def gated_model_without_token(world: World) -> Iterator[Hit]:
    """A model behind a licence is downloaded without a token.

    The hub answers 401 for gated repositories such as meta-llama's; the engine ends and restarts for ever.
    """
    for engine in engines(world):
        annotations = str(look(engine.pod.value, "metadata", "annotations"))
        told = any(engine.variable(name) for name in (*_TOKENS, *_OFFLINE)) or engine.has("--hf-token")
        told = told or "vault.hashicorp.com" in annotations
        volumes = any(look(volume, "secret") or look(volume, "csi") for _, volume in items(engine.pod.spec, "volumes"))
        if told or volumes or look(engine.container.value, "envFrom") or not is_hub_name(engine):
            continue
        if _GATED.match(engine.model or "") and (not keeps_models(engine) or starts_empty(engine, world)):
            message = f"loading {engine.model}: the hub gives it only to those with a token, and there is none"
            fix = "set HF_TOKEN from a Secret"
            yield Hit(at=engine.pod.owner, path=engine.model_path, message=message, fix=fix)


@rule("hub-token-misnamed", Severity.WARNING)
def hub_token_misnamed(world: World) -> Iterator[Hit]:
    """A token for the hub is in a variable that nobody reads.

    Hugging Face's libraries read HF_TOKEN (and the older HUGGING_FACE_HUB_TOKEN). With any other name the download is
    anonymous: gated models answer 401, others are limited in rate.
    """
    for engine in engines(world):
        if not is_hub_name(engine) or engine.in_shell or any(engine.variable(name) for name in _TOKENS):
            continue
        for path, item in items(engine.container.value, "env"):
            name = text(item, "name") or ""
            if _LIKE_TOKEN.match(name) and not look(engine.container.value, "envFrom"):
                message = f"downloading {engine.model}: no library reads its token from `{name}`"
                where = (*engine.container.path, *path, "name")
                yield Hit(at=engine.pod.owner, path=where, message=message, fix="call it HF_TOKEN")


@rule("engine-key-in-arguments", Severity.WARNING)
def engine_key_in_arguments(world: World) -> Iterator[Hit]:
    """A key or token stands on the command line.

    Arguments show in the manifest, in Git, in `kubectl describe` and in the node's process list.
    """
    for engine in engines(world):
        for flag in engine.flags:
            secret = flag.name in ("--hf-token", "--api-key", "--admin-api-key")
            if secret and flag.value and not re.match(r"[$/]", flag.value):
                message = (
                    f"reading arguments of {engine.kind}: anybody who sees the pod sees the value of `{flag.name}`"
                )
                fix = "take it from a Secret: an environment variable, and $(NAME) where a flag is needed"
                yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)


@rule("engine-trusts-unpinned-code", Severity.INFO)
def engine_trusts_unpinned_code(world: World) -> Iterator[Hit]:
    """The engine runs code from the model's repository, whichever is there at the next start.

    `--trust-remote-code` without `--revision` executes what the repository's owner pushed last, next to customers'
    data.
    """
    for engine in engines(world):
        flag = engine.find("--trust-remote-code")
        pinned = engine.find("revision") or engine.find("--code-revision")
        if flag is not None and not pinned and is_hub_name(engine) and engine.is_complete:
            message = f"loading {engine.model}: its code is run at no fixed revision: `{flag.name}`"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix="add --revision with a commit")

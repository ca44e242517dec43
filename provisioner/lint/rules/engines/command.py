"""How a model server is started: command, image and quantization against each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.joins.quantities import is_accelerator
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._models import is_published_whole
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import World

_STARTING_IMAGES = re.compile(
    r"(^|/)vllm/vllm-openai[:@]|ggml-org/llama\.cpp:server|huggingface/text-generation-inference[:@]"
)
"""Images whose entry point is the server itself, so that `args` are its flags."""
_LAYERS = ("-ngl", "--n-gpu-layers", "--gpu-layers")
_STORED = {"awq": r"(?<![a-z])awq(?![a-z])", "gptq": r"(?<![a-z])gptq(?![a-z])"}
_ONLY_STORED = frozenset(["awq", "awq_marlin", "gptq", "gptq_marlin"])
"""Quantizations that cannot be done while loading."""
_READS = {
    "awq": frozenset(["awq", "awq_marlin", "auto_awq", "compressed-tensors", "auto", "moe_wna16", "ipex", "inc"]),
    "gptq": frozenset(
        ["gptq", "gptq_marlin", "auto_gptq", "compressed-tensors", "auto", "moe_wna16", "ipex", "exl2", "inc"]
    ),
}


@rule("flags-as-command", Severity.ERROR)
def flags_as_command(world: World) -> Iterator[Hit]:
    """A container's `command` begins with a flag.

    `command` replaces the image's entry point, so the runtime looks for a program called `--model`: "executable file
    not found". Flags for the image's own program belong to `args`.
    """
    for pod in world.pods:
        for container in pod.containers:
            first = next((item for _, item in items(container.value, "command")), None)
            if isinstance(first, str) and re.match(r"--?[A-Za-z]", first):
                message = f"starting container {container.name}: no program is called `{first[:60]}`"
                path = (*container.path, "command")
                yield Hit(at=pod.owner, path=path, message=message, fix="use args instead of command")


@rule("engine-started-twice", Severity.ERROR)
def engine_started_twice(world: World) -> Iterator[Hit]:
    """The arguments name the server's program, which the image starts already.

    The entry point of these images is the server; with `args: [vllm, serve, …]` it gets its own name as a model or as
    an unknown argument and ends. Put the program into `command`, or leave it out.
    """
    for engine in engines(world):
        arguments = [item for _, item in items(engine.container.value, "args")]
        if look(engine.container.value, "command") or not _STARTING_IMAGES.search(engine.container.image):
            continue
        words = str(arguments[0]).split() if arguments else []
        first = words[0] if words else ""
        if re.fullmatch(r"(\S*/)?(vllm|python3?|llama-server|text-generation-launcher)", first):
            message = f"starting {engine.kind}: the image starts it already, and gets as an argument: `{first}`"
            path = (*engine.container.path, "args", 0)
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="move the program to command, or remove it")


@rule("quantization-against-weights", Severity.ERROR)
def quantization_against_weights(world: World) -> Iterator[Hit]:
    """The engine is told another quantization than the one the weights are stored in.

    vLLM compares `--quantization` with the checkpoint's own and refuses: "Quantization method specified in the model
    config does not match". A checkpoint that is quantized already needs no flag; AWQ and GPTQ of one that is not are
    "Cannot find the config file for awq".
    """
    for engine in engines(world):
        flag, model = engine.find("quantization"), (engine.model or "").rpartition("/")[2].lower()
        stored = next((name for name, pattern in _STORED.items() if re.search(pattern, model)), None)
        if engine.kind is not EngineKind.VLLM or flag is None or not flag.value:
            continue
        if stored is None and flag.value.lower() in _ONLY_STORED and is_published_whole(engine):
            message = f"loading {engine.model}: its weights are not quantized, the engine is told `{flag.value}`"
            fix = f"name a checkpoint in {flag.value}, or remove {flag.name}"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=fix)
        elif stored is not None and flag.value.lower() not in _READS[stored]:
            message = f"loading {engine.model}: its weights are {stored.upper()}, the engine is told `{flag.value}`"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix=f"remove {flag.name}")


@rule("quantization-against-dtype", Severity.WARNING)
def quantization_against_dtype(world: World) -> Iterator[Hit]:
    """AWQ or GPTQ kernels are chosen together with a number format that most releases refuse.

    The plain kernels compute in float16 only: "torch.bfloat16 is not supported for quantization method awq". Leave
    `--dtype` to the engine, or choose the marlin kernels.
    """
    for engine in engines(world):
        kind, dtype = engine.value("quantization"), engine.find("--dtype")
        if kind in ("awq", "gptq") and dtype is not None and dtype.value in ("bfloat16", "float32", "float"):
            message = f"loading {engine.model or 'the model'}: {kind} computes in float16, not in `{dtype.value}`"
            yield Hit(at=engine.pod.owner, path=dtype.path, message=message, fix="use --dtype auto or half")


@rule("layers-kept-off-gpu", Severity.WARNING)
def layers_kept_off_gpu(world: World) -> Iterator[Hit]:
    """llama.cpp gets a GPU and is told to put no layer on it.

    With `--n-gpu-layers 0` everything is computed on the CPU while the GPU is allocated and idle.
    """
    for engine in engines(world):
        flag = next((found for name in _LAYERS if (found := engine.find(name))), None)
        if engine.kind is EngineKind.LLAMA_CPP and engine.gpus and flag is not None and flag.value == "0":
            message = f"reading arguments of llama.cpp: {engine.gpus} GPUs and no layer on them: `{flag.name} 0`"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix="use -ngl 99, or ask for no GPU")


@rule("layers-without-gpu", Severity.WARNING)
def layers_without_gpu(world: World) -> Iterator[Hit]:
    """llama.cpp is told to put layers on a GPU and gets none.

    Without a GPU in the container `--n-gpu-layers` does nothing, or an image for CUDA ends with "libcuda.so.1: cannot
    open shared object file". Either the limit of GPUs was forgotten or the flag is left over.
    """
    for engine in engines(world):
        flag = next((found for name in _LAYERS if (found := engine.find(name))), None)
        if engine.kind is not EngineKind.LLAMA_CPP or engine.gpus != 0 or flag is None:
            continue
        if engine.environment.get("NVIDIA_VISIBLE_DEVICES") or text(engine.pod.spec, "runtimeClassName"):
            continue  # a GPU by other means
        if flag.value and flag.value not in ("0", "auto"):
            message = f"reading arguments of llama.cpp: layers for a GPU and no GPU: `{flag.name} {flag.value}`"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix="add a limit of GPUs, or remove it")


def _has_accelerator(engine: Engine) -> bool:
    resources = mapping(engine.container.value, "resources")
    return bool(resources.get("claims")) or any(is_accelerator(str(name)) for name in mapping(resources, "limits"))


@rule("image-without-gpu-support", Severity.WARNING)
def image_without_gpu_support(world: World) -> Iterator[Hit]:
    """A model server gets a GPU, and its image can only use the CPU.

    The GPU is allocated, paid for and idle, and answers come a hundred times slower. llama.cpp's images for GPUs are
    called `server-cuda`, `server-rocm` or `server-vulkan`; names with `cpu` say it themselves.
    """
    for engine in engines(world):
        image = engine.container.image.partition("@")[0]
        tag = image.rpartition(":")[2]
        plain = engine.kind is EngineKind.LLAMA_CPP and re.fullmatch(r"(server|full)(-b\d+)?", tag)
        if _has_accelerator(engine) and (plain or re.search(r"(^|[-_/:.])cpu([-_/:.]|$)", image)):
            message = f"starting {engine.kind}: the container gets a GPU, its image uses none: `{image}`"
            path = (*engine.container.path, "image")
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="use the image for the GPU, or ask for none")


@rule("headless-engine-with-server", Severity.ERROR)
def headless_engine_with_server(world: World) -> Iterator[Hit]:
    """An engine without an API server is probed over HTTP.

    `--headless` starts ranks of a data parallel group only; nothing listens, so the probe fails and the pod is
    restarted or never ready.
    """
    for engine in engines(world):
        flag = engine.find("--headless")
        for name in ("startupProbe", "livenessProbe", "readinessProbe") if flag and engine.is_alone else ():
            if look(engine.container.value, name, "httpGet"):
                message = f"reading {name}: with --headless no API server listens: `{name}`"
                path = (*engine.container.path, name)
                yield Hit(at=engine.pod.owner, path=path, message=message, fix="remove the probe from headless ranks")


@rule("engine-model-twice", Severity.WARNING)
def engine_model_twice(world: World) -> Iterator[Hit]:
    """`vllm serve` is given a model as its first word and another one by `--model`.

    The first word wins, and newer releases refuse `--model` beside `serve`: what is loaded is not what the flag says.
    """
    for engine in engines(world):
        flag = engine.find("--model")
        words = [word.text for word in engine.words]
        if engine.kind is not EngineKind.VLLM or flag is None or flag.value is None or not engine.others:
            continue
        first = engine.words[0].text
        if first in words and first and not first.startswith("-") and first == engine.others[0].text != flag.value:
            message = f"reading arguments of vLLM: two models, the first word wins: `{first}` and `{flag.value}`"
            yield Hit(at=engine.pod.owner, path=flag.path, message=message, fix="keep the model as the first word only")

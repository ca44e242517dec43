"""Ray Serve's applications for language models: the fields of their configurations, and who reaches them.

Source: the guide to Ray Serve LLM (`LLMConfig`), Ray Serve's configuration file (`ServeApplicationSchema`), and the
names that KubeRay gives to Services.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.vllm_flags import VLLM_FLAGS
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.services import serve_ports
from provisioner.lint.joins.slips import is_slip, meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._models import shape_named
from provisioner.lint.rules.engines._ray_config import APPLICATIONS, applications, configuration
from provisioner.lint.values import items, look, mapping, text, whole
from provisioner.lint.world import World

_MODEL = (
    *(
        "accelerator_type",
        "callback_config",
        "deployment_config",
        "engine_kwargs",
        "experimental_configs",
        "llm_engine",
    ),
    *("log_engine_metrics", "lora_config", "model_loading_config", "placement_group_config", "runtime_env"),
    *("resources_per_bundle", "server_cls", "llm_engine_kwargs"),
)
_LOADING = ("model_id", "model_source", "tokenizer_source")
_APPLICATION = (
    *("args", "autoscaling_policy", "deployments", "description", "docs_path", "external_scaler_enabled", "host"),
    *("import_path", "logging_config", "name", "port", "route_prefix", "runtime_env"),
)
_BUILDERS = ("build_openai_app", "build_llm_deployment", "build_pd_openai_app", "build_dp_openai_app")
_MODULE = "ray.serve.llm"


def _slips(value: Any, known: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Names of fields that are nearly known ones, and these."""
    for name in mapping(value):
        near = meant(str(name), known) if name not in known else None
        if near is not None:
            yield str(name), near


def _model_faults(model: Any) -> Iterator[tuple[str, str]]:
    for place, known in ((model, _MODEL), (mapping(model, "model_loading_config"), _LOADING)):
        for name, right in _slips(place, known):
            yield f"LLMConfig has no field `{name}`", f"write {right}"
    for name in mapping(model, "engine_kwargs"):
        near = _engine_field(str(name))
        if near is not None:
            yield f"vLLM has no engine argument `{name}`", f"write {near}"
    loading = look(model, "model_loading_config")
    if isinstance(loading, Mapping) and not text(loading, "model_id"):
        yield "a model has no id: `model_loading_config`", "set model_id, the name that clients ask for"


def _engine_field(name: str) -> str | None:
    """The argument that was meant by one written as a flag or with a slip, None for others."""
    flag = f"--{name.replace('_', '-').lower()}"
    if flag in VLLM_FLAGS:
        right = flag[2:].replace("-", "_")
        return right if name != right else None
    camel = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
    if f"--{camel}" in VLLM_FLAGS:
        return camel.replace("-", "_")
    likely = nearest_name(flag, VLLM_FLAGS)
    return likely[2:].replace("-", "_") if likely is not None and is_slip(flag, likely) else None


@rule("ray-serve-field-unknown", Severity.ERROR)
def ray_serve_field_unknown(world: World) -> Iterator[Hit]:
    """A field in the configuration of a Ray Serve application has a slip in its name.

    Ray refuses unknown fields of applications and of `LLMConfig` ("extra fields not permitted") and vLLM those of
    `engine_kwargs`, which are Python's names: `max_model_len`. The cluster starts, holds its GPUs and serves nothing.
    """
    for found in world.of_kind("RayService"):
        for application in applications(found):
            faults = [
                (f"an application has no `{name}`", f"write {near}") for name, near in _slips(application, _APPLICATION)
            ]
            for _, model in items(application, "args", "llm_configs"):
                faults += _model_faults(model)
            for message, fix in faults:
                message = f"reading serveConfigV2 of {found.name}: {message}"
                yield Hit(at=found, path=APPLICATIONS, message=message, fix=fix)


@rule("ray-serve-builder-unknown", Severity.ERROR)
def ray_serve_builder_unknown(world: World) -> Iterator[Hit]:
    """The import path of a Ray Serve application has a slip in the function that builds it.

    `ray.serve.llm:build_openai_app` is the one for an OpenAI-compatible API. Ray cannot import any other name, and the
    service never becomes ready.
    """
    for found in world.of_kind("RayService"):
        for application in applications(found):
            path = text(application, "import_path") or ""
            module, mark, attribute = path.rpartition(":" if ":" in path else ".")
            near = meant(attribute, _BUILDERS) if attribute not in _BUILDERS else None
            if module == _MODULE and near is not None:
                message = f"reading serveConfigV2 of {found.name}: `{path}` names no function to build with"
                yield Hit(at=found, path=APPLICATIONS, message=message, fix=f"write {module}{mark}{near}")


_LOOPBACK = ("127.", "localhost", "::1")


@rule("ray-serve-on-loopback", Severity.ERROR)
def ray_serve_on_loopback(world: World) -> Iterator[Hit]:
    """Ray Serve answers on the loopback address only, or on another port than KubeRay's Service leads to.

    `http_options` of the configuration say where its proxies listen. KubeRay's `<name>-serve-svc` leads to the port
    called `serve` of the containers, 8000 where none is called so; nobody outside of the pod reaches 127.0.0.1.
    """
    for found in world.of_kind("RayService"):
        options = mapping(configuration(found), "http_options")
        host, port = text(options, "host") or "", whole(options, "port")
        if host.startswith(_LOOPBACK):
            message = f"serving {found.name}: nobody outside of the pod reaches this address: `{host}`"
            yield Hit(at=found, path=APPLICATIONS, message=message, fix="write host: 0.0.0.0")
        ports = serve_ports(found)
        if port is not None and port not in ports:
            message = f"serving {found.name}: Ray Serve listens on {port}, its Service leads to `{ports[0]}`"
            fix = "call the containers' port `serve`, or listen on that one"
            yield Hit(at=found, path=APPLICATIONS, message=message, fix=fix)


@rule("ray-serve-engine-refused", Severity.ERROR)
def ray_serve_engine_refused(world: World) -> Iterator[Hit]:
    """An argument of vLLM in a Ray Serve application is a number that it refuses.

    `gpu_memory_utilization` is a share from 0 to 1; parallel sizes are whole numbers from 1. Each replica ends while it
    starts, and Ray starts it again.
    """
    for found in world.of_kind("RayService"):
        for application in applications(found):
            for _, model in items(application, "args", "llm_configs"):
                engine = mapping(model, "engine_kwargs")
                share = engine.get("gpu_memory_utilization")
                if isinstance(share, int | float) and not isinstance(share, bool) and not 0 < share <= 1:
                    message = f"serving {found.name}: gpu_memory_utilization is a share from 0 to 1, found `{share:g}`"
                    yield Hit(at=found, path=APPLICATIONS, message=message, fix=f"write {share / 100:g}")
                for name in ("tensor_parallel_size", "pipeline_parallel_size"):
                    size = engine.get(name)
                    if size is not None and not (isinstance(size, int) and not isinstance(size, bool) and size >= 1):
                        message = f"serving {found.name}: {name} is a whole number from 1, found `{size}`"
                        yield Hit(at=found, path=APPLICATIONS, message=message, fix="correct the number")


_STRETCHES = ("hf_overrides", "rope_scaling", "ALLOW_LONG_MAX_MODEL_LEN")
"""What lets a model have more context than its configuration says."""


@rule("ray-serve-model-cut-wrong", Severity.ERROR)
def ray_serve_model_cut_wrong(world: World) -> Iterator[Hit]:
    """A model in a Ray Serve application is cut over GPUs that do not divide its heads, or asked for too much context.

    vLLM ends while it sets up: attention heads must divide by `tensor_parallel_size`, and `max_model_len` may not be
    above the context that the model has. Each replica starts over and over.
    """
    for found in world.of_kind("RayService"):
        for application in applications(found):
            for _, model in items(application, "args", "llm_configs"):
                name = text(model, "model_loading_config", "model_source")
                name = name or text(model, "model_loading_config", "model_id") or ""
                shape, engine = shape_named(name, world.catalog), mapping(model, "engine_kwargs")
                tensor, length = whole(engine, "tensor_parallel_size"), whole(engine, "max_model_len")
                if shape is not None and tensor and shape.heads and shape.heads % tensor:
                    message = f"cutting {name}: {shape.heads} attention heads cannot be divided over GPUs: `{tensor}`"
                    yield Hit(at=found, path=APPLICATIONS, message=message, fix="choose a size that divides the heads")
                is_stretched = any(word in str(model) for word in _STRETCHES)
                if shape is not None and length and length > shape.context and not is_stretched:
                    message = f"serving {found.name}: {name} has a context of {shape.context} tokens, asked `{length}`"
                    yield Hit(at=found, path=APPLICATIONS, message=message, fix=f"write {shape.context} or less")

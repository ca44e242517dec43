"""What is publicly known about each model server: images, programs, default address, flags, paths.

`model_servers` recognises containers by it and rules look defaults up in it. Sources: each engine's own command-line
help and server documentation (docs.vllm.ai, docs.sglang.io, llama.cpp tools/server README, text-generation-launcher
--help, the Triton and NIM guides), as read in late 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from provisioner.catalog.vllm_flags import VLLM_SWITCHES

ANY_ADDRESS = "0.0.0.0"  # noqa: S104  what engines listen on, not we


class EngineKind(StrEnum):
    """A model server."""

    VLLM = "vLLM"
    SGLANG = "SGLang"
    TGI = "Text Generation Inference"
    TEI = "Text Embeddings Inference"
    LLAMA_CPP = "llama.cpp server"
    MISTRALRS = "mistral.rs"
    TRITON = "Triton"
    NIM = "NIM"
    OLLAMA = "Ollama"
    TRTLLM = "TensorRT-LLM"


_NO_SERVER = (
    "router",
    "exporter",
    "gateway",
    "proxy",
    "operator",
    "controller",
    "-agent",
    "benchmark",
    "-sim",
    "webui",
)
"""Parts of image names that say: beside an engine, not one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One engine in general."""

    images: tuple[str, ...]
    """Parts of repositories whose entry point starts the server."""
    programs: tuple[tuple[str, ...], ...]
    port: int | None
    host: str = ANY_ADDRESS
    more_ports: Mapping[int, str] = field(default_factory=dict)
    """Ports beside the one for requests over HTTP, and what is spoken there."""
    flags: Mapping[str, tuple[str, ...]]
    """Concept -> the flags for it, long and short."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Concept -> the environment variable that says it too."""
    older: Mapping[str, str] = field(default_factory=dict)
    """Concept -> a second variable for it, that of older or other images."""
    switches: frozenset[str] = frozenset()
    """Flags that take no value."""
    paths: frozenset[str] | None = None
    """What a probe may ask for, None where that is not known well enough."""
    blind_paths: frozenset[str] = frozenset()
    """Paths that answer 200 though the engine behind them is dead."""
    startup_seconds: int = 30
    """What a start takes at least, without the weights."""
    metric_prefix: str | None = None
    refuses_repeats: bool = False
    """Whether the same option twice is refused (Rust's clap) instead of overwritten (argparse)."""

    def runs_image(self, repository: str) -> bool:
        """Whether an image of this repository starts the server by itself."""
        return any(part in repository for part in self.images) and not any(part in repository for part in _NO_SERVER)


_HUB = {
    "model": ("--model",),
    "host": ("--host",),
    "port": ("--port",),
}

ENGINES: Mapping[EngineKind, Profile] = {
    EngineKind.VLLM: Profile(
        images=("vllm-openai", "/vllm", "vllm-cpu", "vllm/", "rocm/vllm"),
        programs=(
            ("vllm", "serve"),
            ("vllm.entrypoints.openai.api_server",),
            ("vllm.entrypoints.api_server",),
        ),
        port=8000,
        flags={
            **_HUB,
            "tensor": ("--tensor-parallel-size", "-tp"),
            "pipeline": ("--pipeline-parallel-size", "-pp"),
            "data": ("--data-parallel-size", "-dp"),
            "context": ("--max-model-len",),
            "memory share": ("--gpu-memory-utilization",),
            "nodes": ("--nnodes", "-n"),
            "download": ("--download-dir",),
            "key": ("--api-key",),
            "quantization": ("--quantization", "-q"),
            "served name": ("--served-model-name",),
            "tls": ("--ssl-certfile", "--ssl-keyfile"),
            "revision": ("--revision",),
        },
        variables={"key": "VLLM_API_KEY"},
        switches=VLLM_SWITCHES,
        paths=frozenset(
            (
                "/health",
                "/ping",
                "/v1/models",
                "/version",
                "/metrics",
                "/load",
                "/docs",
                "/openapi.json",
                "/server_info",
            )
        ),
        blind_paths=frozenset(("/v1/models", "/version", "/metrics", "/docs", "/openapi.json")),
        metric_prefix="vllm:",
    ),
    EngineKind.SGLANG: Profile(
        images=("lmsysorg/sglang", "/sglang"),
        programs=(("sglang.launch_server",), ("sglang", "serve")),
        port=30000,
        host="127.0.0.1",
        flags={
            **_HUB,
            "model": ("--model-path", "--model"),
            "tensor": ("--tensor-parallel-size", "--tp-size", "--tp"),
            "pipeline": ("--pipeline-parallel-size", "--pp-size", "--pp"),
            "data": ("--data-parallel-size", "--dp-size", "--dp"),
            "context": ("--context-length",),
            "memory share": ("--mem-fraction-static",),
            "nodes": ("--nnodes",),
            "download": ("--download-dir",),
            "key": ("--api-key",),
            "quantization": ("--quantization",),
            "metrics": ("--enable-metrics",),
            "tls": ("--ssl-certfile", "--ssl-keyfile"),
            "revision": ("--revision",),
        },
        switches=frozenset(
            (
                "--enable-metrics",
                "--trust-remote-code",
                "--enable-dp-attention",
                "--is-embedding",
                "--log-requests",
                "--disable-cuda-graph",
                "--disable-radix-cache",
                "--enable-torch-compile",
                "--skip-server-warmup",
                "--enable-p2p-check",
                "--enable-mixed-chunk",
                "--enable-cache-report",
                "--skip-tokenizer-init",
            )
        ),
        paths=frozenset(
            (
                *("/", "/health", "/health_generate", "/ping", "/v1/models", "/metrics", "/version", "/docs"),
                *("/get_model_info", "/model_info", "/get_server_info", "/server_info", "/get_load", "/openapi.json"),
            )
        ),
        blind_paths=frozenset(("/v1/models", "/metrics", "/get_model_info", "/model_info")),
        metric_prefix="sglang:",
    ),
    EngineKind.TGI: Profile(
        images=("text-generation-inference",),
        programs=(("text-generation-launcher",),),
        port=80,
        flags={
            "model": ("--model-id",),
            "host": ("--hostname",),
            "port": ("--port", "-p"),
            "tensor": ("--num-shard",),
            "context": ("--max-total-tokens",),
            "memory share": ("--cuda-memory-fraction",),
            "quantization": ("--quantize",),
            "key": ("--api-key",),
            "revision": ("--revision",),
        },
        variables={
            "model": "MODEL_ID",
            "host": "HOSTNAME",
            "port": "PORT",
            "tensor": "NUM_SHARD",
            "quantization": "QUANTIZE",
            "context": "MAX_TOTAL_TOKENS",
        },
        switches=frozenset(
            ("--trust-remote-code", "--disable-custom-kernels", "--json-output", "--disable-grammar-support")
        ),
        paths=frozenset(("/health", "/info", "/metrics", "/ping", "/", "/v1/models", "/docs")),
        blind_paths=frozenset(("/info", "/metrics", "/docs", "/")),
        metric_prefix="tgi_",
        refuses_repeats=True,
    ),
    EngineKind.TEI: Profile(
        images=("text-embeddings-inference",),
        programs=(("text-embeddings-router",),),
        port=80,
        more_ports={9000: "metrics alone"},
        flags={
            "model": ("--model-id",),
            "host": ("--hostname",),
            "port": ("--port", "-p"),
            "key": ("--api-key",),
            "revision": ("--revision",),
        },
        variables={"model": "MODEL_ID", "host": "HOSTNAME", "port": "PORT", "key": "API_KEY"},
        switches=frozenset(("--auto-truncate", "--json-output", "--disable-spans")),
        blind_paths=frozenset(("/info", "/metrics", "/docs")),
        startup_seconds=5,
        metric_prefix="te_",
        refuses_repeats=True,
    ),
    EngineKind.LLAMA_CPP: Profile(
        images=("llama.cpp", "llama-cpp", "llama-server"),
        programs=(("llama-server",),),
        port=8080,
        host="127.0.0.1",
        flags={
            "model": ("--model", "-m", "--hf-repo", "-hf", "-hfr", "--model-url", "-mu"),
            "host": ("--host",),
            "port": ("--port",),
            "context": ("--ctx-size", "-c"),
            "key": ("--api-key", "--api-key-file"),
            "slots": ("--parallel", "-np"),
            "metrics": ("--metrics",),
            "tls": ("--ssl-cert-file", "--ssl-key-file"),
        },
        variables={
            "host": "LLAMA_ARG_HOST",
            "port": "LLAMA_ARG_PORT",
            "model": "LLAMA_ARG_MODEL",
            "context": "LLAMA_ARG_CTX_SIZE",
            "slots": "LLAMA_ARG_N_PARALLEL",
            "metrics": "LLAMA_ARG_ENDPOINT_METRICS",
        },
        switches=frozenset(
            (
                "--metrics",
                "--jinja",
                "--mlock",
                "--no-mmap",
                "--embeddings",
                "--embedding",
                "--reranking",
                "--slots",
                "--no-slots",
                "--no-webui",
                "--props",
                "-cb",
                "--cont-batching",
                "--offline",
            )
        ),
        paths=frozenset(("/health", "/v1/health", "/models", "/v1/models", "/props", "/metrics", "/slots", "/")),
        blind_paths=frozenset(("/metrics", "/props", "/")),
        startup_seconds=3,
        metric_prefix="llamacpp:",
    ),
    EngineKind.MISTRALRS: Profile(
        images=("mistral.rs", "mistralrs"),
        programs=(("mistralrs-server",), ("mistralrs", "serve")),
        port=None,
        flags={
            "model": ("--model-id", "-m"),
            "host": ("--serve-ip", "--host"),
            "port": ("--port", "-p"),
            "context": ("--max-seq-len",),
        },
        startup_seconds=5,
        refuses_repeats=True,
    ),
    EngineKind.TRITON: Profile(
        images=("nvidia/tritonserver",),
        programs=(("tritonserver",),),
        port=8000,
        more_ports={8001: "gRPC", 8002: "metrics"},
        flags={"model": ("--model-repository", "--model-store"), "host": ("--http-address",), "port": ("--http-port",)},
        paths=frozenset(("/v2/health/live", "/v2/health/ready", "/v2", "/metrics")),
        startup_seconds=10,
        metric_prefix="nv_",
    ),
    EngineKind.TRTLLM: Profile(
        images=(),
        programs=(("trtllm-serve", "serve"), ("trtllm-serve",)),
        port=8000,
        host="localhost",
        flags={
            "host": ("--host",),
            "port": ("--port",),
            "tensor": ("--tp-size",),
            "pipeline": ("--pp-size",),
            "context": ("--max-seq-len",),
        },
        switches=frozenset(("--trust-remote-code", "--enable-chunked-prefill")),
        paths=frozenset(("/health", "/health_generate", "/v1/models", "/version", "/metrics", "/prometheus/metrics")),
    ),
    EngineKind.OLLAMA: Profile(
        images=("ollama/ollama",),
        programs=(("ollama", "serve"),),
        port=11434,
        flags={},
        variables={"host": "OLLAMA_HOST"},
        paths=frozenset(("/", "/api/version", "/api/tags", "/api/ps", "/v1/models")),
        startup_seconds=2,
    ),
    EngineKind.NIM: Profile(
        images=("nvcr.io/nim/",),
        programs=(),
        port=None,
        flags={"port": ()},
        variables={"port": "NIM_SERVER_PORT"},
        older={"port": "NIM_HTTP_API_PORT"},
        paths=frozenset(
            (
                "/v1/health/ready",
                "/v1/health/live",
                "/v1/models",
                "/v1/metadata",
                "/v1/version",
                "/v1/metrics",
                "/metrics",
                "/v1/license",
            )
        ),
        startup_seconds=30,
    ),
}
"""Every engine that rules know."""

"""The flags of `vllm serve`, and those that it had once.

The linter and admission ask which exist, the linter also which take no value. Taken from vLLM's own argument parser in
releases 0.8.5, 0.9.2, 0.10.2, 0.11.2, 0.14.1, 0.20.2, 0.26.0 and 0.32.0; a removed flag carries the first of these that
lacks it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping


def _words(names: str) -> list[str]:
    return names.split()


def _long(names: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in _words(names))


VLLM_SHORT_FLAGS = frozenset(
    f"-{name}" for name in _words("O ac asc cc dc dcp dp dpa dpb dpe dph dpl dpm dpn dpp dpr ep n pcp pp q r sc tp")
)
"""The short ones."""

VLLM_FLAGS = _long(
    """
    additional-config aggregate-engine-logging all2all-backend allow-credentials allow-deprecated-quantization
    allowed-headers allowed-local-media-path allowed-media-domains allowed-methods allowed-origins
    anthropic-disabled-thinking-effort api-key api-server-count args async-scheduling attention-backend
    attention-config aux-output-config block-size chat-template chat-template-content-format code-revision
    cohere-format cohere-is-reasoning-model collect-detailed-traces compilation-config config config-format
    convert cp-kv-cache-interleave-size cpu-distributed-timeout-seconds cpu-offload-gb cpu-offload-params
    cudagraph-capture-sizes cudagraph-metrics custom-histogram-buckets data-parallel-address
    data-parallel-backend data-parallel-external-lb data-parallel-hybrid-lb data-parallel-multi-port-external-lb
    data-parallel-rank data-parallel-rpc-port data-parallel-size data-parallel-size-local
    data-parallel-start-rank data-parallel-supervisor-port dbo-decode-token-threshold
    dbo-prefill-token-threshold dcp-comm-backend dcp-kv-cache-interleave-size dcp-q-replicate
    decode-context-parallel-size default-chat-template-kwargs default-mm-loras device-ids
    device-memory-utilization diffusion-config disable-access-log-for-endpoints disable-cascade-attn
    disable-chunked-mm-input disable-custom-all-reduce disable-fastapi-docs disable-hybrid-kv-cache-manager
    disable-log-stats disable-nccl-for-dp-synchronization disable-sliding-window disable-uvicorn-access-log
    distributed-executor-backend distributed-timeout-seconds download-dir dp-supervisor-probe-failure-threshold
    dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s dp-sync-interval dtype ec-manager-config
    ec-transfer-config elastic-ep-max-dp-size enable-auto-tool-choice enable-batch-sharded-sampling
    enable-chunked-prefill enable-cumem-allocator enable-dbo enable-elastic-ep enable-ep-weight-filter
    enable-eplb enable-expert-parallel enable-fault-tolerance enable-flash-late-interaction
    enable-flashinfer-autotune enable-force-include-usage enable-hc-sp enable-layerwise-nvtx-tracing
    enable-log-deltas enable-log-outputs enable-log-requests enable-logging-iteration-details enable-lora
    enable-mamba-cache-stochastic-rounding enable-mamba-shared-prefix-checkpoint enable-mfu-metrics
    enable-mixed-moe-lora-format enable-mm-embeds enable-moe-shared-loras enable-nccl-comm-suspend
    enable-offline-docs enable-per-request-metrics enable-prefix-caching enable-prompt-embeds
    enable-prompt-tokens-details enable-request-id-headers enable-return-routed-experts enable-scale-out
    enable-server-load-tracking enable-shm-tensor-arena enable-sleep-mode enable-ssl-refresh
    enable-tokenizer-info-endpoint enable-tower-connector-lora enable-trace-replay enforce-eager engram-config
    eplb-config exclude-tools-when-tool-choice-none expert-placement-strategy fail-on-environ-validation
    fault-tolerance-config fingerprint-mode fingerprint-value fully-sharded-loras gdn-prefill-backend
    generation-config gpu-memory-utilization grpc grpc-port h11-max-header-count h11-max-incomplete-event-size
    headless help hf-config-path hf-overrides hf-token host https ignore-patterns interleave-mm-strings
    io-processor-plugin ir-op-priority jit-monitor-mode jit-monitor-verbose kda-decode-backend
    kda-prefill-backend kernel-config kv-cache-dtype kv-cache-dtype-skip-layers kv-cache-memory-bytes
    kv-cache-metrics kv-cache-metrics-sample kv-events-config kv-offloading-backend kv-offloading-size
    kv-sharing-fast-prefill kv-transfer-config language-model-only limit-mm-per-prompt linear-backend
    load-format log-config-file log-error-stack log-level logging-config logits-processors logprobs-mode
    long-prefill-token-threshold long-prefill-token-threshold-adaptive lora-dtype lora-modules
    lora-target-modules mamba-backend mamba-block-size mamba-cache-dtype mamba-cache-mode
    mamba-cache-philox-rounds mamba-ssm-cache-dtype mamba-ssu-algorithm master-addr master-port max-cpu-loras
    max-cudagraph-capture-size max-log-len max-logprobs max-lora-cls-labels max-lora-rank max-loras
    max-model-len max-num-active-seqs max-num-batched-tokens max-num-queued-reqs max-num-queued-tokens
    max-num-scheduled-tokens max-num-seqs max-parallel-loading-workers media-io-kwargs middleware
    mm-device-do-normalize mm-encoder-attn-backend mm-encoder-attn-dtype mm-encoder-fp8-scale-path
    mm-encoder-fp8-scale-save-margin mm-encoder-fp8-scale-save-path mm-encoder-only mm-encoder-tp-mode
    mm-hasher-algorithm mm-ipc-gpu-memory-gb mm-processor-cache-gb mm-processor-cache-type mm-processor-device
    mm-processor-kwargs mm-shm-cache-max-object-size-mb mm-tensor-ipc model model-class-overrides model-impl
    model-loader-extra-config moe-backend nnodes node-rank num-gpu-blocks-override numa-bind numa-bind-cpus
    numa-bind-nodes offload-backend offload-group-size offload-num-in-group offload-params offload-prefetch-step
    optimization-level otlp-traces-endpoint override-generation-config per-request-spec-decode-metrics
    performance-mode pipeline-parallel-size pooler-config port prefill-context-parallel-size
    prefill-schedule-interval prefix-cache-retention-interval prefix-caching-hash-algo prefix-match-unit
    profiler-config pt-load-map-location quantization quantization-config ray-workers-use-nsight
    reasoning-config reasoning-parser reasoning-parser-plugin renderer-num-workers replayssm-buffer-len
    response-role return-sampling-mask return-tokens-as-token-ids revision root-path runner
    safetensors-load-strategy safetensors-prefetch-block-size safetensors-prefetch-num-threads scheduler-cls
    scheduler-reserve-full-isl scheduling-policy seed served-model-name show-hidden-metrics-for-version
    shutdown-timeout skip-mm-profiling skip-tokenizer-init sleep-mode-offload-cudagraph
    sleep-preserve-parameter-names sparse-indexer-topk-backend spec-method spec-model spec-tokens
    specialize-active-lora speculative-config sse-keep-alive-interval ssl-ca-certs ssl-cert-reqs ssl-certfile
    ssl-ciphers ssl-keyfile stream-interval structured-outputs-config swa-bounded-replay tensor-parallel-size
    tokenizer tokenizer-mode tokenizer-revision tokens-only tool-call-parser tool-parser-plugin tool-server
    tool-strict-level trust-remote-code trust-request-chat-template trust-request-mm-kwargs ubatch-size uds
    use-fp64-gumbel use-replayssm use-tqdm-on-load uvicorn-log-level video-pruning-method video-pruning-rate
    watermark watermark-config weight-transfer-config worker-cls worker-extension-cls
    """
)
"""The long ones of 0.32.0; a switch also has a form with `--no-`."""

VLLM_SWITCHES = _long(
    """
    aggregate-engine-logging allow-credentials allow-deprecated-quantization async-scheduling
    cohere-is-reasoning-model cudagraph-metrics data-parallel-external-lb data-parallel-hybrid-lb
    data-parallel-multi-port-external-lb dcp-q-replicate disable-async-output-proc disable-cascade-attn
    disable-chunked-mm-input disable-custom-all-reduce disable-fastapi-docs disable-frontend-multiprocessing
    disable-hybrid-kv-cache-manager disable-log-requests disable-log-stats disable-mm-preprocessor-cache
    disable-nccl-for-dp-synchronization disable-sliding-window disable-uvicorn-access-log
    enable-auto-tool-choice enable-batch-sharded-sampling enable-bf16x3-router-gemm enable-chunked-prefill
    enable-cumem-allocator enable-dbo enable-elastic-ep enable-ep-weight-filter enable-eplb
    enable-expert-parallel enable-fault-tolerance enable-flash-late-interaction enable-flashinfer-autotune
    enable-force-include-usage enable-hc-sp enable-layerwise-nvtx-tracing enable-log-deltas enable-log-outputs
    enable-log-requests enable-logging-iteration-details enable-lora enable-lora-bias
    enable-mamba-cache-stochastic-rounding enable-mamba-shared-prefix-checkpoint enable-mfu-metrics
    enable-mixed-moe-lora-format enable-mm-embeds enable-mm-processor-stats enable-moe-shared-loras
    enable-multimodal-encoder-data-parallel enable-nccl-comm-suspend enable-offline-docs
    enable-per-request-metrics enable-prefix-caching enable-prompt-adapter enable-prompt-embeds
    enable-prompt-tokens-details enable-reasoning enable-request-id-headers enable-return-routed-experts
    enable-scale-out enable-server-load-tracking enable-shm-tensor-arena enable-sleep-mode enable-ssl-refresh
    enable-tokenizer-info-endpoint enable-tower-connector-lora enable-trace-replay enforce-eager
    eplb-log-balancedness exclude-tools-when-tool-choice-none expand-tools-even-if-tool-choice-none
    fail-on-environ-validation fully-sharded-loras grpc guided-decoding-disable-additional-properties
    guided-decoding-disable-any-whitespace guided-decoding-disable-fallback headless interleave-mm-strings
    jit-monitor-verbose kv-cache-metrics kv-sharing-fast-prefill language-model-only log-error-stack
    long-prefill-token-threshold-adaptive mm-device-do-normalize mm-encoder-only multi-step-stream-outputs
    numa-bind ray-workers-use-nsight return-sampling-mask return-tokens-as-token-ids scheduler-reserve-full-isl
    skip-mm-profiling skip-tokenizer-init sleep-mode-offload-cudagraph specialize-active-lora swa-bounded-replay
    tokens-only trust-remote-code trust-request-chat-template trust-request-mm-kwargs use-fp64-gumbel
    use-replayssm use-tqdm-on-load use-v2-block-manager
    """
)
"""Those that take no value, in any of the releases."""

VLLM_REMOVED: Mapping[str, tuple[tuple[int, int], str]] = {
    "--calculate-kv-scales": ((0, 32), ""),
    "--cuda-graph-sizes": ((0, 14), "--cudagraph-capture-sizes"),
    "--device": ((0, 10), ""),
    "--disable-async-output-proc": ((0, 11), ""),
    "--disable-frontend-multiprocessing": ((0, 20), ""),
    "--disable-log-requests": ((0, 20), "--no-enable-log-requests, which is the default"),
    "--disable-mm-preprocessor-cache": ((0, 14), "--mm-processor-cache-gb 0"),
    "--enable-lora-bias": ((0, 11), ""),
    "--enable-multimodal-encoder-data-parallel": ((0, 14), "--mm-encoder-tp-mode data"),
    "--enable-prompt-adapter": ((0, 10), ""),
    "--enable-reasoning": ((0, 10), "--reasoning-parser alone"),
    "--engine-use-ray": ((0, 8), ""),
    "--eplb-log-balancedness": ((0, 14), "--eplb-config"),
    "--eplb-step-interval": ((0, 14), "--eplb-config"),
    "--eplb-window-size": ((0, 14), "--eplb-config"),
    "--guided-decoding-backend": ((0, 14), "--structured-outputs-config"),
    "--guided-decoding-disable-additional-properties": ((0, 14), "--structured-outputs-config"),
    "--guided-decoding-disable-any-whitespace": ((0, 14), "--structured-outputs-config"),
    "--guided-decoding-disable-fallback": ((0, 14), "--structured-outputs-config"),
    "--image-input-type": ((0, 8), ""),
    "--kv-cache-scales": ((0, 8), ""),
    "--logits-processor-pattern": ((0, 20), "--logits-processors"),
    "--long-lora-scaling-factors": ((0, 10), ""),
    "--lora-extra-vocab-size": ((0, 14), ""),
    "--max-context-len-to-capture": ((0, 8), "--max-cudagraph-capture-size"),
    "--max-long-partial-prefills": ((0, 32), ""),
    "--max-num-partial-prefills": ((0, 32), ""),
    "--max-prompt-adapter-token": ((0, 10), ""),
    "--max-prompt-adapters": ((0, 10), ""),
    "--max-seq-len-to-capture": ((0, 11), "--max-cudagraph-capture-size"),
    "--multi-step-stream-outputs": ((0, 10), ""),
    "--ngram-prompt-lookup-max": ((0, 9), "--speculative-config"),
    "--num-lookahead-slots": ((0, 14), ""),
    "--num-redundant-experts": ((0, 14), "--eplb-config"),
    "--num-scheduler-steps": ((0, 10), ""),
    "--num-speculative-tokens": ((0, 9), "--speculative-config"),
    "--override-attention-dtype": ((0, 32), ""),
    "--override-neuron-config": ((0, 10), ""),
    "--override-pooler-config": ((0, 14), "--pooler-config"),
    "--preemption-mode": ((0, 11), ""),
    "--prompt-adapters": ((0, 10), ""),
    "--qlora-adapter-name-or-path": ((0, 10), ""),
    "--quantization-param-path": ((0, 8), ""),
    "--rope-scaling": ((0, 12), "--hf-overrides"),
    "--rope-theta": ((0, 12), "--hf-overrides"),
    "--scheduler-delay-factor": ((0, 11), ""),
    "--speculative-draft-tensor-parallel-size": ((0, 9), "--speculative-config"),
    "--speculative-model": ((0, 9), "--speculative-config"),
    "--swap-space": ((0, 20), ""),
    "--task": ((0, 14), "--runner and --convert"),
    "--tokenizer-pool-extra-config": ((0, 10), ""),
    "--tokenizer-pool-size": ((0, 10), ""),
    "--tokenizer-pool-type": ((0, 10), ""),
    "--use-v2-block-manager": ((0, 10), ""),
    "--worker-use-ray": ((0, 8), "--distributed-executor-backend ray"),
}
"""Flag -> the release by which it was gone, and what took its place (empty for nothing)."""


def vllm_release(image: str) -> tuple[int, int] | None:
    """The release of vLLM that an image's tag names, such as (0, 14) for `v0.14.0-cu129`; None where it names none.

    Images that bring more than vLLM count versions of their own.
    """
    name = image.partition("@")[0]
    match = re.search(r"vllm[\w.-]*:v?(\d{1,3})\.(\d{1,3})(\.|$|-)", name)
    if match is None or "lmcache" in name:
        return None
    return (int(match.group(1)), int(match.group(2)))


def positive(flag: str) -> str:
    """The flag that a flag is, or switches off: `--enable-lora` for `--no-enable-lora` and `--enable-lora.x`."""
    bare = flag.partition(".")[0]
    return f"--{bare[5:]}" if bare.startswith("--no-") and f"--{bare[5:]}" in VLLM_FLAGS else bare


def is_known(flag: str) -> bool:
    """Whether any of the releases has the flag, or takes it for the beginning of one, as Python's argparse does."""
    base = positive(flag)
    is_there = base in VLLM_FLAGS or base in VLLM_REMOVED or base in VLLM_SHORT_FLAGS or base.startswith("-O")
    return is_there or any(known.startswith(base) for known in VLLM_FLAGS)

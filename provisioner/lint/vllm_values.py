"""What the flags of `vllm serve` take: whole numbers, decimal ones, amounts with a suffix, or one of some words.

Rules about values read it. Taken from vLLM's own argument parser in release 0.32.0, with words that older releases
knew too; flags that take free text or JSON are not here.
"""

from __future__ import annotations

from collections.abc import Mapping


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _long(names: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in _words(names))


VLLM_WHOLE = _long(
    """
    api-server-count block-size cp-kv-cache-interleave-size cpu-distributed-timeout-seconds
    data-parallel-rank data-parallel-rpc-port data-parallel-size data-parallel-size-local
    data-parallel-start-rank data-parallel-supervisor-port dbo-decode-token-threshold
    dbo-prefill-token-threshold dcp-kv-cache-interleave-size decode-context-parallel-size
    distributed-timeout-seconds dp-supervisor-probe-failure-threshold dp-sync-interval
    elastic-ep-max-dp-size grpc-port h11-max-header-count h11-max-incomplete-event-size
    long-prefill-token-threshold mamba-block-size master-port max-cpu-loras max-cudagraph-capture-size
    max-log-len max-logprobs max-loras max-num-active-seqs max-num-queued-reqs max-num-seqs
    max-parallel-loading-workers mm-shm-cache-max-object-size-mb nnodes node-rank
    num-gpu-blocks-override offload-group-size offload-num-in-group offload-prefetch-step
    pipeline-parallel-size port prefill-context-parallel-size renderer-num-workers seed shutdown-timeout
    sse-keep-alive-interval ssl-cert-reqs stream-interval tensor-parallel-size ubatch-size
    """
)
"""Flags that take a whole number."""

VLLM_DECIMAL = _long(
    """
    cpu-offload-gb device-memory-utilization gpu-memory-utilization kv-cache-metrics-sample
    kv-offloading-size mm-ipc-gpu-memory-gb mm-processor-cache-gb video-pruning-rate
    """
)
"""Flags that take a number with or without a fraction."""

VLLM_AMOUNTS = _long(
    """
    kv-cache-memory-bytes max-model-len max-num-batched-tokens max-num-queued-tokens
    max-num-scheduled-tokens
    """
)
"""Flags that take a whole number or one with a suffix, such as `32k`."""

VLLM_WORDS: Mapping[str, frozenset[str]] = {
    "--all2all-backend": _words(
        """
        allgather_reducescatter deepep_high_throughput deepep_low_latency deepep_v2 flashinfer_all2allv
        flashinfer_nvlink_one_sided flashinfer_nvlink_two_sided moonep mori_high_throughput
        mori_low_latency naive nixl_ep pplx
        """
    ),
    "--chat-template-content-format": _words("auto openai string"),
    "--convert": _words("auto classify embed none reward"),
    "--dtype": _words("auto bfloat16 float float16 float32 half"),
    "--expert-placement-strategy": _words("linear round_robin"),
    "--kv-cache-dtype": _words(
        """
        auto bfloat16 float16 fp8 fp8_ds_mla fp8_e4m3 fp8_e5m2 fp8_inc fp8_per_token_head
        int4_per_token_head int8_per_token_head nvfp4 nvfp4_4over6 nvfp4_ds_mla turboquant_3bit_nc
        turboquant_4bit_nc turboquant_k3v4_nc turboquant_k8v4 ultraquant_4bit
        """
    ),
    "--logprobs-mode": _words("processed_logits processed_logprobs raw_logits raw_logprobs"),
    "--lora-dtype": _words("auto bfloat16 float16"),
    "--max-lora-rank": _words("1 8 16 32 64 128 256 320 512"),
    "--mm-encoder-tp-mode": _words("data weights"),
    "--prefix-caching-hash-algo": _words("builtin sha256 sha256_cbor xxhash xxhash_cbor"),
    "--runner": _words("auto draft generate pooling"),
    "--scheduling-policy": _words("fcfs priority"),
    "--uvicorn-log-level": _words("critical debug error info trace warning"),
}
"""Flags that take one of some words."""

"""What the flags of model servers other than vLLM are called, and the words that flags of all of them take.

Rules about flags and their values read it. Sources: SGLang's page on server arguments and its parsers' tables, the help
of text-generation-launcher, tritonserver and mistralrs-server, llama.cpp's server README, and vLLM's registries of
parsers and quantizations, as read in late 2026. Words that older releases knew stay.
"""

from __future__ import annotations

from collections.abc import Mapping

from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.vllm_values import VLLM_WORDS


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _long(names: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in _words(names))


_SGLANG = _long(
    """
    abort-on-priority-when-disabled admin-api-key allow-auto-truncate api-key attention-backend
    attention-context-parallel-size attn-cp-size base-gpu-id bucket-e2e-request-latency bucket-inter-token-latency
    bucket-time-to-first-token chat-template checkpoint-engine-wait-weights-before-ready chunked-prefill-size
    collect-tokens-histogram completion-template config constrained-json-disable-any-whitespace
    constrained-json-whitespace-pattern context-length cpu-offload-gb crash-dump-folder cuda-graph-bs
    cuda-graph-max-bs custom-weight-loader data-parallel-size debug-tensor-dump-inject debug-tensor-dump-input-file
    debug-tensor-dump-layers debug-tensor-dump-output-folder decode-attention-backend decode-log-interval deepep-config
    deepep-dispatcher-output-dtype deepep-mode delete-ckpt-after-loading device disable-chunked-prefix-cache
    disable-cuda-graph disable-cuda-graph-padding disable-custom-all-reduce disable-disk-cache
    disable-fast-image-processor disable-flashinfer-autotune disable-flashinfer-cutlass-moe-fp4-allgather
    disable-hybrid-swa-memory disable-mla disable-outlines-disk-cache disable-overlap-schedule
    disable-piecewise-cuda-graph disable-radix-cache disable-shared-experts-fusion disable-tokenizer-batch-decode
    disaggregation-bootstrap-port disaggregation-decode-dp disaggregation-decode-enable-offload-kvcache
    disaggregation-decode-polling-interval disaggregation-decode-tp disaggregation-ib-device disaggregation-mode
    disaggregation-prefill-pp disaggregation-transfer-backend dist-init-addr dist-timeout dllm-algorithm
    dllm-algorithm-config download-dir dp-size dsa-decode-backend dsa-prefill-backend dsa-prefill-cp-mode dtype
    dynamic-batch-tokenizer-batch-size dynamic-batch-tokenizer-batch-timeout elastic-ep-backend elastic-ep-rejoin
    enable-aiter-allreduce-fusion enable-attn-tp-input-scattered enable-cache-report enable-cudagraph-gc
    enable-custom-logit-processor enable-deepep-moe enable-deepep-waterfill enable-deterministic-inference
    enable-dp-attention enable-dp-lm-head enable-draft-weights-cpu-backup enable-dsa-prefill-context-parallel
    enable-dynamic-batch-tokenizer enable-dynamic-chunking enable-elastic-expert-backup enable-ep-moe enable-eplb
    enable-expert-distribution-metrics enable-flashinfer-allreduce-fusion enable-flashinfer-cutlass-moe
    enable-flashinfer-mla enable-flashinfer-trtllm-moe enable-flashmla enable-fp32-lm-head
    enable-fused-grouped-gemm-combine enable-fused-qk-norm-rope enable-hierarchical-cache enable-layerwise-nvtx-marker
    enable-lmcache enable-lora enable-lora-overlap-loading enable-memory-saver enable-metrics
    enable-metrics-for-all-schedulers enable-mfu-metrics enable-mixed-chunk enable-mscclpp enable-multi-layer-eagle
    enable-multimodal enable-nan-detection enable-nccl-nvls enable-p2p-check enable-precise-embedding-interpolation
    enable-prefill-delayer enable-priority-scheduling enable-profile-cuda-graph enable-quant-communications
    enable-request-time-stats-logging enable-return-hidden-states enable-return-routed-experts
    enable-single-batch-overlap enable-symm-mem enable-tokenizer-batch-encode enable-torch-compile
    enable-torch-compile-debug-mode enable-torch-symm-mem enable-trace enable-triton-kernel-moe
    enable-two-batch-overlap enable-weights-cpu-backup encoder-only encoder-transfer-backend encoder-urls
    enforce-piecewise-cuda-graph ep ep-dispatch-algorithm ep-num-redundant-experts ep-size eplb-algorithm
    eplb-min-rebalancing-utilization-threshold eplb-rebalance-layers-per-chunk eplb-rebalance-num-iterations
    expert-distribution-recorder-buffer-size expert-distribution-recorder-mode expert-parallel-size
    export-metrics-to-file export-metrics-to-file-dir fastapi-root-path file-storage-path
    flashinfer-mla-disable-ragged flashinfer-mxfp4-moe-precision fp4-gemm-backend fp8-gemm-backend
    gc-warning-threshold-secs generation-tokens-buckets gpu-id-step grammar-backend grpc-mode help
    hf-chat-template-name hicache-io-backend hicache-mem-layout hicache-ratio hicache-size hicache-storage-backend
    hicache-storage-backend-extra-config hicache-storage-prefetch-policy hicache-write-policy
    hierarchical-sparse-attention-extra-config host incremental-streaming-output init-expert-location is-embedding
    json-model-override-args keep-mm-feature-on-device kt-cpuinfer kt-max-deferred-experts-per-token kt-method
    kt-num-gpu-experts kt-threadpool-count kt-weight-path kv-cache-dtype kv-events-config language-only
    load-balance-method load-format load-watch-interval log-level log-level-http log-requests log-requests-format
    log-requests-level log-requests-target lora-backend lora-drain-wait-threshold lora-eviction-policy lora-paths
    lora-target-modules mamba-full-memory-ratio mamba-scheduler-strategy mamba-ssm-dtype mamba-track-interval
    max-loaded-loras max-lora-chunk-size max-lora-rank max-loras-per-batch max-mamba-cache-size max-micro-batch-size
    max-prefill-tokens max-queued-requests max-running-requests max-total-tokens mem-fraction-static
    mm-attention-backend model model-checksum model-impl model-loader-extra-config model-path
    modelopt-checkpoint-restore-path modelopt-checkpoint-save-path modelopt-export-path modelopt-quant
    moe-a2a-backend moe-data-parallel-size moe-dense-tp-size moe-dp-size moe-runner-backend mooncake-ib-device
    multi-item-scoring-delimiter nccl-init-addr nccl-port nnodes node-rank nsa-decode-backend nsa-prefill-backend
    num-continuous-decode-steps num-reserved-decode-tokens numa-node offload-group-size offload-mode
    offload-num-in-group offload-prefetch-step otlp-traces-endpoint page-size pdlb-url piecewise-cuda-graph-compiler
    piecewise-cuda-graph-max-tokens piecewise-cuda-graph-tokens pipeline-parallel-size port pp-async-batch-depth
    pp-max-micro-batch-size pp-size preferred-sampling-params prefill-attention-backend
    prefill-delayer-forward-passes-buckets prefill-delayer-max-delay-ms prefill-delayer-max-delay-passes
    prefill-delayer-queue-min-ratio prefill-delayer-token-usage-low-watermark prefill-delayer-wait-seconds-buckets
    prefill-max-requests prefill-round-robin-balance priority-scheduling-preemption-threshold prompt-tokens-buckets
    quantization quantization-param-path quantize-and-serve radix-eviction-policy random-seed reasoning-parser revision
    rl-on-policy-target rl-quant-profile sampling-backend sampling-defaults schedule-conservativeness
    schedule-low-priority-values-first schedule-policy scheduler-recv-interval served-model-name show-time-cost
    skip-server-warmup skip-tokenizer-init sleep-on-idle soft-watchdog-timeout speculative-accept-threshold-acc
    speculative-accept-threshold-single speculative-algorithm speculative-attention-mode
    speculative-draft-attention-backend speculative-draft-load-format speculative-draft-model
    speculative-draft-model-path speculative-draft-model-quantization speculative-draft-model-revision
    speculative-eagle-topk speculative-moe-a2a-backend speculative-moe-runner-backend speculative-ngram-capacity
    speculative-ngram-match-type speculative-ngram-max-bfs-breadth speculative-ngram-max-trie-depth
    speculative-ngram-min-bfs-breadth speculative-num-draft-tokens speculative-num-steps speculative-token-map
    ssl-ca-certs ssl-certfile ssl-keyfile ssl-keyfile-password stream-interval stream-output swa-full-tokens-ratio
    tbo-token-distribution-threshold tensor-parallel-size tokenizer-metrics-allowed-custom-labels
    tokenizer-metrics-custom-labels-header tokenizer-mode tokenizer-path tokenizer-worker-num tool-call-parser
    tool-server torch-compile-max-bs torchao-config tp-size triton-attention-num-kv-splits
    triton-attention-reduce-in-fp32 triton-attention-split-tile-size trust-remote-code
    uvicorn-access-log-exclude-prefixes warmups watchdog-timeout weight-version
    """
)
_TGI = _long(
    """
    api-key cors-allow-origin cuda-graphs cuda-memory-fraction disable-custom-kernels disable-grammar-support
    disable-usage-stats dtype enable-prefill-logprobs env graceful-termination-timeout help hostname
    huggingface-hub-cache json-output kv-cache-dtype lora-adapters master-addr master-port max-batch-prefill-tokens
    max-batch-size max-batch-total-tokens max-best-of max-client-batch-size max-concurrent-requests max-image-fetch-size
    max-input-length max-input-tokens max-stop-sequences max-top-n-tokens max-total-tokens max-waiting-tokens model-id
    ngrok ngrok-authtoken ngrok-edge num-shard otlp-endpoint otlp-service-name payload-limit port prometheus-port
    quantize revision rope-factor rope-scaling shard-uds-path sharded speculate tokenizer-config-path
    trust-remote-code usage-stats validation-workers version waiting-served-ratio watermark-delta watermark-gamma
    weights-cache-override
    """
)
_TEI = _long(
    """
    api-key auto-truncate cors-allow-origin default-prompt default-prompt-name dense-path disable-spans dtype help
    hf-api-token hf-token hostname huggingface-hub-cache json-output max-batch-requests max-batch-tokens
    max-client-batch-size max-concurrent-requests model-id otlp-endpoint otlp-service-name payload-limit pooling port
    prometheus-port revision served-model-name tokenization-workers uds-path version
    """
)
_TRITON = _long(
    """
    allow-client-model-configuration allow-cpu-metrics allow-gpu-metrics allow-grpc allow-http allow-metrics
    allow-sagemaker allow-vertex-ai backend-config backend-directory buffer-manager-thread-count cache-config
    cache-directory cuda-memory-pool-byte-size cuda-virtual-address-size disable-auto-complete-config
    enable-peer-access exit-on-error exit-timeout-secs grpc-address grpc-header-forward-pattern
    grpc-http2-max-pings-without-data grpc-infer-allocation-pool-size grpc-infer-response-compression-level
    grpc-infer-thread-count grpc-keepalive-permit-without-calls grpc-keepalive-time grpc-keepalive-timeout
    grpc-max-connection-age grpc-max-connection-age-grace grpc-max-response-pool-size grpc-port
    grpc-restricted-protocol grpc-root-cert grpc-server-cert grpc-server-key grpc-use-ssl grpc-use-ssl-mutual help
    host-policy http-address http-header-forward-pattern http-max-input-size http-port http-restricted-api
    http-thread-count id load-model log-error log-file log-format log-info log-verbose log-warning
    metrics-address metrics-config metrics-interval-ms metrics-port min-supported-compute-capability
    model-config-name model-control-mode model-load-gpu-limit model-load-retry-count model-load-thread-count
    model-namespacing model-repository model-store pinned-memory-pool-byte-size rate-limit rate-limit-resource
    repoagent-directory repository-poll-secs response-cache-byte-size reuse-grpc-port reuse-http-port
    sagemaker-port sagemaker-safe-port-range sagemaker-thread-count strict-model-config strict-readiness
    trace-config trace-count trace-file trace-level trace-log-frequency trace-rate vertex-ai-default-model
    vertex-ai-port vertex-ai-thread-count
    """
)
_TRTLLM = _long(
    """
    backend chat-template cluster-size config custom-module-dirs ep-size enable-chunked-prefill extra-llm-api-options
    fail-fast-on-attention-window-too-large free-gpu-memory-fraction gpus-per-node help host
    kv-cache-free-gpu-memory-fraction log-level max-batch-size max-beam-width max-num-tokens max-seq-len
    media-io-kwargs metadata-server-config-file moe-cluster-parallel-size moe-expert-parallel-size
    num-postprocess-workers otlp-traces-endpoint port pp-size reasoning-parser revision served-model-name server-role
    tokenizer tool-parser tp-size trust-remote-code
    """
)
_MISTRALRS = _long(
    """
    adapters-path arch calibration-file chat-template cpu device-layers disable-mcp-tools
    disable-paged-attention dtype enable-search enable-thinking encoder-cache-memory-mb force-cpu from-uqff help
    imatrix interactive-mode isq isq-organization jinja-explicit log lora max-batch-size max-edge
    max-image-length max-num-images max-seq-len max-seqs mcp-config mcp-port model-id multi-model num-device-layers
    no-kv-cache no-paged-attn no-ui order organization pa-blk-size pa-cache-type pa-ctxt-len
    pa-gpu-mem pa-gpu-mem-usage paged-attn paged-ctxt-len paged-gpu-mem paged-gpu-mem-usage port prefix-cache-n
    quantized-filename quantized-model-id repeat-last-n search-bert-model search-embedding-model
    seed serve-ip throughput tgt-non-granular-index throughput-logging tok-model-id tokenizer-json token-source
    topology truncate-sequence version write-uqff xlora xlora-model-id
    """
)

FLAGS: Mapping[EngineKind, frozenset[str]] = {
    EngineKind.SGLANG: _SGLANG,
    EngineKind.TGI: _TGI,
    EngineKind.TEI: _TEI,
    EngineKind.TRITON: _TRITON,
    EngineKind.TRTLLM: _TRTLLM,
    EngineKind.MISTRALRS: _MISTRALRS,
}
"""Engine -> its long flags. A flag outside of them may be newer; it is a mistake where it looks like one of them, or is
another engine's."""

LLAMA_CPP_SHARED = _long(
    """
    alias api-key api-key-file chat-template chat-template-kwargs config device embedding host log-file log-level
    lora model numa port seed ssl-cert-file ssl-key-file timeout verbose version
    """
)
"""Flags of other engines that llama.cpp has too; it gets new ones too often for a whole list."""

_TYPES = "auto bfloat16 float float16 float32 half"
_VLLM: Mapping[str, frozenset[str]] = {
    **VLLM_WORDS,
    "--tool-call-parser": _words(
        """
        apertus cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 deepseek_v41
        dots ernie45 functiongemma gemma4 gigachat3 gigachat35 glm45 glm47 granite granite-20b-fc granite4 hermes
        hunyuan_a13b hy_v3 hy_v4 inkling internlm jamba k2_horizon kimi_k2 kimi_k3 lfm2 llama3_json llama4_json
        llama4_pythonic longcat mimo minicpm5 minimax minimax_m2 minimax_m3 mistral olmo3 openai phi4_mini_json
        poolside_v1 pythonic qwen3_coder qwen3_xml rwkv seed_oss solar_open2 step3 step3p5 xlam
        """
    ),
    "--reasoning-parser": _words(
        """
        apertus cohere_command3 cohere_command4 deepseek_r1 deepseek_v3 deepseek_v31 deepseek_v4 deepseek_v41 ernie45
        exaone4 gemma4 glm45 glm47 GptOss granite holo2 hunyuan_a13b hy_v3 hy_v4 identity inkling k2_horizon kimi_k2
        kimi_k3 ling3 longcat mimo minimax_m1 minimax_m2 minimax_m2_append_think minimax_m3 mistral nemotron_v3 olmo3
        openai_gptoss poolside_v1 qwen3 seed_oss solar_open2 step3 step3p5
        """
    ),
    "--quantization": _words(
        """
        aqlm auto-round auto_round auto_awq awq awq_marlin bitblas bitsandbytes compressed-tensors cpu_awq cpu_gptq
        deepgemm_fp8 deepspeedfp experts_int8 fbgemm_fp8 fp8 fp8_per_block fp8_per_tensor fp_quant gguf gptq
        gptq_bitblas gptq_marlin gptq_marlin_24 gpt_oss_mxfp4 hqq humming inc int8_per_channel_weight_only ipex marlin
        modelopt modelopt_fp4 modelopt_mixed modelopt_mxfp8 moe_wna16 mxfp4 mxfp8 neuron_quant nvfp4 online
        petit_nvfp4 ptpc_fp8 qqq quark rtn squeezellm torchao tpu_int8
        """
    ),
    "--distributed-executor-backend": _words("external_launcher mp ray uni"),
    "--load-format": _words(
        """
        auto bitsandbytes dummy fastsafetensors gguf instanttensor mistral npcache pt runai_streamer
        runai_streamer_sharded safetensors sharded_state tensorizer
        """
    ),
}
_SGLANG_WORDS: Mapping[str, frozenset[str]] = {
    "--tool-call-parser": _words(
        """
        apertus2509 cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 deepseekv41 dots gemma4 gigachat3
        gigachat35 glm glm45 glm47 gpt-oss hermes hunyuan inkling interns1 k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3
        longcat mimo minicpm5 minimax-m2 minimax-m3 mistral muse poolside_v1 pythonic qwen qwen25 qwen3_coder spark25
        step3 step3p5 trinity
        """
    ),
    "--reasoning-parser": _words(
        """
        cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 gemma4 glm45 gpt-oss hunyuan interns1 kimi kimi_k2 kimi_k3
        mimo minimax minimax-append-think minimax_m3 mistral nano_v3 nemotron_3 olmo3 poolside_v1 qwen3 qwen3-thinking
        step3 step3p5
        """
    ),
    "--quantization": _words(
        """
        auto-round auto-round-int8 awq awq_marlin bitsandbytes blockwise_int8 compressed-tensors fbgemm_fp8 fp8 gguf
        gptq gptq_marlin marlin modelopt modelopt_fp4 modelopt_fp8 modelopt_mixed modelslim moe_wna16 mxfp4 mxfp8
        mxfp_w4a8 nvfp4_online petit_nvfp4 qoq quark quark_int4fp8_moe unquant w4afp8 w8a8_fp8 w8a8_int8
        """
    ),
    "--dtype": _words(_TYPES),
    "--kv-cache-dtype": _words("auto bf16 bfloat16 fp4_e2m1 fp8_e4m3 fp8_e5m2 nvfp4"),
    "--schedule-policy": _words("dfs-weight fcfs lof lpm priority random routing-key"),
    "--grammar-backend": _words("llguidance none outlines xgrammar"),
    "--disaggregation-mode": _words("decode null prefill"),
    "--disaggregation-transfer-backend": _words("ascend fake mooncake mori nixl"),
    "--speculative-algorithm": _words("DFLASH EAGLE EAGLE3 FROZEN_KV_MTP NEXTN NGRAM STANDALONE"),
}
_TGI_WORDS: Mapping[str, frozenset[str]] = {
    "--quantize": _words(
        "awq bitsandbytes bitsandbytes-fp4 bitsandbytes-nf4 compressed-tensors eetq exl2 fp8 gptq marlin"
    ),
    "--dtype": _words("bfloat16 float16"),
    "--kv-cache-dtype": _words("fp8_e4m3fn fp8_e5m2"),
    "--rope-scaling": _words("dynamic linear"),
    "--sharded": _words("false true"),
}
_LLAMA_CPP_WORDS: Mapping[str, frozenset[str]] = {
    **{
        name: _words("bf16 f16 f32 iq4_nl q4_0 q4_1 q5_0 q5_1 q8_0")
        for name in ("--cache-type-k", "--cache-type-v", "-ctk", "-ctv")
    },
    **{name: _words("layer none row tensor") for name in ("--split-mode", "-sm")},
    **{name: _words("0 1 auto disabled enabled false off on true") for name in ("--flash-attn", "-fa")},
    "--pooling": _words("cls last mean none rank"),
    "--reasoning-format": _words("auto deepseek deepseek-legacy none"),
}
_MISTRALRS_WORDS: Mapping[str, frozenset[str]] = {
    "--isq": _words(
        """
        2 3 4 5 6 8 afq2 afq3 afq4 afq6 afq8 auto f8e4m3 f8q8 fp8 hqq4 hqq8 mxfp4 nvfp4 q2k q3k q4_0 q4_1 q4k q5_0 q5_1
        q5k q6k q8_0 q8_1 q8k
        """
    ),
}

WORDS: Mapping[EngineKind, Mapping[str, frozenset[str]]] = {
    EngineKind.VLLM: _VLLM,
    EngineKind.SGLANG: _SGLANG_WORDS,
    EngineKind.TGI: _TGI_WORDS,
    EngineKind.LLAMA_CPP: _LLAMA_CPP_WORDS,
    EngineKind.MISTRALRS: _MISTRALRS_WORDS,
    EngineKind.TEI: {"--dtype": _words("float16 float32"), "--pooling": _words("cls last-token mean splade")},
    EngineKind.TRTLLM: {"--backend": _words("_autodeploy cpp pytorch tensorrt trt")},
    EngineKind.TRITON: {"--model-control-mode": _words("explicit none poll")},
}
"""Engine -> flag -> the words that it takes."""

PLUG_INS: Mapping[str, str] = {
    "--reasoning-parser": "--reasoning-parser-plugin",
    "--tool-call-parser": "--tool-parser-plugin",
}
"""Flag -> the flag that brings words of one's own."""
ANY_CASE = frozenset((EngineKind.MISTRALRS,))
"""Engines that read words in capitals too."""

ELSEWHERE: Mapping[str, Mapping[EngineKind, str]] = {
    "--max-model-len": {
        EngineKind.SGLANG: "--context-length",
        EngineKind.TGI: "--max-total-tokens",
        EngineKind.LLAMA_CPP: "--ctx-size",
    },
    "--gpu-memory-utilization": {EngineKind.SGLANG: "--mem-fraction-static", EngineKind.TGI: "--cuda-memory-fraction"},
    "--max-num-seqs": {
        EngineKind.SGLANG: "--max-running-requests",
        EngineKind.TGI: "--max-concurrent-requests",
        EngineKind.LLAMA_CPP: "--parallel",
    },
    "--enforce-eager": {EngineKind.SGLANG: "--disable-cuda-graph"},
    "--enable-prefix-caching": {EngineKind.SGLANG: "nothing: it is the default"},
    "--max-num-batched-tokens": {EngineKind.SGLANG: "--chunked-prefill-size"},
    "--served-model-name": {EngineKind.LLAMA_CPP: "--alias"},
    "--tensor-parallel-size": {EngineKind.TGI: "--num-shard", EngineKind.LLAMA_CPP: "--split-mode"},
    "--context-length": {EngineKind.TGI: "--max-total-tokens", EngineKind.LLAMA_CPP: "--ctx-size"},
    "--model-path": {EngineKind.TGI: "--model-id", EngineKind.LLAMA_CPP: "--model"},
    "--model-id": {EngineKind.SGLANG: "--model-path", EngineKind.LLAMA_CPP: "--model"},
}
"""Flags of one engine that others do not have, and what they call it."""

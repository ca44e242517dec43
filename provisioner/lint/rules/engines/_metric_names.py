"""The metrics that model servers have, and those they had once. Pure knowledge; no rules stand here.

vLLM's from its own code in releases 0.8.5 to 0.32.0, llama.cpp's from its server's README, SGLang's from its page on
production metrics. Names are without prefix and without the ending that their type adds (`_total`, `_bucket`, …).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_ENDINGS = re.compile(r"_(total|bucket|sum|count|created)$")


def _words(names: str) -> frozenset[str]:
    return frozenset(_ENDINGS.sub("", name) for name in names.split())


KNOWN: Mapping[str, frozenset[str]] = {
    "vllm": _words(
        """
        admission_rejections cache_config_info corrupted_requests cpu_cache_usage_perc cpu_prefix_cache_hit_rate
        diffusion_num_canvas_positions diffusion_num_committed_tokens diffusion_num_denoising_steps
        e2e_request_latency_seconds engine_sleep_state estimated_flops_per_gpu estimated_read_bytes_per_gpu
        estimated_write_bytes_per_gpu external_prefix_cache_hits external_prefix_cache_queries generation_tokens
        gpu_cache_usage_perc gpu_prefix_cache_hit_rate gpu_prefix_cache_hits gpu_prefix_cache_queries
        hf3fs_load_duration_seconds hf3fs_num_failed_load hf3fs_num_failed_save hf3fs_save_duration_seconds
        hisparse_cache_hits hisparse_cache_misses hisparse_host_block_idle_before_evict_seconds
        hisparse_host_block_lifetime_seconds hisparse_host_block_reuse_gap_seconds hisparse_host_cache_usage_perc
        hisparse_host_to_device_bytes hisparse_pending_page_transfers inter_token_latency_seconds iteration_tokens
        kv_block_idle_before_evict_seconds kv_block_lifetime_seconds kv_block_reuse_gap_seconds kv_cache_usage_perc
        kv_offload_allocation_failure kv_offload_cpu_allocation_size kv_offload_cpu_cache_read_usage_perc
        kv_offload_cpu_cache_usage_perc kv_offload_cpu_cache_write_usage_perc kv_offload_load_bytes
        kv_offload_load_size kv_offload_load_time kv_offload_lookup_async_delay_seconds
        kv_offload_lookup_sync_delay_seconds kv_offload_size kv_offload_store_bytes kv_offload_store_size
        kv_offload_store_time kv_offload_stores_skipped kv_offload_tiering_active_cascade_jobs
        kv_offload_tiering_active_promotion_jobs kv_offload_tiering_backpressure_blocks_dropped
        kv_offload_tiering_backpressure_store_latency_ema kv_offload_tiering_backpressure_stores_dropped
        kv_offload_tiering_cascade_job_failures kv_offload_tiering_chunk_hits kv_offload_tiering_chunk_queries
        kv_offload_tiering_lookup_async_delay_seconds kv_offload_tiering_lookup_sync_delay_seconds
        kv_offload_tiering_primary_read_usage_perc kv_offload_tiering_primary_write_usage_perc
        kv_offload_tiering_promotion_allocation_failures kv_offload_tiering_promotion_job_failures
        kv_offload_tiering_read_bytes kv_offload_tiering_read_time kv_offload_tiering_write_bytes
        kv_offload_tiering_write_time kv_offload_total_bytes kv_offload_total_time lora_requests_info mm_cache_hits
        mm_cache_queries model_execute_time_milliseconds model_forward_time_milliseconds mooncake_store_operation
        mooncake_store_operation_bytes mooncake_store_operation_failed_keys mooncake_store_operation_keys
        mooncake_store_operation_time_seconds nixl_bytes_transferred nixl_num_descriptors
        nixl_num_failed_notifications nixl_num_failed_transfers nixl_num_kv_expired_reqs
        nixl_num_notifications_after_expiry nixl_post_time_seconds nixl_xfer_time_seconds num_preemptions
        num_requests_kv_fetch_by_stage num_requests_running num_requests_swapped num_requests_waiting
        num_requests_waiting_by_reason prefix_cache_hits prefix_cache_queries prompt_tokens prompt_tokens_by_source
        prompt_tokens_cached prompt_tokens_cached_by_source request_decode_time_seconds request_generation_tokens
        request_inference_time_seconds request_max_num_generation_tokens request_num_preemptions
        request_params_max_tokens request_params_n request_prefill_kv_computed_tokens request_prefill_time_seconds
        request_prompt_tokens request_queue_time_seconds request_success request_time_per_output_token_seconds
        rl_weight_update_operation_duration_seconds rl_weight_update_operations_in_flight simple_kv_offload_info
        simple_kv_offload_load_blocks simple_kv_offload_pending_store_blocks simple_kv_offload_save_outcomes
        simple_kv_offload_used_blocks sleep_mode_operation_duration_seconds sleep_mode_operations_in_flight
        spec_decode spec_decode_draft_acceptance_rate spec_decode_efficiency spec_decode_num_accepted_tokens
        spec_decode_num_accepted_tokens_per_pos spec_decode_num_draft_tokens spec_decode_num_drafts
        spec_decode_num_emitted_tokens time_in_queue_requests time_per_output_token_seconds
        time_to_first_token_seconds tool_call_parser_invocations watermark_requests
        websocket_connection_duration_seconds websocket_connections websocket_connections_active
        """
    ),
    "llamacpp": _words(
        """
        kv_cache_tokens kv_cache_usage_ratio n_busy_slots_per_decode n_decode_total n_tokens_max
        predicted_tokens_seconds prompt_seconds_total prompt_tokens_seconds prompt_tokens_total requests_deferred
        requests_processing tokens_predicted_seconds_total tokens_predicted_total
        """
    ),
    "sglang": _words(
        """
        cache_hit_rate cached_tokens e2e_request_latency_seconds gen_throughput generation_tokens
        inter_token_latency_seconds max_total_num_tokens num_aborted_requests num_grammar_queue_reqs num_queue_reqs
        num_requests num_retracted_reqs num_running_reqs num_running_reqs_offline_batch num_so_requests
        num_used_tokens prompt_tokens spec_accept_length time_per_output_token_seconds time_to_first_token_seconds
        token_usage
        """
    ),
}
"""Prefix -> names. SGLang's list is not whole."""

OF_TRITON = _words(
    """
    nv_cache_hit_duration_per_model nv_cache_miss_duration_per_model nv_cache_num_hits_per_model
    nv_cache_num_misses_per_model nv_energy_consumption nv_gpu_memory_total_bytes nv_gpu_memory_used_bytes
    nv_gpu_power_limit nv_gpu_power_usage nv_gpu_utilization nv_inference_compute_infer_duration_us
    nv_inference_compute_infer_summary_us nv_inference_compute_input_duration_us
    nv_inference_compute_input_summary_us nv_inference_compute_output_duration_us
    nv_inference_compute_output_summary_us nv_inference_count nv_inference_exec_count
    nv_inference_first_response_histogram_ms nv_inference_pending_request_count nv_inference_queue_duration_us
    nv_inference_queue_summary_us nv_inference_request_duration_us nv_inference_request_failure
    nv_inference_request_success nv_inference_request_summary_us nv_trt_llm_disaggregated_serving_metrics
    nv_trt_llm_general_metrics nv_trt_llm_inflight_batcher_metrics nv_trt_llm_kv_cache_block_metrics
    nv_trt_llm_request_metrics nv_trt_llm_runtime_memory_metrics nv_trt_llm_v1_metrics
    """
)
"""Those of Triton and of its TensorRT-LLM backend, without the ending of a summary or histogram."""

OF_TGI = _words(
    """
    tgi_batch_concat tgi_batch_concat_duration tgi_batch_current_max_tokens tgi_batch_current_size
    tgi_batch_decode_duration tgi_batch_filter_duration tgi_batch_forward_duration tgi_batch_inference_count
    tgi_batch_inference_duration tgi_batch_inference_success tgi_batch_next_size tgi_batch_next_tokens tgi_queue_size
    tgi_request_count tgi_request_duration tgi_request_failure tgi_request_generated_tokens
    tgi_request_inference_duration tgi_request_input_length tgi_request_max_new_tokens
    tgi_request_mean_time_per_token_duration tgi_request_queue_duration tgi_request_skipped_tokens
    tgi_request_success tgi_request_validation_duration
    """
)
"""Those of Text Generation Inference."""

IN_OTHER_WORDS: Mapping[str, str] = {
    "gen_throughput": "generation_tokens",
    "kv_cache_usage_perc": "token_usage",
    "gpu_cache_usage_perc": "token_usage",
    "num_queue_reqs": "num_requests_waiting",
    "num_requests_running": "num_running_reqs",
    "num_requests_waiting": "num_queue_reqs",
    "num_running_reqs": "num_requests_running",
    "token_usage": "kv_cache_usage_perc",
}
"""What vLLM and SGLang call the same thing."""

GPU_METRICS = frozenset(
    f"DCGM_FI_{name}"
    for name in _words(
        """
        DEV_CORRECTABLE_REMAPPED_ROWS DEV_DEC_UTIL DEV_ECC_DBE_VOL_TOTAL DEV_ECC_SBE_VOL_TOTAL DEV_ENC_UTIL DEV_FB_FREE
        DEV_FB_RESERVED DEV_FB_TOTAL DEV_FB_USED DEV_FB_USED_PERCENT DEV_GPU_TEMP DEV_GPU_UTIL DEV_MEMORY_TEMP
        DEV_MEM_CLOCK DEV_MEM_COPY_UTIL DEV_NVLINK_BANDWIDTH_TOTAL DEV_PCIE_REPLAY_COUNTER DEV_POWER_USAGE
        DEV_POWER_VIOLATION DEV_ROW_REMAP_FAILURE DEV_SM_CLOCK DEV_THERMAL_VIOLATION DEV_TOTAL_ENERGY_CONSUMPTION
        DEV_UNCORRECTABLE_REMAPPED_ROWS DEV_VGPU_LICENSE_STATUS DEV_XID_ERRORS PROF_DRAM_ACTIVE PROF_GR_ENGINE_ACTIVE
        PROF_NVLINK_RX_BYTES PROF_NVLINK_TX_BYTES PROF_PCIE_RX_BYTES PROF_PCIE_TX_BYTES PROF_PIPE_FP16_ACTIVE
        PROF_PIPE_FP32_ACTIVE PROF_PIPE_FP64_ACTIVE PROF_PIPE_TENSOR_ACTIVE PROF_SM_ACTIVE PROF_SM_OCCUPANCY
        """
    )
)
"""What NVIDIA's DCGM exporter shows with the lists of counters that it ships; DCGM itself has many more."""

RENAMED: Mapping[str, tuple[tuple[int, int], str]] = {
    "cpu_cache_usage_perc": ((0, 9), ""),
    "cpu_prefix_cache_hit_rate": ((0, 9), "vllm:prefix_cache_hits_total"),
    "gpu_cache_usage_perc": ((0, 11), "vllm:kv_cache_usage_perc"),
    "gpu_prefix_cache_hit_rate": ((0, 9), "vllm:prefix_cache_hits_total"),
    "gpu_prefix_cache_hits": ((0, 11), "vllm:prefix_cache_hits_total"),
    "gpu_prefix_cache_queries": ((0, 11), "vllm:prefix_cache_queries_total"),
    "num_requests_swapped": ((0, 9), "vllm:num_preemptions_total"),
    "spec_decode_draft_acceptance_rate": ((0, 10), "vllm:spec_decode_num_accepted_tokens_total"),
    "spec_decode_efficiency": ((0, 10), ""),
    "time_in_queue_requests": ((0, 9), "vllm:request_queue_time_seconds"),
    "time_per_output_token_seconds": ((0, 20), "vllm:inter_token_latency_seconds"),
}
"""A metric of vLLM -> the release by which it was gone or hidden, and what took its place (empty for nothing).

Hidden is what only `--show-hidden-metrics-for-version` shows, for one release more.
"""


def bare(name: str) -> str:
    """A name without the ending of its type."""
    return _ENDINGS.sub("", name)

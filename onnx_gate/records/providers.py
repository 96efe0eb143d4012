"""The names of execution providers, and of the options that are known of them."""

from __future__ import annotations

from collections.abc import Mapping

EXECUTION_PROVIDERS: Mapping[str, str] = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "nv_tensorrt_rtx": "NvTensorRTRTXExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
    "directml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "rocm": "ROCMExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "qnn": "QNNExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider",
    "dnnl": "DnnlExecutionProvider",
    "acl": "ACLExecutionProvider",
    "vitisai": "VitisAIExecutionProvider",
    "cann": "CANNExecutionProvider",
    "nnapi": "NnapiExecutionProvider",
    "rknpu": "RknpuExecutionProvider",
    "vsinpu": "VSINPUExecutionProvider",
    "azure": "AzureExecutionProvider",
}
"""Short names, as the reports have them, and the names that ONNX Runtime has for them."""

SHORT_NAMES: Mapping[str, str] = {
    **{short: short for short in EXECUTION_PROVIDERS},
    **{full: short for short, full in EXECUTION_PROVIDERS.items()},
}
"""Every name that a provider may be asked for by, and the one that it is reported under."""

_CUDA = frozenset(
    (
        *("device_id", "has_user_compute_stream", "user_compute_stream", "gpu_mem_limit", "arena_extend_strategy"),
        *("cudnn_conv_algo_search", "cudnn_conv_use_max_workspace", "cudnn_conv1d_pad_to_nc1d", "enable_cudnn"),
        *("do_copy_in_default_stream", "enable_cuda_graph", "enable_skip_layer_norm_strict_mode", "fuse_conv_bias"),
        *("gpu_external_alloc", "gpu_external_free", "gpu_external_empty_cache", "prefer_nhwc", "sdpa_kernel"),
        *("tunable_op_enable", "tunable_op_tuning_enable", "tunable_op_max_tuning_duration_ms", "use_tf32"),
        "use_ep_level_unified_stream",
    )
)
_TENSORRT = frozenset(
    (
        *("device_id", "has_user_compute_stream", "user_compute_stream", "trt_auxiliary_streams", "trt_bf16_enable"),
        *("trt_build_heuristics_enable", "trt_builder_optimization_level", "trt_context_memory_sharing_enable"),
        *("trt_cuda_graph_enable", "trt_detailed_build_log", "trt_dla_core", "trt_dla_enable"),
        *("trt_dump_ep_context_model", "trt_dump_subgraphs", "trt_engine_cache_enable", "trt_engine_cache_path"),
        *("trt_engine_cache_prefix", "trt_engine_decryption_enable", "trt_engine_decryption_lib_path"),
        *("trt_engine_hw_compatible", "trt_ep_context_embed_mode", "trt_ep_context_file_path"),
        *("trt_external_data_bytestream", "trt_external_data_bytestream_size", "trt_extra_plugin_lib_paths"),
        *("trt_force_sequential_engine_build", "trt_force_timing_cache", "trt_fp16_enable"),
        *("trt_int8_calibration_table_name", "trt_int8_enable", "trt_int8_use_native_calibration_table"),
        *("trt_layer_norm_fp32_fallback", "trt_load_user_initializer", "trt_max_partition_iterations"),
        *("trt_max_workspace_size", "trt_min_subgraph_size", "trt_onnx_bytestream", "trt_onnx_bytestream_size"),
        *("trt_onnx_model_folder_path", "trt_op_types_to_exclude", "trt_preview_features", "trt_profile_max_shapes"),
        *("trt_profile_min_shapes", "trt_profile_opt_shapes", "trt_sparsity_enable", "trt_tactic_sources"),
        *("trt_timing_cache_enable", "trt_timing_cache_path", "trt_weight_stripped_engine_enable"),
    )
)
_WEBGPU = frozenset(
    (
        *("dawnBackendType", "dawnProcTable", "defaultBufferCacheMode", "deviceId", "enableGraphCapture"),
        *("enableInt64", "enablePIXCapture", "forceCpuNodeNames", "maxStorageBufferBindingSize"),
        *("multiRotaryCacheConcatOffset", "powerPreference", "preferredLayout", "preserveDevice"),
        *("queryResolveBufferCacheMode", "storageBufferCacheMode", "uniformBufferCacheMode", "validationMode"),
        *("webgpuDevice", "webgpuInstance"),
    )
)
_OPENVINO = frozenset(
    (
        *("device_type", "device_id", "device_luid", "precision", "num_of_threads", "num_streams", "cache_dir"),
        *("load_config", "context", "model_priority", "enable_opencl_throttling", "enable_qdq_optimizer"),
        *("enable_causallm", "disable_dynamic_shapes", "reshape_input", "layout"),
    )
)

PROVIDER_OPTIONS: Mapping[str, frozenset[str]] = {
    "cpu": frozenset(),
    "cuda": _CUDA,
    "tensorrt": _TENSORRT,
    "webgpu": _WEBGPU,
    "openvino": _OPENVINO,
}
"""Of the providers whose options are all known: any other name is a typing error."""

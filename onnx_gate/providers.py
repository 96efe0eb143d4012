"""One row for each execution provider: its names and options, the package that brings it, its device.

The module is light, since the manifest is checked against it. Code that needs ONNX Runtime looks up providers here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from onnx_gate.records.asked import ProviderSpec


@dataclass(frozen=True, kw_only=True)
class FastOption:
    """One option of a provider that trades precision for speed."""

    name: str
    """ONNX Runtime's name for it."""
    precise: Callable[[str], str]
    """Turns a value into the one that computes in full precision, which may be the same value."""
    default: str = ""
    """The value in force if nobody sets the option and the session doesn't report it."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """How to see that a machine has a device, without any library of the provider."""

    files: tuple[tuple[str, ...], ...] = ()
    """Patterns of files. One group is enough; all patterns of a group have to match, and its last is reported."""
    pci_vendor: str = ""
    """The vendor id of a PCI display controller."""


@dataclass(frozen=True, kw_only=True)
class ProviderInfo:
    """What is known about one provider. A provider that isn't in the table, such as a plug-in's, has the defaults."""

    name: str
    """The short name, as used in manifests and reports."""
    full_name: str
    """ONNX Runtime's name for it."""
    options: frozenset[str] | None = None
    """Names of its options, in the release that was read last; None if the list isn't known."""
    fast: tuple[FastOption, ...] = ()
    """Options that cost precision. What no option can change (NVIDIA_TF32_OVERRIDE for TensorRT) isn't listed."""
    wheel: str = ""
    """How to install it."""
    device: Device | None = None
    """How to find its device; None if nothing shows it."""
    software: bool = False
    """It runs on the CPU, so every machine that it is built for has a device for it."""
    in_doctor: bool = False
    """`doctor` reports on it even if the installed ONNX Runtime doesn't include it."""

    def unknown_options(self, names: Iterable[str]) -> list[str]:
        """The names that are not in its list; empty if there is no list. A newer release may have them nevertheless."""
        return [] if self.options is None else sorted(set(names) - self.options)

    @property
    def needs_nvidia(self) -> bool:
        """Whether it needs NVIDIA's driver and libraries."""
        return self.device is _NVIDIA_GPU

    @property
    def how_to_get(self) -> str:
        """What to do if the installed ONNX Runtime doesn't include it."""
        brought = self.wheel or f"install a build of onnxruntime that has {self.name}"
        return f"{brought} (instead of the onnxruntime that is installed), or remove it from `providers`"


_NVIDIA_GPU = Device(
    files=(
        ("dev/nvidia[0-9]*",),
        ("proc/driver/nvidia/gpus/*",),
        # Under WSL the driver is a library of the host.
        ("usr/lib/wsl/lib/libcuda.so.1", "dev/dxg"),
    ),
    pci_vendor="0x10de",
)
_AMD_GPU = Device(files=(("dev/kfd",),), pci_vendor="0x1002")
# Only a GPU with a driver has a render node; a virtual machine's plain display adapter has no such node.
_RENDER_NODE = Device(files=(("dev/dri/renderD*",),))

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


def _off(value: str) -> str:
    return value if value.lower() in ("", "0", "false") else "0"


def _openvino_precision(value: str) -> str:
    return "ACCURACY" if value.upper() in ("FP16", "BF16") else value


def _openvino_config(value: str) -> str:
    """OpenVINO's settings by device, as JSON, in full precision; a file, or text that can't be read, is not changed."""
    try:
        config: Any = json.loads(value)
        hints = [device for device in config.values() if device.get("INFERENCE_PRECISION_HINT") in ("f16", "bf16")]
    except (ValueError, AttributeError):
        return value
    for device in hints:
        device["INFERENCE_PRECISION_HINT"] = "f32"
    return json.dumps(config) if hints else value


def _switches(*names: str) -> tuple[FastOption, ...]:
    return tuple(FastOption(name=name, precise=_off) for name in names)


_ROWS = (
    ProviderInfo(name="cpu", full_name="CPUExecutionProvider", options=frozenset(), software=True, in_doctor=True),
    ProviderInfo(
        name="cuda",
        full_name="CUDAExecutionProvider",
        options=_CUDA,
        fast=(FastOption(name="use_tf32", precise=_off, default="1"),),
        wheel="pip install onnxruntime-gpu",
        device=_NVIDIA_GPU,
        in_doctor=True,
    ),
    ProviderInfo(
        name="tensorrt",
        full_name="TensorrtExecutionProvider",
        options=_TENSORRT,
        fast=_switches("trt_fp16_enable", "trt_bf16_enable", "trt_int8_enable"),
        wheel="pip install onnxruntime-gpu, and TensorRT",
        device=_NVIDIA_GPU,
    ),
    ProviderInfo(name="nv_tensorrt_rtx", full_name="NvTensorRTRTXExecutionProvider", device=_NVIDIA_GPU),
    ProviderInfo(
        name="openvino",
        full_name="OpenVINOExecutionProvider",
        options=_OPENVINO,
        fast=(
            FastOption(name="precision", precise=_openvino_precision),
            FastOption(name="load_config", precise=_openvino_config),
        ),
        wheel="pip install onnxruntime-openvino",
        software=True,
    ),
    ProviderInfo(
        name="webgpu",
        full_name="WebGpuExecutionProvider",
        options=_WEBGPU,
        wheel="pip install onnxruntime-webgpu",
        device=_RENDER_NODE,
    ),
    ProviderInfo(
        name="directml", full_name="DmlExecutionProvider", wheel="pip install onnxruntime-directml, on Windows"
    ),
    ProviderInfo(
        name="coreml",
        full_name="CoreMLExecutionProvider",
        fast=_switches("AllowLowPrecisionAccumulationOnGPU"),
        wheel="pip install onnxruntime, on macOS",
    ),
    ProviderInfo(name="rocm", full_name="ROCMExecutionProvider", wheel="pip install onnxruntime-rocm", device=_AMD_GPU),
    ProviderInfo(
        name="migraphx",
        full_name="MIGraphXExecutionProvider",
        fast=_switches(*(f"migraphx_{kind}_enable" for kind in ("fp16", "bf16", "fp8", "int8"))),
        wheel="pip install onnxruntime-migraphx",
        device=_AMD_GPU,
    ),
    ProviderInfo(
        name="qnn",
        full_name="QNNExecutionProvider",
        fast=(FastOption(name="enable_htp_fp16_precision", precise=_off, default="1"),),
        wheel="pip install onnxruntime-qnn",
        device=Device(files=(("dev/fastrpc*",), ("dev/adsprpc*",))),
    ),
    ProviderInfo(name="xnnpack", full_name="XnnpackExecutionProvider", software=True),
    ProviderInfo(name="dnnl", full_name="DnnlExecutionProvider", software=True),
    ProviderInfo(name="acl", full_name="ACLExecutionProvider", software=True),
    ProviderInfo(
        name="vitisai", full_name="VitisAIExecutionProvider", device=Device(files=(("dev/accel/accel[0-9]*",),))
    ),
    ProviderInfo(name="cann", full_name="CANNExecutionProvider", device=Device(files=(("dev/davinci[0-9]*",),))),
    ProviderInfo(name="nnapi", full_name="NnapiExecutionProvider"),
    ProviderInfo(name="rknpu", full_name="RknpuExecutionProvider"),
    ProviderInfo(name="vsinpu", full_name="VSINPUExecutionProvider"),
    ProviderInfo(name="azure", full_name="AzureExecutionProvider"),
)

PROVIDERS: Mapping[str, ProviderInfo] = {row.name: row for row in _ROWS}
"""Every provider by its short name, in the order of the reports."""

SHORT_NAMES: Mapping[str, str] = {
    **{name: name for name in PROVIDERS},
    **{row.full_name: name for name, row in PROVIDERS.items()},
}
"""Every name by which a provider may be requested, and the name under which it is reported."""


def provider_info(name: str) -> ProviderInfo:
    """The row of a short name; a row of defaults for a plug-in's own name."""
    return PROVIDERS.get(name) or ProviderInfo(name=name, full_name=name)


def short_name(name: str) -> str:
    """The name of a provider in reports; a plug-in's own name is not changed."""
    return SHORT_NAMES.get(name, name)


def runtime_settings(given: ProviderSpec, custom_ops: str | None) -> dict[str, Any]:
    """The settings with which a plain script opens the session that a manifest asks for."""
    session = given.session
    return {
        "provider": provider_info(given.name).full_name,
        "provider_options": dict(given.options),
        "optimization": session.optimization,
        "intra_op_threads": session.intra_op_threads,
        "inter_op_threads": session.inter_op_threads,
        "deterministic": session.deterministic,
        "config": dict(session.config),
        "custom_ops": custom_ops or "",
    }

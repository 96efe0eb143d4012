"""What is known of each provider beside its name: what brings it, and what it needs."""

from __future__ import annotations

from onnx_gate.records import EXECUTION_PROVIDERS

NVIDIA = frozenset(("cuda", "tensorrt", "nv_tensorrt_rtx"))
"""Providers that need NVIDIA's driver and libraries."""
SOFTWARE = frozenset(("cpu", "openvino", "xnnpack", "dnnl", "acl"))
"""Providers that every machine they are built for has a device for: its CPU."""

_BROUGHT_BY = {
    "cuda": "pip install onnxruntime-gpu",
    "tensorrt": "pip install onnxruntime-gpu, and TensorRT",
    "openvino": "pip install onnxruntime-openvino",
    "webgpu": "pip install onnxruntime-webgpu",
    "directml": "pip install onnxruntime-directml, on Windows",
    "coreml": "pip install onnxruntime, on macOS",
    "rocm": "pip install onnxruntime-rocm",
    "migraphx": "pip install onnxruntime-migraphx",
    "qnn": "pip install onnxruntime-qnn",
}


def short_name(full: str) -> str:
    """The name that reports have for one of ONNX Runtime's; a plug-in's own stays as it is."""
    return next((short for short, each in EXECUTION_PROVIDERS.items() if each == full), full)


def how_to_get(provider: str) -> str:
    """What brings a provider that isn't there."""
    brought = _BROUGHT_BY.get(provider, f"install a build of onnxruntime that has {provider}")
    return f"{brought} (instead of the onnxruntime that is installed), or remove it from `providers`"

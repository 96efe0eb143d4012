"""Options by which a provider computes with less precision than the model says, and how to turn each off."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_OFF = ("", "0", "false")


@dataclass(frozen=True, kw_only=True)
class FastOption:
    """One option of a provider that trades precision for speed."""

    name: str
    """As ONNX Runtime calls it."""
    precise: Callable[[str], str]
    """A value → the one that computes in full precision; the same value where it does already."""
    default: str = ""
    """In force where nobody sets it and the session doesn't say."""


def _off(value: str) -> str:
    return value if value.lower() in _OFF else "0"


def _openvino_precision(value: str) -> str:
    return "ACCURACY" if value.upper() in ("FP16", "BF16") else value


def _openvino_config(value: str) -> str:
    """OpenVINO's own settings by device, as JSON; a file, or what can't be read, stays as it is."""
    try:
        config: Any = json.loads(value)
        hints = [device for device in config.values() if device.get("INFERENCE_PRECISION_HINT") in ("f16", "bf16")]
    except (ValueError, AttributeError):
        return value
    for device in hints:
        device["INFERENCE_PRECISION_HINT"] = "f32"
    return json.dumps(config) if hints else value


FAST_OPTIONS: Mapping[str, tuple[FastOption, ...]] = {
    "cuda": (FastOption(name="use_tf32", precise=_off, default="1"),),
    "tensorrt": tuple(
        FastOption(name=name, precise=_off) for name in ("trt_fp16_enable", "trt_bf16_enable", "trt_int8_enable")
    ),
    "openvino": (
        FastOption(name="precision", precise=_openvino_precision),
        FastOption(name="load_config", precise=_openvino_config),
    ),
    "coreml": (FastOption(name="AllowLowPrecisionAccumulationOnGPU", precise=_off),),
    "migraphx": tuple(
        FastOption(name=f"migraphx_{kind}_enable", precise=_off) for kind in ("fp16", "bf16", "fp8", "int8")
    ),
    "qnn": (FastOption(name="enable_htp_fp16_precision", precise=_off, default="1"),),
}
"""By provider. What it can't be told by an option (NVIDIA_TF32_OVERRIDE for TensorRT) isn't here."""


def options_in_force(asked: Mapping[str, str], reported: Mapping[str, str]) -> dict[str, str]:
    """What a session says of its provider; what was asked for where it doesn't say, as OpenVINO's."""
    return {**asked, **reported}


def fast_options(provider: str, options: Mapping[str, str]) -> dict[str, str]:
    """Those in force that compute with less precision, with their values."""
    known = {
        option.name: (option, options.get(option.name, option.default)) for option in FAST_OPTIONS.get(provider, ())
    }
    return {name: value for name, (option, value) in known.items() if option.precise(value) != value}


def precise_options(provider: str, options: Mapping[str, str]) -> dict[str, str]:
    """The same options in full precision, those alone that have to change."""
    fast = fast_options(provider, options)
    return {
        option.name: option.precise(fast[option.name])
        for option in FAST_OPTIONS.get(provider, ())
        if option.name in fast
    }

"""Options that trade precision for speed, and what turns them off."""

from __future__ import annotations

import pytest

from onnx_gate.worker.runtime.precision import fast_options, precise_options


@pytest.mark.parametrize(
    ("provider", "options", "precise"),
    [
        ("cuda", {"use_tf32": "1"}, {"use_tf32": "0"}),
        ("cuda", {}, {"use_tf32": "0"}),
        ("cuda", {"use_tf32": "0"}, {}),
        ("tensorrt", {"trt_fp16_enable": "True", "trt_int8_enable": "0"}, {"trt_fp16_enable": "0"}),
        ("openvino", {"precision": "FP16", "device_type": "GPU"}, {"precision": "ACCURACY"}),
        ("openvino", {"precision": "FP32"}, {}),
        (
            "openvino",
            {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "bf16", "NUM_STREAMS": "1"}}'},
            {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "1"}}'},
        ),
        ("openvino", {"load_config": "settings.json"}, {}),
        ("openvino", {"load_config": '["CPU"]'}, {}),
        ("cpu", {}, {}),
    ],
)
def test_each_fast_option_has_a_precise_value(provider, options, precise):
    """Only what has to change is changed, and what is changed was fast."""
    assert precise_options(provider, options) == precise
    assert fast_options(provider, options).keys() == precise.keys()

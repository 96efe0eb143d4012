"""Data about .onnx files as sources that the gate needs."""

from __future__ import annotations

from onnx_gate.frameworks.info import FrameworkInfo, is_data_only

INFO = FrameworkInfo(
    name="onnx",
    title="ONNX",
    plugin="onnx_gate.frameworks.onnx.plugin",
    files="onnx_gate.frameworks.onnx.files:FILES",
    packages={"onnx": ("onnx",)},
    extra="",
    runs_code=is_data_only,
    suffixes=(".onnx",),
    factories=False,
)

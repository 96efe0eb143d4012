"""int8: weights and activations in 8 bits, by ONNX Runtime's own quantisation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.quantization import CalibrationMethod, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.registry import IntegerOpsRegistry, QDQRegistry, QLinearOpsRegistry
from onnxruntime.quantization.shape_inference import quant_pre_process

from onnx_gate.machine import has_vnni
from onnx_gate.records.asked import VariantSpec
from onnx_gate.worker.onnx_files.files import LARGE, save, size_of, tidy, typed

DONE = "quantised"
SATURATES = (
    "this CPU has no VNNI: its int8 products saturate, so that answers differ from those of other CPUs; "
    "`reduce_range: true` avoids that"
)
_METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
}
_TYPES = {"int8": QuantType.QInt8, "uint8": QuantType.QUInt8}
_BYTES = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
_GLUE = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Cast", "Constant", "Identity")
_WITH_WEIGHTS = ("Conv", "Gemm", "MatMul", "Gather")
_INTEGER = ("MatMulInteger", "ConvInteger", "DynamicQuantizeLSTM", "QAttention", "QEmbedLayerNormalization")


class Calibration:
    """The feeds, in the form that ONNX Runtime reads."""

    def __init__(self, feeds: Iterator[dict[str, Any]]) -> None:
        self._feeds = feeds

    def get_next(self) -> dict[str, Any] | None:
        return next(self._feeds, None)


def make(variant: VariantSpec, base: Path, target: Path, feeds: Callable[[], Iterator[dict[str, Any]]]) -> list[str]:
    """Write the quantised model; return notes."""
    options = variant.options
    ready, large = _pre_process(base, tuple(options.get("exclude_nodes", ())))
    common: dict[str, Any] = {
        "op_types_to_quantize": list(options["ops"]) if "ops" in options else None,
        "per_channel": options.get("per_channel", False),
        "reduce_range": options.get("reduce_range", False),
        "weight_type": _TYPES[options.get("weights", "int8")],
        "nodes_to_exclude": list(options.get("exclude_nodes", ())),
        "use_external_data_format": large,
    }
    if variant.kind == "int8-dynamic":
        quantize_dynamic(ready, target, **common)
    else:
        quantize_static(
            ready,
            target,
            Calibration(feeds()),
            activation_type=_TYPES[options.get("activations", "uint8")],
            calibrate_method=_METHODS[options.get("calibrate", "minmax")],
            **common,
        )
    ready.unlink()
    ready.with_name(f"{ready.name}.data").unlink(missing_ok=True)
    tidy(target)
    return [] if options.get("reduce_range") or has_vnni() else [SATURATES]


def takes(variant: VariantSpec) -> list[str]:
    """The operators that the tool can quantise."""
    # With dynamic quantisation, a Gemm becomes a MatMul first.
    found = {*IntegerOpsRegistry, "Gemm"} if variant.kind == "int8-dynamic" else {*QDQRegistry, *QLinearOpsRegistry}
    return [*_WITH_WEIGHTS, *sorted(found.difference(_WITH_WEIGHTS))]


def look(graph: Any) -> tuple[Counter[str], Counter[str]]:
    """The operators that compute with bytes, and those that could but don't."""
    low = {node.output[0] for node in graph.node if node.op_type == "DequantizeLinear"}
    low |= {tensor.name for tensor in graph.initializer if tensor.data_type in _BYTES}
    lowered: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for node in graph.node:
        if node.op_type in _INTEGER or (node.op_type not in _GLUE and low & set(node.input)):
            lowered[node.op_type] += 1
        elif node.op_type in (*_WITH_WEIGHTS, "ConvTranspose", "LSTM"):
            kept[node.op_type] += 1
    return lowered, kept


def _pre_process(base: Path, excluded: tuple[str, ...]) -> tuple[Path, bool]:
    """The model, fused and folded for the tools, unless it is large, or an excluded node would disappear."""
    model = typed(base)
    # Measured before saving: saving moves large weights from the model into another file.
    large = size_of(model) >= LARGE
    ready = base.with_name(f"{base.stem}-ready.onnx")
    save(model, ready)
    if large:
        return ready, True
    # Without symbolic inference: it refuses operators of ai.onnx.ml, and needs a package that is not always installed.
    quant_pre_process(ready, ready, skip_symbolic_shape=True)
    names = {node.name for node in onnx.load(ready, load_external_data=False).graph.node}
    if not names.issuperset(excluded):
        save(model, ready)
    return ready, False

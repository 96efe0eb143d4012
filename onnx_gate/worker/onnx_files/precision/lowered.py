"""Lower precision that is visible in a file: quantised or half-precision tensors, and the nodes that use them."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import TensorProto, inliner, shape_inference

from onnx_gate.worker.onnx_files.blueprint import nodes_in
from onnx_gate.worker.onnx_files.files import all_graphs
from onnx_gate.worker.runtime.tensors import tensors_in

EXACT = frozenset(
    (
        *("Abs", "Concat", "Constant", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND"),
        *("GlobalMaxPool", "Identity", "MaxPool", "Neg", "Relu", "Reshape", "Slice", "SpaceToDepth", "Split"),
        *("Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"),
    )
)
"""Operators that return their input values, in another order or with another sign: they never round."""
_NOT_COMPUTING = EXACT | {"Cast", "CastLike", "If", "Loop", "Scan", "Shape", "Size"}
DTYPES = ("to", "dtype", "output_dtype")
"""Attributes that name a dtype."""
_QUANTISED = ("Quantize", "QLinear", "Integer", "NBits", "QGemm", "QAttention", "QOrdered", "Bnb4")
_HALF = {TensorProto.FLOAT16: "float16", TensorProto.BFLOAT16: "bfloat16"}


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """How much of a file has lower precision."""

    precision: str
    """For example `int8`."""
    nodes: int
    """Number of nodes that compute in this precision, or convert values to it."""
    tensors: int
    """Number of stored tensors in this precision."""

    @property
    def words(self) -> str:
        """What was found, as the end of a sentence."""
        parts = [
            f"{count} {what if count == 1 else what + 's'}"
            for count, what in ((self.nodes, "node"), (self.tensors, "stored tensor"))
            if count
        ]
        return f"{' and '.join(parts)} in {self.precision}"


def is_lowered(node: Any) -> bool:
    """Whether a node computes in lower precision, or converts values to it."""
    if any(sign in node.op_type for sign in _QUANTISED):
        return True
    return node.op_type == "Cast" and any(each.name == "to" and each.i in _HALF for each in node.attribute)


def lowered_in(graph: Any) -> Lowered | None:
    """The lower precision that a graph shows, int8 before half; None if nothing is below float32."""
    nodes = [node for _, node in nodes_in(graph)]
    quantised = sum(any(sign in node.op_type for sign in _QUANTISED) for node in nodes)
    small = sum(
        tensor.data_type in (TensorProto.INT8, TensorProto.UINT8) and len(tensor.dims) > 1
        for tensor in graph.initializer
    )
    if quantised:
        return Lowered(precision="int8", nodes=quantised, tensors=small)
    for code, name in _HALF.items():
        tensors = sum(tensor.data_type == code for tensor in graph.initializer)
        casts = sum(
            node.op_type == "Cast" and any(each.name == "to" and each.i == code for each in node.attribute)
            for node in nodes
        )
        if tensors or casts:
            return Lowered(precision=name, nodes=casts, tensors=tensors)
    return None


def computing_in_half(path: str) -> Counter[str]:
    """The operators of a file that compute with float16 values, counted; weights that are only stored don't count."""
    model = onnx.load(path, load_external_data=False)
    if not _mentions_half(model):
        return Counter()
    model = inliner.inline_local_functions(model) if model.functions else model
    # Without inference, the types of stored tensors, inputs and declared values are still known.
    with suppress(Exception):
        model = shape_inference.infer_shapes(model)
    found: Counter[str] = Counter()
    halves: set[str] = set()
    for graph in all_graphs(model.graph):
        values = (*graph.input, *graph.output, *graph.value_info)
        halves |= {value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT16}
        halves |= {tensor.name for tensor in graph.initializer if tensor.data_type == TensorProto.FLOAT16}
        found.update(
            node.op_type for node in graph.node if node.op_type not in _NOT_COMPUTING and halves & set(node.input)
        )
    return found


def _mentions_half(model: Any) -> bool:
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    bodies = [*all_graphs(model.graph), *model.functions]
    return (
        any(value.type.tensor_type.elem_type == TensorProto.FLOAT16 for value in values)
        or any(tensor.data_type == TensorProto.FLOAT16 for tensor in tensors_in(model))
        or any(
            attribute.name in DTYPES and attribute.i == TensorProto.FLOAT16
            for body in bodies
            for node in body.node
            for attribute in node.attribute
        )
    )

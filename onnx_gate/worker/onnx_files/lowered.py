"""Lower precision that is visible in a file: quantised or half-precision tensors, and the nodes that use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx import TensorProto

from onnx_gate.worker.onnx_files.blueprint import nodes_in

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

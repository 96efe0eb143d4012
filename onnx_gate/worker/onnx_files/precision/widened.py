"""Turns a graph into float64: the same nodes, with every float32 number as float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_gate.worker.onnx_files.files import all_graphs
from onnx_gate.worker.runtime.tensors import tensors_in

_FLOAT, _DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
_DTYPES = ("to", "dtype", "output_dtype")
_ML = "ai.onnx.ml"
_OF_TREES = ("nodes_values", "nodes_hitrates", "target_weights", "class_weights", "base_values")


def widen(model: Any) -> None:
    """Widen all numbers of a model in place; attributes of operators that have no float64 form stay."""
    for graph in all_graphs(model.graph):
        for node in graph.node:
            _widen_attributes(node)
        for value in (*graph.input, *graph.output):
            if value.type.tensor_type.elem_type == _FLOAT:
                value.type.tensor_type.elem_type = _DOUBLE
        del graph.value_info[:]
    for tensor in tensors_in(model.graph):
        if tensor.data_type == _FLOAT:
            wide = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def as_double(value: Any) -> Any:
    """A float32 array in float64; anything else unchanged."""
    narrow = isinstance(value, np.ndarray) and value.dtype == np.float32
    return value.astype(np.float64) if narrow else value


def _widen_attributes(node: Any) -> None:
    """Widen dtypes, numbers of constants, and numbers of trees."""
    for attribute in list(node.attribute):
        if attribute.name in _DTYPES and attribute.i == _FLOAT:
            attribute.i = _DOUBLE
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            value = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            _exchange(node, attribute, "value", np.array(value, np.float64))
        elif node.domain == _ML and node.op_type.startswith("TreeEnsemble") and attribute.name in _OF_TREES:
            _exchange(node, attribute, f"{attribute.name}_as_tensor", np.array(attribute.floats, np.float64))


def _exchange(node: Any, attribute: Any, name: str, value: Any) -> None:
    node.attribute.remove(attribute)
    node.attribute.append(helper.make_attribute(name, numpy_helper.from_array(value, name)))

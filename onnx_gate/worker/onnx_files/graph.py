"""What an ONNX file declares: inputs, outputs, opsets, and nodes in training mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from onnx_gate.errors import CannotJudge
from onnx_gate.records.found import Graph, GraphValue
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.onnx_files.branches import size_branches
from onnx_gate.worker.onnx_files.files import external_files
from onnx_gate.worker.runtime.tensors import is_external
from onnx_gate.worker.user_code import describe, require_content

RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
"""Operators that draw random numbers: no two runtimes draw the same numbers."""


def read_graph(path: str, shown: str) -> Graph:
    """Read the file without its weights."""
    require_content(path, shown)
    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, ValueError, OSError) as error:
        raise CannotJudge(
            Cause.INVALID_MODEL,
            f"{shown}: this is not a readable ONNX file ({describe(error)})",
            fix="was it truncated? Export or download it again",
        ) from error
    if not model.ir_version or not model.graph.output:
        raise CannotJudge(Cause.INVALID_MODEL, f"{shown}: the file holds no ONNX graph", fix="export it again")
    stored = {tensor.name for tensor in model.graph.initializer}
    stored |= {sparse.values.name for sparse in model.graph.sparse_initializer}
    return Graph(
        inputs=tuple(_value(value) for value in model.graph.input if value.name not in stored),
        outputs=tuple(_value(value) for value in model.graph.output),
        opsets={entry.domain: entry.version for entry in model.opset_import},
        ir_version=model.ir_version,
        nodes=len(model.graph.node),
        training_nodes=_training_nodes(model),
        random_nodes=tuple(
            f"{node.op_type} {node.name!r}" for node in every_node(model) if _is_own(node) and node.op_type in RANDOM
        ),
        branches=size_branches(model),
        size_bytes=sum(file.stat().st_size for file in [Path(path), *external_files(path, model, shown)]),
    )


def _is_own(node: Any) -> bool:
    """Whether a node is a standard ONNX operator: operators of other domains may have the same name."""
    return node.domain in ("", "ai.onnx")


def every_node(model: Any) -> Iterator[Any]:
    """All nodes of a model, including those in functions and sub-graphs."""
    yield from _inside(model.graph)
    for function in model.functions:
        yield from _inside(function)


def _inside(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _inside(inner)


def _training_nodes(model: Any) -> tuple[str, ...]:
    """Dropout and BatchNormalization nodes in training mode, including those in functions and sub-graphs."""
    functions = {(function.domain, function.name): function for function in model.functions}
    true = {tensor.name for tensor in model.graph.initializer if _is_true(tensor)}
    return tuple(dict.fromkeys(_in_training(model.graph.node, true, functions, "")))


def _in_training(
    nodes: Iterable[Any], outer: set[str], functions: Mapping[tuple[str, str], Any], within: str
) -> Iterator[str]:
    """The names of nodes in training mode; `outer`: values known to be true; `within`: the calling function."""
    true = set(outer)
    for number, node in enumerate(nodes):
        constant = node.op_type == "Constant" and any(a.name == "value" and _is_true(a.t) for a in node.attribute)
        if constant or (node.op_type == "Identity" and node.input[0] in true):
            true.add(node.output[0])
        if (node.op_type == "Dropout" and len(node.input) > 2 and node.input[2] in true) or (
            node.op_type == "BatchNormalization" and any(a.name == "training_mode" and a.i for a in node.attribute)
        ):
            yield f"{within}{node.name or f'{node.op_type} {number}'}"
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                own = {tensor.name for tensor in inner.initializer if _is_true(tensor)}
                yield from _in_training(inner.node, true | own, functions, within)
        key = (node.domain, node.op_type)
        if called := functions.get(key):
            given = {name for name, value in zip(called.input, node.input, strict=False) if value in true}
            # In a broken file, a function may call itself.
            others = {name: function for name, function in functions.items() if name != key}
            yield from _in_training(called.node, given, others, f"{within}{node.name or node.op_type}/")


def _is_true(tensor: Any) -> bool:
    stored = tensor.data_type == onnx.TensorProto.BOOL and not is_external(tensor)
    return stored and bool(onnx.numpy_helper.to_array(tensor).all())


def _value(value: Any) -> GraphValue:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        dtype = str(kind or "undeclared").removesuffix("_type")
        return GraphValue(name=value.name, dtype=dtype, shape=None, element=_element(value.type))
    tensor = value.type.tensor_type
    shape = tuple(_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return GraphValue(name=value.name, dtype=_dtype(tensor.elem_type), shape=shape)


def _element(declared: Any) -> str:
    """The element dtype of a sequence, a map or an optional value, however deeply nested."""
    kind = declared.WhichOneof("value")
    if kind is None:
        return "undeclared"
    inner = getattr(declared, kind)
    if kind in ("tensor_type", "sparse_tensor_type"):
        return _dtype(inner.elem_type)
    return _element(inner.value_type if kind == "map_type" else inner.elem_type)


def _dtype(element: int) -> str:
    if element == onnx.TensorProto.STRING:
        return "string"
    try:
        return str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element)).name)
    except (KeyError, TypeError):
        return "undeclared"


def _dim(dim: Any) -> int | str | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) or None

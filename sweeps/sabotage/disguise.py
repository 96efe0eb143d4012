"""Changes files as tools do before people ship them: simplified, renamed or stripped."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import onnx
import onnxruntime
from onnx import inliner

DISGUISES = ("plain", "renamed", "stripped", "optimised", "optimised")
"""Changes to a shipped file: nothing; other names; no names and no metadata; also simplified by ONNX Runtime."""


def disguise(model: onnx.ModelProto, how: str) -> onnx.ModelProto:
    """The same file as after other tools; names of inputs and outputs stay, because they are the contract."""
    if how == "plain":
        return model
    if how == "optimised":
        model = simplify(model)
    model = inliner.inline_local_functions(model)
    _forget(model)
    _rename(model.graph, named=how == "renamed")
    onnx.checker.check_model(model)
    return model


def simplify(model: onnx.ModelProto) -> onnx.ModelProto:
    """The file after ONNX Runtime's basic optimisations: constants and BatchNorm are folded."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(Path(folder, "simple.onnx"))
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def _forget(model: onnx.ModelProto) -> None:
    """Remove everything that shows where the file came from."""
    del model.metadata_props[:]
    del model.graph.value_info[:]
    model.doc_string = model.graph.doc_string = ""
    model.producer_name, model.producer_version, model.graph.name = "", "", "graph"
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for tensor in model.graph.initializer:
        tensor.doc_string = ""


def _rename(graph: onnx.GraphProto, *, named: bool) -> None:
    """Rename weights to w0 …, values to t0 …, and nodes to n0 … or to nothing."""
    kept = {value.name for value in (*graph.input, *graph.output)} | {""}
    new = {tensor.name: f"w{number}" for number, tensor in enumerate(graph.initializer) if tensor.name not in kept}
    made = [name for node in graph.node for name in node.output if name not in kept]
    new |= {name: f"t{number}" for number, name in enumerate(made)}
    for tensor in graph.initializer:
        tensor.name = new.get(tensor.name, tensor.name)
    for number, node in enumerate(graph.node):
        node.name = f"n{number}" if named else ""
        _rename_values(node, new)


def _rename_values(node: onnx.NodeProto, new: Mapping[str, str]) -> None:
    for values in (node.input, node.output):
        for number, name in enumerate(values):
            values[number] = new.get(name, name)
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs) if attribute.type in (5, 10) else ():
            for each in inner.node:
                _rename_values(each, new)
            for value in inner.output:
                value.name = new.get(value.name, value.name)

"""A copy of the judged file in float64: the same nodes, with every float32 number as float64.

The answers of the file and of this copy differ only by the runtime's own rounding: a wrong weight is equally wrong in
both. Operators of ai.onnx.ml output float32 whatever their input is, so a Cast follows each of them; trees get float64
thresholds and leaves, and add these up in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, inliner, numpy_helper

from onnx_gate.records.asked import ProviderSpec
from onnx_gate.worker.noise.moved import to_neighbours
from onnx_gate.worker.onnx_files.files import LARGE, all_graphs, save, size_of
from onnx_gate.worker.onnx_files.precision.widened import widen
from onnx_gate.worker.runtime.options import session_options
from onnx_gate.worker.runtime.session import Session, open_session
from onnx_gate.worker.runtime.tensors import tensors_in

_FLOAT, _DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
_ML = "ai.onnx.ml"
_TREES_IN_DOUBLE = 3
"""The version of ai.onnx.ml from which trees take float64 numbers."""


class NotWidened(Exception):
    """Raised with the reason why there is no copy."""


def open_wide(
    path: Path, folder: Path, cpu: ProviderSpec, read_log: Callable[[], str], custom_ops: str | None
) -> Session:
    """A session of the copy, without optimisations; raises any error that prevents it."""
    copy = folder / "float64.onnx"
    try:
        save(_widened(onnx.load(path), copy, custom_ops), copy)
        return open_session(str(copy), cpu, read_log, optimize=False, custom_ops=custom_ops)
    finally:
        for file in folder.glob("float64.onnx*"):
            file.unlink()


def open_moved(
    path: Path, folder: Path, cpu: ProviderSpec, read_log: Callable[[], str], custom_ops: str | None
) -> Session:
    """A session of the file with every float32 weight moved to one of its neighbours; raises like `open_wide`."""
    model, copy, rng = onnx.load(path), folder / "moved.onnx", np.random.default_rng(0)
    if size_of(model) > LARGE // 2:
        raise NotWidened("its weights are too large for a copy")
    for tensor in tensors_in(model.graph):
        if tensor.data_type == _FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(to_neighbours(numpy_helper.to_array(tensor), rng), tensor.name))
    for node in (node for graph in all_graphs(model.graph) for node in graph.node if node.domain == _ML):
        for attribute in (attribute for attribute in node.attribute if attribute.floats):
            attribute.floats[:] = to_neighbours(np.array(attribute.floats, np.float32), rng).tolist()
    try:
        save(model, copy)
        return open_session(str(copy), cpu, read_log, optimize=False, custom_ops=custom_ops)
    finally:
        for file in folder.glob("moved.onnx*"):
            file.unlink()


def _widened(model: Any, beside: Path, custom_ops: str | None) -> Any:
    if len(list(all_graphs(model.graph))) > 1:
        raise NotWidened("it has sub-graphs (If, Loop, Scan)")
    if size_of(model) > LARGE // 4:
        raise NotWidened("its weights are too large for a copy in float64")
    model = inliner.inline_local_functions(model) if model.functions else model
    floats = _float_values(model, beside, custom_ops)
    widen(model)
    _cast_after_ml(model.graph, floats)
    for opset in model.opset_import:
        opset.version = max(opset.version, _TREES_IN_DOUBLE) if opset.domain == _ML else opset.version
    return model


def _float_values(model: Any, beside: Path, custom_ops: str | None) -> set[str]:
    """The names of all float32 values; the runtime infers their types."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    known = {value.name for value in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in known]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    onnx.save(shown, beside)
    options = session_options(optimize=False, custom_ops=custom_ops)
    session = ort.InferenceSession(str(beside), options, providers=["CPUExecutionProvider"])
    return {value.name for value in session.get_outputs() if value.type == "tensor(float)"}


def _cast_after_ml(graph: Any, floats: set[str]) -> None:
    nodes = []
    for node in list(graph.node):
        nodes.append(node)
        if node.domain != _ML:
            continue
        for number, name in enumerate(node.output):
            if name in floats:
                node.output[number] = f"{name}__narrow"
                nodes.append(helper.make_node("Cast", [f"{name}__narrow"], [name], name=f"{name}__cast", to=_DOUBLE))
    del graph.node[:]
    graph.node.extend(nodes)

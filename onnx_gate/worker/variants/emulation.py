"""Half precision on a CPU: a float32 copy of a float16 model in which every value is rounded to float16.

ONNX Runtime's CPU has few kernels for float16. It computes whole chains of nodes in float32, and rounds at most at
their ends: 1990.4 stays 1990.4, but half precision gives 1990. In the copy, a pair of casts follows each node.
Without optimisations the runtime keeps them. Sums inside a node stay float32, as on most GPUs.
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
from onnx_gate.worker.onnx_files.files import LARGE, all_graphs, save, size_of
from onnx_gate.worker.onnx_files.precision.lowered import DTYPES, EXACT
from onnx_gate.worker.runtime.options import session_options
from onnx_gate.worker.runtime.session import Session, open_session
from onnx_gate.worker.runtime.tensors import tensors_in
from onnx_gate.worker.user_code import describe

_FLOAT, _HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16


class NotEmulated(Exception):
    """The reason why no such copy is possible."""


def open_in_half(
    path: Path, folder: Path, provider: ProviderSpec, read_log: Callable[[], str], custom_ops: str | None
) -> Session:
    """A session on the CPU that computes like half precision; raises NotEmulated where that is not possible."""
    folder.mkdir(exist_ok=True)
    copy = folder / path.name
    try:
        save(_rounded(onnx.load(path), copy, custom_ops), copy)
        return open_session(str(copy), provider, read_log, optimize=False, custom_ops=custom_ops)
    except (NotEmulated, MemoryError):
        raise
    except Exception as error:
        text = describe(error).replace(str(copy), path.name)
        raise NotEmulated(f"a copy that rounds after each node can't be run: {text}") from error
    finally:
        copy.unlink(missing_ok=True)


def _rounded(model: Any, beside: Path, custom_ops: str | None) -> Any:
    if len(list(all_graphs(model.graph))) > 1:
        raise NotEmulated("it has sub-graphs (If, Loop, Scan), in which values can't be rounded")
    if size_of(model) > LARGE // 2:
        raise NotEmulated("its weights are too large for a copy in float32")
    model = inliner.inline_local_functions(model) if model.functions else model
    halves = _half_values(model, beside, custom_ops)
    for tensor in tensors_in(model.graph):
        if tensor.data_type == _HALF:
            wide = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    _Copy(model.graph, halves).make()
    return model


def _half_values(model: Any, beside: Path, custom_ops: str | None) -> set[str]:
    """The names of all float16 values, from the types that the runtime infers."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    known = {value.name for value in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in known]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    onnx.save(shown, beside)
    options = session_options(optimize=False, custom_ops=custom_ops)
    session = ort.InferenceSession(str(beside), options, providers=["CPUExecutionProvider"])
    return {value.name for value in session.get_outputs() if value.type == "tensor(float16)"}


class _Copy:
    """Rewrites a graph in place: float32 everywhere except at its ends, rounded where it was float16."""

    def __init__(self, graph: Any, halves: set[str]) -> None:
        self._graph = graph
        self._halves = halves
        self._ends = {value.name for value in graph.output} & halves
        self._renamed: dict[str, str] = {}
        self._nodes: list[Any] = []

    def make(self) -> None:
        self._widen_inputs()
        for node in list(self._graph.node):
            self._add(node)
        del self._graph.node[:]
        self._graph.node.extend(self._nodes)
        del self._graph.value_info[:]

    def _widen_inputs(self) -> None:
        stored = {tensor.name for tensor in self._graph.initializer}
        for value in self._graph.input:
            if value.type.tensor_type.elem_type != _HALF:
                continue
            if value.name in stored:
                value.type.tensor_type.elem_type = _FLOAT
            else:
                self._renamed[value.name] = f"{value.name}__wide"
                self._cast(value.name, f"{value.name}__wide", _FLOAT)

    def _add(self, node: Any) -> None:
        for attribute in node.attribute:
            if attribute.name in DTYPES and attribute.i == _HALF:
                attribute.i = _FLOAT
        node.input[:] = [self._renamed.get(name, name) for name in node.input]
        exact = node.op_type in EXACT and not node.domain
        rounded = [name for name in node.output if name in self._ends or (name in self._halves and not exact)]
        node.output[:] = [f"{name}__exact" if name in rounded else name for name in node.output]
        self._nodes.append(node)
        for name in rounded:
            self._round(name)

    def _round(self, name: str) -> None:
        """Round a value: float16 outputs of the model stay float16; inside, the rounded value continues as float32."""
        half, wide = (name, f"{name}__wide") if name in self._ends else (f"{name}__half", name)
        if name in self._ends:
            self._renamed[name] = wide
        self._cast(f"{name}__exact", half, _HALF)
        self._cast(half, wide, _FLOAT)

    def _cast(self, given: str, name: str, dtype: int) -> None:
        self._nodes.append(helper.make_node("Cast", [given], [name], name=f"{name}__cast", to=dtype))

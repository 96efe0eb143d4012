"""fp16: float16 weights and arithmetic, by onnxconverter-common.

The converter needs two things that many files don't have: a unique name for each node, a declared type for each value.
It also fails on casts to float32, and on outputs that other nodes read. All of this is corrected first.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import VariantSpec
from onnx_gate.records.found import Overflow
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.installing import install
from onnx_gate.worker.onnx_files.files import all_graphs, save, typed
from onnx_gate.worker.runtime.options import session_options

DONE = "in float16"
_FLOAT, _HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
_TYPES = {"tensor(float)": _FLOAT, "tensor(float16)": _HALF, "tensor(double)": onnx.TensorProto.DOUBLE}
_GLUE = ("Cast", "Constant", "Identity")
_LARGEST = float(np.finfo(np.float16).max)
"""65,504. The converter cuts at 10,000 unless it gets this number. Its warning about a cut weight contains this number;
it also warns about tiny weights, which don't matter."""
_SMALLEST = float(np.finfo(np.float16).smallest_subnormal)
"""6e-8: numbers nearer to 0 become this one, so that an epsilon never becomes 0. The converter's default is 1e-7."""


def make(variant: VariantSpec, base: Path, target: Path, feeds: Callable[[], Iterator[dict[str, Any]]]) -> list[str]:
    """Write the float16 model; return notes."""
    try:
        from onnxconverter_common import float16
    except ImportError as error:
        raise CannotJudge(
            Cause.CONVERSION_FAILED, "onnxconverter-common is not installed", fix=install("variants")
        ) from error
    model = typed(base)
    for graph in all_graphs(model.graph):
        _name_nodes(graph)
    _declare_values(model, base)
    _free_outputs(model.graph)
    excluded = {*float16.DEFAULT_OP_BLOCK_LIST, *variant.options.get("exclude_ops", ())}
    nodes = {*variant.options.get("exclude_nodes", ()), *_casts_to_float(model.graph)}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = float16.convert_float_to_float16(
            model,
            min_positive_val=_SMALLEST,
            max_finite_val=_LARGEST,
            keep_io_types=variant.options.get("keep_io", True),
            disable_shape_infer=True,
            op_block_list=list(excluded),
            node_block_list=list(nodes),
        )
    save(model, target)
    cut = [str(warning.message) for warning in told if str(_LARGEST) in str(warning.message)]
    return [f"weights too large for float16 were cut: {'; '.join(dict.fromkeys(cut[:3]))}"] if cut else []


def takes(variant: VariantSpec) -> list[str]:
    """Empty: all operators, except the converter's own list."""
    return []


def look(graph: Any) -> tuple[Counter[str], Counter[str]]:
    """The operators that read float16, and those that don't."""
    half = {value.name for value in (*graph.value_info, *graph.input) if value.type.tensor_type.elem_type == _HALF}
    half |= {tensor.name for tensor in graph.initializer if tensor.data_type == _HALF}
    half |= {node.output[0] for node in graph.node if node.op_type == "Cast" and _to(node) == _HALF}
    lowered: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for node in graph.node:
        if node.op_type not in _GLUE:
            (lowered if half & set(node.input) else kept)[node.op_type] += 1
    return lowered, kept


def _to(node: Any) -> int:
    return next((int(given.i) for given in node.attribute if given.name == "to"), 0)


def _casts_to_float(graph: Any) -> set[str]:
    """Casts to float32: the converter would declare their output as float16 and leave the cast unchanged."""
    nodes = (node for part in all_graphs(graph) for node in part.node)
    return {node.name for node in nodes if node.op_type == "Cast" and _to(node) == _FLOAT}


def _name_nodes(graph: Any) -> None:
    """Give each node a unique name: the converter derives the names of its casts from them."""
    taken: set[str] = set()
    for number, node in enumerate(graph.node):
        name = node.name or f"{node.op_type}_{number}"
        while name in taken:
            name = f"{name}_{number}"
        taken.add(name)
        node.name = name


def _declare_values(model: Any, base: Path) -> None:
    """Declare types that shape inference doesn't know (those of ai.onnx.ml), as ONNX Runtime infers them."""
    graph = model.graph
    known = {value.name for value in (*graph.value_info, *graph.input, *graph.output)}
    unknown = [name for node in graph.node for name in node.output if name and name not in known]
    if not unknown:
        return
    shown = onnx.load(base, load_external_data=False)
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in unknown)
    beside = base.with_name(f"{base.stem}-typed.onnx")
    onnx.save(shown, beside)
    try:
        session = ort.InferenceSession(str(beside), session_options(optimize=False), providers=["CPUExecutionProvider"])
    except Exception:
        # It may be a custom operator: an unknown type will show when the variant is loaded.
        return
    finally:
        beside.unlink()
    found = {value.name: _TYPES[value.type] for value in session.get_outputs() if value.type in _TYPES}
    graph.value_info.extend(
        onnx.helper.make_tensor_value_info(name, found[name], None) for name in unknown if name in found
    )


def _free_outputs(graph: Any) -> None:
    """Copy outputs that other nodes also read: the output is cast back to float32, and the nodes need float16."""
    outputs = {value.name: value for value in graph.output if value.type.tensor_type.elem_type == _FLOAT}
    read = {name for node in graph.node for name in node.input}
    for name in outputs.keys() & read:
        inner = f"{name}_inner"
        for node in graph.node:
            node.input[:] = [inner if given == name else given for given in node.input]
            node.output[:] = [inner if given == name else given for given in node.output]
        graph.value_info.append(onnx.helper.make_tensor_value_info(inner, _FLOAT, None))
        graph.node.append(onnx.helper.make_node("Identity", [inner], [name], name=f"{name}_copy"))


def first_overflow(base: Path, path: Path, feed: dict[str, Any], half_feed: dict[str, Any]) -> Overflow | None:
    """The first node whose float16 value is beyond 65,504 while its float32 value is finite, if any.

    Every value is made an output: otherwise the CPU computes whole chains in float32, and a GPU's overflows don't show.
    """
    values, wide = _inner_values(path, half_feed), _inner_values(base, feed)
    for node in onnx.load(path, load_external_data=False).graph.node:
        for name in node.output:
            finite_before = all(_finite(values[given]) for given in node.input if given in values)
            if name in values and finite_before and not _finite(values[name]) and _finite(wide.get(name)):
                return Overflow(node=node.name, op=node.op_type)
    return None


def _inner_values(path: Path, feed: dict[str, Any]) -> dict[str, Any]:
    model = onnx.load(path, load_external_data=False)
    known = {value.name for value in model.graph.output}
    values = [name for node in model.graph.node for name in node.output if name and name not in known]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in values)
    shown = path.with_name(f"{path.stem}-shown.onnx")
    onnx.save(model, shown)
    try:
        session = ort.InferenceSession(str(shown), session_options(optimize=False), providers=["CPUExecutionProvider"])
        return dict(zip((value.name for value in session.get_outputs()), session.run(None, feed), strict=True))
    finally:
        shown.unlink()


def _finite(value: Any) -> bool:
    """Whether a value is finite; also True for values that are not floats or not known."""
    dtype = getattr(value, "dtype", None)
    return dtype is None or dtype.kind != "f" or bool(np.isfinite(value).all())

"""Sizes that an .onnx compares with a number: what it does on one side of it says nothing of the other."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import onnx

from onnx_gate.records.found import SizeBranch
from onnx_gate.worker.runtime.tensors import is_external

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Equal": operator.eq,
}
_SIGNS = {"Greater": ">", "GreaterOrEqual": ">=", "Less": "<", "LessOrEqual": "<=", "Equal": "=="}
_TURNED = {"Greater": "Less", "Less": "Greater", "GreaterOrEqual": "LessOrEqual", "LessOrEqual": "GreaterOrEqual"}
_SAME = ("Squeeze", "Unsqueeze", "Cast", "Identity", "Reshape")
"""Operators after which a size is the same number."""
_WHOLE = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
Place = tuple[str, int]
"""An input and one of its dimensions."""


def size_branches(model: Any) -> tuple[SizeBranch, ...]:
    """Every comparison of a size of an input with a constant, in the order of the nodes."""
    inputs = {value.name for value in model.graph.input}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    shapes: dict[str, Place] = {}
    sizes: dict[str, Place] = {}
    found = []
    for node in model.graph.node:
        first, second = (*node.input, "", "")[:2]
        if not node.output:
            continue
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name in ("value", "value_int"):
            constants[node.output[0]] = node.attribute[0]
        elif node.op_type == "Shape" and first in inputs:
            ends = {attribute.name: attribute.i for attribute in node.attribute}
            start = ends.get("start", 0)
            shapes[node.output[0]] = first, start
            if start >= 0 and ends.get("end") == start + 1:
                sizes[node.output[0]] = first, start
        elif node.op_type == "Gather" and first in shapes:
            if (place := _whole(constants.get(second))) is not None and place >= 0:
                name, start = shapes[first]
                sizes[node.output[0]] = name, start + place
        elif node.op_type in _SAME and first in sizes:
            sizes[node.output[0]] = sizes[first]
        elif node.op_type in COMPARISONS:
            found += _comparison(node.op_type, first, second, sizes, constants)
    return tuple(found)


def _comparison(
    op: str, left: str, right: str, sizes: Mapping[str, Place], constants: Mapping[str, Any]
) -> list[SizeBranch]:
    turned = left not in sizes
    place, number = sizes.get(right if turned else left), _whole(constants.get(left if turned else right))
    if place is None or number is None:
        return []
    return [SizeBranch(input=place[0], axis=place[1], op=_TURNED.get(op, op) if turned else op, number=number)]


def untried_branches(
    branches: tuple[SizeBranch, ...], shapes: Mapping[str, tuple[int | str, ...]], run: Mapping[str, set[int]]
) -> list[str]:
    """Warnings of comparisons that came out the same at every size that was run."""
    warnings = []
    for branch in dict.fromkeys(branches):
        shape = shapes.get(branch.input, ())
        dim = shape[branch.axis] if branch.axis < len(shape) else 0
        tried = run.get(dim, set()) if isinstance(dim, str) else set()
        compare = COMPARISONS[branch.op]
        other = [size for size in (branch.number - 1, branch.number, branch.number + 1) if size > 0]
        seen = {compare(size, branch.number) for size in tried}
        missing = next((size for size in other if {compare(size, branch.number)} - seen), None)
        if tried and missing is not None and len(seen) == 1:
            warnings.append(_tell(branch, str(dim), sorted(tried), missing))
    return warnings


def _tell(branch: SizeBranch, dim: str, tried: list[int], missing: int) -> str:
    listed = ", ".join(map(str, sorted({*tried, missing})))
    line = f"batches: [{listed}]" if dim == "batch" else f"dims: {{{dim}: [{listed}]}}"
    return (
        f"the .onnx asks whether {dim} {_SIGNS[branch.op]} {branch.number}, and all sizes that were run "
        f"({', '.join(map(str, tried))}) lie on one side: what it does on the other was not compared. Add `{line}`"
    )


def _whole(stored: Any) -> int | None:
    """A constant of one whole number."""
    if isinstance(stored, onnx.AttributeProto):
        if stored.name == "value_int":
            return int(stored.i)
        stored = stored.t
    if stored is None or is_external(stored) or stored.data_type not in _WHOLE or math.prod(stored.dims) != 1:
        return None
    try:
        return int(onnx.numpy_helper.to_array(stored).reshape(-1)[0])
    except (ValueError, IndexError):
        # A broken tensor, which the runtime refuses.
        return None

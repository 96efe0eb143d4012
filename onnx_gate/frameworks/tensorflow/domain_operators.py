"""Rules per TensorFlow operator: the facts that it shows about the inputs that reach it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnx_gate.frameworks.tensorflow.domain_trails import (
    COMPARISONS,
    LOGIC,
    PRODUCTS,
    SAME,
    SUMS,
    VIEWS,
    Walked,
    normaliser,
    operands,
)
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.inputs.trails.clues import FAR
from onnx_gate.worker.inputs.trails.trail import Array

_TURNS = {"Relu": (0.0,), "LeakyRelu": (0.0,), "Elu": (0.0,), "Abs": (0.0,), "Sign": (0.0,), "Relu6": (0.0, 6.0)}
_ROUNDED = frozenset({"Floor", "Ceil", "Round", "Rint"})
_DIVIDED = frozenset({"FloorMod", "Mod", "TruncateMod", "FloorDiv", "TruncateDiv"})
_HANDLED = frozenset(VIEWS) | SAME | frozenset({"Cast", "Shape", "ConcatV2", "Pack", "Neg", "LogicalNot"}) | LOGIC


def note(walk: Walked, op: Any) -> None:
    """Record the facts about the inputs that follow from the operator."""
    if rule := _NOTES.get(op.type):
        rule(walk, op)
    elif op.type not in _HANDLED:
        for tensor in op.inputs:
            if (trail := walk.trail(tensor)) is not None:
                walk.clues.used(trail)


def _table(walk: Walked, op: Any) -> None:
    """Rows of a constant that an input selects, or positions."""
    params, indices, axis = op.inputs
    if walk.is_tainted(params):
        return
    rows = int(params.shape[int(walk.values[axis.name])])
    if (trail := walk.trail(indices)) is not None:
        walk.clues.rows(trail, rows)
    elif (found := walk.constant(indices)) is not None and found.ndim and found.shape[-1] > 1:
        row = found.reshape(-1, found.shape[-1])[0]
        if np.array_equal(row, row[0] + np.arange(row.size)):
            walk.clues.positions(row.size, rows - int(row[0]))


def _one_hot(walk: Walked, op: Any) -> None:
    depth = _size(walk, op.inputs[1])
    if (trail := walk.trail(op.inputs[0])) is not None and depth is not None:
        walk.clues.rows(trail, int(depth))


def _size(walk: Walked, tensor: Any) -> Array | None:
    """A number of classes, also where it is only an upper limit."""
    if tensor.op.type == "Minimum":
        return next((found for one in tensor.op.inputs if (found := walk.constant(one)) is not None), None)
    return walk.constant(tensor)


def _slice(walk: Walked, op: Any) -> None:
    """The first rows of a table, as many as a dimension has."""
    if walk.is_tainted(op.inputs[0]) or op.inputs[0].shape.rank is None:
        return
    shape = op.inputs[0].shape.as_list()
    ends = walk.values[op.inputs[2].name]
    hidden = int(op.get_attr("end_mask")) | int(op.get_attr("shrink_axis_mask")) | int(op.get_attr("ellipsis_mask"))
    for axis, end in enumerate(ends):
        if not hidden >> axis & 1 and shape[axis] is not None and 1 < end <= shape[axis]:
            walk.clues.positions(int(end), int(shape[axis]))


def _compare(walk: Walked, op: Any) -> None:
    if op.inputs[0].name == op.inputs[1].name and (same := walk.trail(op.inputs[0])) is not None:
        walk.clues.missing(same)
    trail, constant = operands(walk, op)
    if trail is None or constant is None:
        return
    if op.type in ("Equal", "NotEqual"):
        walk.clues.equal(trail, constant)
    else:
        walk.clues.cut(trail, constant)


def _clip(walk: Walked, op: Any) -> None:
    trail = walk.trail(op.inputs[0])
    if trail is None:
        trail = walk.trail(op.inputs[1])
    for tensor in op.inputs:
        constant = walk.constant(tensor)
        if trail is not None and constant is not None:
            walk.clues.cut(trail, constant, Origin.RANGES)


def _turn(walk: Walked, op: Any) -> None:
    if (trail := walk.trail(op.inputs[0])) is not None:
        for at in _TURNS[op.type]:
            walk.clues.cut(trail, np.array(at), Origin.RANGES)


def _buckets(walk: Walked, op: Any) -> None:
    if (trail := walk.trail(op.inputs[0])) is not None:
        for edge in op.get_attr("boundaries")[:256]:
            walk.clues.cut(trail, np.array(float(edge)), Origin.RANGES)


def _normalise(walk: Walked, op: Any) -> None:
    if (found := normaliser(walk, op)) is not None:
        trail, (_, _, mean, variance) = found
        walk.clues.statistics(trail, mean, np.sqrt(variance))


def _round(walk: Walked, op: Any) -> None:
    if (trail := walk.trail(op.inputs[0])) is not None:
        walk.clues.rounded(trail)


def _divide(walk: Walked, op: Any) -> None:
    trail, divisor = walk.trail(op.inputs[0]), walk.constant(op.inputs[1])
    if trail is not None and divisor is not None and divisor.size == 1:
        walk.clues.remainder(trail, float(divisor.reshape(-1)[0]))


def _missing(walk: Walked, op: Any) -> None:
    if (trail := walk.trail(op.inputs[0])) is not None:
        walk.clues.missing(trail)


def _cast(walk: Walked, op: Any) -> None:
    trail, dtype = walk.trail(op.inputs[0]), op.get_attr("DstT")
    if trail is None or not dtype.is_integer:
        return
    if op.inputs[0].dtype.is_floating:
        walk.clues.rounded(trail)
    elif dtype.size < op.inputs[0].dtype.size:
        walk.clues.mark(trail, (dtype.max, dtype.max + 6, -dtype.max - 7))


def _choose(walk: Walked, op: Any) -> None:
    condition, one, other = op.inputs
    trail = walk.trail(condition)
    if trail is None or not trail.truth:
        return
    for kept, left, value in ((one, other, 0.0), (other, one, 1.0)):
        constant = walk.constant(left)
        if walk.is_tainted(kept) and constant is not None:
            walk.clues.left_out(trail, value, strong=bool(np.all(constant <= -FAR)))


def _combine(walk: Walked, op: Any) -> None:
    """Arithmetic of a value with a trail and another value that depends on an input."""
    one, other = op.inputs[:2]
    for value, with_ in ((one, other), (other, one)):
        trail = walk.trail(value)
        if trail is None or not walk.is_tainted(with_):
            continue
        if op.type != "Mul" or not ((trail.truth or _narrower(value, with_)) and walk.clues.left_out(trail, 0.0)):
            walk.clues.used(trail)


def _narrower(value: Any, with_: Any) -> bool:
    """Whether one number of `value` applies to a whole vector of `with_`."""
    sizes = [(shape.as_list()[::-1] if shape.rank is not None else []) for shape in (value.shape, with_.shape)]
    return any(one == 1 and other != 1 for one, other in zip(*sizes, strict=False))


_NOTES: dict[str, Callable[[Walked, Any], None]] = {
    "GatherV2": _table,
    "OneHot": _one_hot,
    "DenseBincount": _one_hot,
    "Bincount": _one_hot,
    "StridedSlice": _slice,
    **dict.fromkeys(COMPARISONS, _compare),
    **dict.fromkeys(("ClipByValue", "Minimum", "Maximum"), _clip),
    **dict.fromkeys(_TURNS, _turn),
    "Bucketize": _buckets,
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _normalise),
    **dict.fromkeys(_ROUNDED, _round),
    **dict.fromkeys(_DIVIDED, _divide),
    **dict.fromkeys(("IsNan", "IsFinite"), _missing),
    "Cast": _cast,
    **dict.fromkeys(("Select", "SelectV2"), _choose),
    **dict.fromkeys((*SUMS, *PRODUCTS), _combine),
}

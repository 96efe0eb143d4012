"""Rules per TensorFlow operator: the trail of its results."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from onnx_gate.worker.inputs.trails.clues import Clues
from onnx_gate.worker.inputs.trails.trail import FAR_BELOW, Array, Trail, joined

VIEWS = {
    **dict.fromkeys(
        ("Reshape", "Transpose", "ExpandDims", "Squeeze", "StridedSlice", "Slice", "BroadcastTo", "Tile", "ReverseV2"),
        0,
    ),
    **dict.fromkeys(("GatherV2", "SplitV", "Unpack", "SpaceToDepth", "DepthToSpace", "MirrorPad", "GatherNd"), 0),
    "Split": 1,
}
"""Operators that move values and never change them → the position of the input that they move."""
SAME = frozenset({"Identity", "StopGradient", "PreventGradient", "Snapshot", "EnsureShape", "CheckNumerics"})
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
}
SUMS = {"Add": 1.0, "AddV2": 1.0, "BiasAdd": 1.0, "Sub": -1.0}
PRODUCTS = frozenset({"Mul", "RealDiv", "Div", "DivNoNan", "MulNoNan"})
LOGIC = frozenset({"LogicalAnd", "LogicalOr"})
_KEPT = frozenset({"ClipByValue", "Minimum", "Maximum", "Relu", "Relu6", "Floor", "Ceil", "Round", "Rint"})
_TOTALS = {"Sum": "sum", "Mean": "mean", "Max": "max", "Min": "min"}


class Walked(Protocol):
    """A graph with the facts that are known about its tensors."""

    clues: Clues
    values: dict[str, Array]

    def trail(self, tensor: Any) -> Trail | None:
        """The trail from an input to a tensor, where it is known."""

    def is_tainted(self, tensor: Any) -> bool:
        """Whether a tensor depends on an input in any way."""

    def constant(self, tensor: Any) -> Array | None:
        """The value of a tensor that depends on no input."""


def follow(walk: Walked, op: Any) -> list[Trail | None]:
    """The trails of the results."""
    if op.type in VIEWS:
        return _moved(walk, op)
    if op.type in SAME:
        return [walk.trail(op.inputs[0])]
    rule = _TRAILS.get(op.type)
    return [None if rule is None else rule(walk, op)]


def operands(walk: Walked, op: Any) -> tuple[Trail | None, Array | None]:
    """Of two operands, the one with a trail and the one that is constant."""
    one, other = op.inputs[:2]
    if (trail := walk.trail(one)) is not None:
        return trail, walk.constant(other)
    return walk.trail(other), walk.constant(one)


def normaliser(walk: Walked, op: Any) -> tuple[Trail, list[Array]] | None:
    """Factor, bias, mean and variance of a normalisation, shaped for the channel's axis."""
    trail = walk.trail(op.inputs[0])
    parts = [walk.constant(tensor) for tensor in op.inputs[1:5]]
    if trail is None or op.get_attr("is_training") or any(part is None for part in parts):
        return None
    first = op.get_attr("data_format") == b"NCHW"
    shape = (1, -1, *(1,) * (trail.ids.ndim - 2)) if first else (-1,)
    return trail, [np.asarray(part).reshape(shape) for part in parts]


def _moved(walk: Walked, op: Any) -> list[Trail | None]:
    place = VIEWS[op.type]
    trail = walk.trail(op.inputs[place])
    if trail is None or any(walk.is_tainted(each) for n, each in enumerate(op.inputs) if n != place):
        return [None] * len(op.outputs)
    ids = _applied(walk, op, place, trail.ids)
    parts = [
        _applied(walk, op, place, part) if part.ndim else [part] * len(ids)
        for part in (trail.scale, trail.offset, trail.reach)
    ]
    return [
        replace(trail, ids=one, scale=scale, offset=offset, reach=reach)
        for one, scale, offset, reach in zip(ids, *parts, strict=True)
    ]


def _applied(walk: Walked, op: Any, place: int, array: Array) -> list[Array]:
    """The results of the operator for another array."""
    names = [argument.name for argument in op.op_def.input_arg]
    given = {
        name: tf.constant(np.array(array)) if number == place else tf.constant(walk.values[op.inputs[number].name])
        for number, name in enumerate(names)
    }
    settings = {one.name: op.get_attr(one.name) for one in op.op_def.attr if one.type != "type"}
    function = getattr(tf.raw_ops, op.type)
    known = inspect.signature(function).parameters
    # Some axis arguments have another name in Python than in the graph.
    result = function(**{name if name in known else "axis": value for name, value in (given | settings).items()})
    return [each.numpy() for each in (result if isinstance(result, list | tuple) else [result])]


def _same(walk: Walked, op: Any) -> Trail | None:
    """The trail of the first input that has one: some values stay unchanged."""
    found = [trail for tensor in op.inputs if (trail := walk.trail(tensor)) is not None]
    return found[0] if found else None


def _plus(walk: Walked, op: Any) -> Trail | None:
    trail, constant = operands(walk, op)
    if trail is None or constant is None:
        return None
    constant = np.maximum(constant, FAR_BELOW)
    if walk.trail(op.inputs[0]) is not None:
        return trail.plus(SUMS[op.type] * constant)
    return trail.times(np.array(SUMS[op.type])).plus(constant)


def _times(walk: Walked, op: Any) -> Trail | None:
    trail, constant = operands(walk, op)
    if trail is None or constant is None:
        return None
    if "Div" in op.type:
        if walk.trail(op.inputs[0]) is None or not np.all(constant):
            return None
        constant = 1 / constant
    found = trail.times(np.maximum(constant, FAR_BELOW))
    walk.clues.scaled(found)
    return found


def _floor(walk: Walked, op: Any) -> Trail | None:
    trail, divisor = walk.trail(op.inputs[0]), walk.constant(op.inputs[1])
    return None if trail is None or divisor is None or not np.all(divisor) else trail.times(1 / divisor)


def _negate(walk: Walked, op: Any) -> Trail | None:
    trail = walk.trail(op.inputs[0])
    return None if trail is None else trail.times(np.array(-1.0))


def _inverse(walk: Walked, op: Any) -> Trail | None:
    trail = walk.trail(op.inputs[0])
    return None if trail is None else trail.times(np.array(-1.0)).plus(np.array(1.0))


def _both(walk: Walked, op: Any) -> Trail | None:
    trail = _same(walk, op)
    other = next((found for tensor in op.inputs if (found := walk.values.get(tensor.name)) is not None), np.array(0))
    if trail is None or not trail.truth:
        return None
    shape = np.broadcast_shapes(trail.ids.shape, other.shape)
    return trail.moved(lambda array: np.broadcast_to(array, shape))


def _truth(walk: Walked, op: Any) -> Trail | None:
    """The trail of a comparison, from its results for 0 and 1."""
    trail, constant = operands(walk, op)
    if trail is None or constant is None or trail.whole:
        return None
    holds = COMPARISONS[op.type]
    first = walk.trail(op.inputs[0]) is not None
    off, on = (holds(trail.at(x), constant) if first else holds(constant, trail.at(x)) for x in (0.0, 1.0))
    return trail.between(off, on, "equal" if op.type in ("Equal", "NotEqual") else "ordered")


def _copied(walk: Walked, op: Any) -> Trail | None:
    trail = walk.trail(op.inputs[0])
    if trail is None or trail.truth or op.get_attr("DstT") != tf.bool:
        return trail
    return trail.between(trail.at(0.0) != 0, trail.at(1.0) != 0, "equal")


def _chosen(walk: Walked, op: Any) -> Trail | None:
    condition, one, other = op.inputs
    trail, yes, no = walk.trail(condition), walk.constant(one), walk.constant(other)
    if trail is not None and trail.truth and yes is not None and no is not None:
        off, on = (np.where(trail.at(x) == 1, yes, no) for x in (0.0, 1.0))
        return trail.between(np.maximum(off, FAR_BELOW), np.maximum(on, FAR_BELOW), "equal")
    both = [found for tensor in (one, other) if (found := walk.trail(tensor)) is not None]
    return next((found for found in both if found.plain), both[0] if both else None)


def _normalised(walk: Walked, op: Any) -> Trail | None:
    if (found := normaliser(walk, op)) is None:
        return None
    trail, (factor, bias, mean, variance) = found
    line = trail.plus(-mean).times(factor / np.sqrt(variance + op.get_attr("epsilon"))).plus(bias)
    return replace(line, learned=True)


def _joined(walk: Walked, op: Any) -> Trail | None:
    tensors = op.inputs if op.type == "Pack" else op.inputs[:-1]
    axis = op.get_attr("axis") if op.type == "Pack" else int(walk.values[op.inputs[-1].name])
    parts = [trail if (trail := walk.trail(tensor)) is not None else walk.constant(tensor) for tensor in tensors]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return joined(known, lambda arrays: (np.stack if op.type == "Pack" else np.concatenate)(arrays, axis=axis))


def _total(walk: Walked, op: Any) -> Trail | None:
    trail = walk.trail(op.inputs[0])
    axes = tuple(np.ravel(walk.values[op.inputs[1].name]).tolist())
    return None if trail is None else trail.total(_TOTALS[op.type], axes, keep=op.get_attr("keep_dims"))


_TRAILS: dict[str, Callable[[Walked, Any], Trail | None]] = {
    **dict.fromkeys(_KEPT, _same),
    **dict.fromkeys(SUMS, _plus),
    **dict.fromkeys(PRODUCTS, _times),
    **dict.fromkeys(("FloorDiv", "TruncateDiv"), _floor),
    "Neg": _negate,
    "LogicalNot": _inverse,
    **dict.fromkeys(LOGIC, _both),
    **dict.fromkeys(COMPARISONS, _truth),
    "Cast": _copied,
    **dict.fromkeys(("Select", "SelectV2"), _chosen),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _normalised),
    **dict.fromkeys(("ConcatV2", "Pack"), _joined),
    **dict.fromkeys(_TOTALS, _total),
}

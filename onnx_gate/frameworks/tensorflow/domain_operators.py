"""What each operator of TensorFlow says about the inputs that reach it, and what it makes of a trail."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from onnx_gate.vocabulary import Origin
from onnx_gate.worker.inputs.trails.clues import FAR, Clues
from onnx_gate.worker.inputs.trails.trail import FAR_BELOW, Array, Trail, joined

_VIEWS = {
    **dict.fromkeys(
        ("Reshape", "Transpose", "ExpandDims", "Squeeze", "StridedSlice", "Slice", "BroadcastTo", "Tile", "ReverseV2"),
        0,
    ),
    **dict.fromkeys(("GatherV2", "SplitV", "Unpack", "SpaceToDepth", "DepthToSpace", "MirrorPad", "GatherNd"), 0),
    "Split": 1,
}
"""They change the places of values, never the values → which of their inputs that is."""
_SAME = frozenset({"Identity", "StopGradient", "PreventGradient", "Snapshot", "EnsureShape", "CheckNumerics"})
_KEPT = frozenset({"ClipByValue", "Minimum", "Maximum", "Relu", "Relu6", "Floor", "Ceil", "Round", "Rint"})
_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
}
_TURNS = {"Relu": (0.0,), "LeakyRelu": (0.0,), "Elu": (0.0,), "Abs": (0.0,), "Sign": (0.0,), "Relu6": (0.0, 6.0)}
_SUMS = {"Add": 1.0, "AddV2": 1.0, "BiasAdd": 1.0, "Sub": -1.0}
_PRODUCTS = frozenset({"Mul", "RealDiv", "Div", "DivNoNan", "MulNoNan"})
_TOTALS = {"Sum": "sum", "Mean": "mean", "Max": "max", "Min": "min"}
_ROUNDED = frozenset({"Floor", "Ceil", "Round", "Rint"})
_DIVIDED = frozenset({"FloorMod", "Mod", "TruncateMod", "FloorDiv", "TruncateDiv"})
_LOGIC = frozenset({"LogicalAnd", "LogicalOr"})
_HANDLED = frozenset(_VIEWS) | _SAME | frozenset({"Cast", "Shape", "ConcatV2", "Pack", "Neg", "LogicalNot"}) | _LOGIC


class Walked(Protocol):
    """A graph with what is known of its tensors."""

    clues: Clues
    values: dict[str, Array]

    def trail(self, tensor: Any) -> Trail | None:
        """How a tensor came from an input, where it can be followed."""

    def is_tainted(self, tensor: Any) -> bool:
        """Whether a tensor comes from an input in any way."""

    def constant(self, tensor: Any) -> Array | None:
        """A tensor that depends on no input."""


def note(walk: Walked, op: Any) -> None:
    """Tell what follows from the operator for the inputs."""
    if rule := _NOTES.get(op.type):
        rule(walk, op)
    elif op.type not in _HANDLED:
        for tensor in op.inputs:
            if (trail := walk.trail(tensor)) is not None:
                walk.clues.used(trail)


def follow(walk: Walked, op: Any) -> list[Trail | None]:
    """The trails of the results."""
    if op.type in _VIEWS:
        return _moved(walk, op)
    if op.type in _SAME:
        return [walk.trail(op.inputs[0])]
    rule = _TRAILS.get(op.type)
    return [None if rule is None else rule(walk, op)]


def _pair(walk: Walked, op: Any) -> tuple[Trail | None, Array | None]:
    """Of two operands, what is followed and what is constant."""
    one, other = op.inputs[:2]
    if (trail := walk.trail(one)) is not None:
        return trail, walk.constant(other)
    return walk.trail(other), walk.constant(one)


def _table(walk: Walked, op: Any) -> None:
    """Rows of a constant that are selected by an input, or by positions."""
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
    """A number of classes, also where it is the most that there may be."""
    if tensor.op.type == "Minimum":
        return next((found for one in tensor.op.inputs if (found := walk.constant(one)) is not None), None)
    return walk.constant(tensor)


def _slice(walk: Walked, op: Any) -> None:
    """The first part of a table, as long as a dimension."""
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
    trail, constant = _pair(walk, op)
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


def _normaliser(walk: Walked, op: Any) -> tuple[Trail, list[Array]] | None:
    """Factor, bias, mean and variance of a normalisation, shaped for the channel's axis."""
    trail = walk.trail(op.inputs[0])
    parts = [walk.constant(tensor) for tensor in op.inputs[1:5]]
    if trail is None or op.get_attr("is_training") or any(part is None for part in parts):
        return None
    first = op.get_attr("data_format") == b"NCHW"
    shape = (1, -1, *(1,) * (trail.ids.ndim - 2)) if first else (-1,)
    return trail, [np.asarray(part).reshape(shape) for part in parts]


def _normalise(walk: Walked, op: Any) -> None:
    if (found := _normaliser(walk, op)) is not None:
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
    """Arithmetic of what is followed with what isn't, or of two that are."""
    one, other = op.inputs[:2]
    for value, with_ in ((one, other), (other, one)):
        trail = walk.trail(value)
        if trail is None or not walk.is_tainted(with_):
            continue
        if op.type != "Mul" or not ((trail.truth or _narrower(value, with_)) and walk.clues.left_out(trail, 0.0)):
            walk.clues.used(trail)


def _narrower(value: Any, with_: Any) -> bool:
    """Whether there is one number for all of a vector."""
    sizes = [(shape.as_list()[::-1] if shape.rank is not None else []) for shape in (value.shape, with_.shape)]
    return any(one == 1 and other != 1 for one, other in zip(*sizes, strict=False))


_NOTES: dict[str, Callable[[Walked, Any], None]] = {
    "GatherV2": _table,
    "OneHot": _one_hot,
    "DenseBincount": _one_hot,
    "Bincount": _one_hot,
    "StridedSlice": _slice,
    **dict.fromkeys(_COMPARISONS, _compare),
    **dict.fromkeys(("ClipByValue", "Minimum", "Maximum"), _clip),
    **dict.fromkeys(_TURNS, _turn),
    "Bucketize": _buckets,
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _normalise),
    **dict.fromkeys(_ROUNDED, _round),
    **dict.fromkeys(_DIVIDED, _divide),
    **dict.fromkeys(("IsNan", "IsFinite"), _missing),
    "Cast": _cast,
    **dict.fromkeys(("Select", "SelectV2"), _choose),
    **dict.fromkeys((*_SUMS, *_PRODUCTS), _combine),
}


def _moved(walk: Walked, op: Any) -> list[Trail | None]:
    place = _VIEWS[op.type]
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
    """The operator on other values."""
    names = [argument.name for argument in op.op_def.input_arg]
    given = {
        name: tf.constant(np.array(array)) if number == place else tf.constant(walk.values[op.inputs[number].name])
        for number, name in enumerate(names)
    }
    settings = {one.name: op.get_attr(one.name) for one in op.op_def.attr if one.type != "type"}
    function = getattr(tf.raw_ops, op.type)
    known = inspect.signature(function).parameters
    # In Python, axes have another name than in the graph.
    result = function(**{name if name in known else "axis": value for name, value in (given | settings).items()})
    return [each.numpy() for each in (result if isinstance(result, list | tuple) else [result])]


def _same(walk: Walked, op: Any) -> Trail | None:
    """Some values are as they were."""
    found = [trail for tensor in op.inputs if (trail := walk.trail(tensor)) is not None]
    return found[0] if found else None


def _plus(walk: Walked, op: Any) -> Trail | None:
    trail, constant = _pair(walk, op)
    if trail is None or constant is None:
        return None
    constant = np.maximum(constant, FAR_BELOW)
    if walk.trail(op.inputs[0]) is not None:
        return trail.plus(_SUMS[op.type] * constant)
    return trail.times(np.array(_SUMS[op.type])).plus(constant)


def _times(walk: Walked, op: Any) -> Trail | None:
    trail, constant = _pair(walk, op)
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
    """A comparison, by what it says of 0 and 1."""
    trail, constant = _pair(walk, op)
    if trail is None or constant is None or trail.whole:
        return None
    holds = _COMPARISONS[op.type]
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
    if (found := _normaliser(walk, op)) is None:
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
    **dict.fromkeys(_SUMS, _plus),
    **dict.fromkeys(_PRODUCTS, _times),
    **dict.fromkeys(("FloorDiv", "TruncateDiv"), _floor),
    "Neg": _negate,
    "LogicalNot": _inverse,
    **dict.fromkeys(_LOGIC, _both),
    **dict.fromkeys(_COMPARISONS, _truth),
    "Cast": _copied,
    **dict.fromkeys(("Select", "SelectV2"), _chosen),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _normalised),
    **dict.fromkeys(("ConcatV2", "Pack"), _joined),
    **dict.fromkeys(_TOTALS, _total),
}

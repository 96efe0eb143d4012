"""Operators of aten by their effect, and helpers for their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnx_gate.frameworks.torch.domain.tracer import Call, Tracer
from onnx_gate.worker.inputs.trails.trail import Array, Trail

VIEWS = frozenset(
    {
        *("view", "_unsafe_view", "reshape", "_reshape_alias", "permute", "transpose", "t", "unsqueeze"),
        *("squeeze", "expand", "expand_copy", "slice", "select", "narrow", "split", "split_with_sizes"),
        *("unsafe_split", "chunk", "unbind", "alias", "detach", "clone", "contiguous", "flip", "roll"),
        *("repeat", "index_select", "index", "gather", "unfold", "diagonal", "lift_fresh"),
        *("lift_fresh_copy", "tril", "triu", "pixel_unshuffle", "pixel_shuffle", "movedim"),
        *("reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "im2col"),
        "repeat_interleave",
    }
)
"""Operators that move values and never change them."""
KEPT = frozenset(
    {
        *("clamp", "clamp_min", "clamp_max", "hardtanh", "maximum", "minimum", "relu", "relu6", "round"),
        *("floor", "ceil", "trunc", "nan_to_num", "threshold"),
    }
)
"""Operators that leave some values unchanged; the trail follows those."""
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
TURNS = {
    "relu": (0.0,),
    "leaky_relu": (0.0,),
    "prelu": (0.0,),
    "_prelu_kernel": (0.0,),
    "elu": (0.0,),
    "sign": (0.0,),
    "sgn": (0.0,),
    "abs": (0.0,),
    "relu6": (0.0, 6.0),
    "hardsigmoid": (-3.0, 3.0),
    "hardswish": (-3.0, 3.0),
}
"""The corners of these functions."""
NORMALISED = frozenset({"native_batch_norm", "_native_batch_norm_legit_no_training", "batch_norm", "cudnn_batch_norm"})
TOTALS = frozenset({"sum", "mean", "amax", "amin", "max", "min"})
ARITHMETIC = frozenset({"add", "sub", "rsub", "mul", "div", "neg"})
JOINS = frozenset({"cat", "stack", "concat"})
LOGIC = frozenset({"logical_and", "logical_or", "bitwise_and", "bitwise_or"})
HANDLED = VIEWS | KEPT | ARITHMETIC | JOINS | LOGIC | frozenset(COMPARISONS) | frozenset(TURNS)
HANDLED |= frozenset({"_to_copy", "copy", "where", "masked_fill", "isnan", "bitwise_not", "logical_not"})


def pair(tracer: Tracer, one: Any, other: Any) -> tuple[Trail | None, Array | None]:
    """Of two operands, the one with a trail and the one that is constant."""
    if (trail := tracer.trail(one)) is not None:
        return trail, tracer.constant(other)
    return tracer.trail(other), tracer.constant(one)


def normaliser(tracer: Tracer, call: Call) -> tuple[Trail | None, Array | None, Array | None]:
    trail = tracer.trail(call["input"])
    mean, variance = tracer.constant(call["running_mean"]), tracer.constant(call["running_var"])
    if trail is None or mean is None or variance is None or call["training"]:
        return trail, None, None
    shape = (1, -1, *(1,) * (trail.ids.ndim - 2))
    return trail, mean.reshape(shape), variance.reshape(shape)

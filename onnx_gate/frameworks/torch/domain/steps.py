"""Rules per operator: the trail of its results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from onnx_gate.frameworks.torch.domain.operators import (
    COMPARISONS,
    JOINS,
    KEPT,
    LOGIC,
    NORMALISED,
    TOTALS,
    VIEWS,
    normaliser,
    pair,
)
from onnx_gate.frameworks.torch.domain.tracer import Call, Tracer
from onnx_gate.worker.inputs.trails.trail import FAR_BELOW, NOWHERE, Array, Trail, joined


def follow(tracer: Tracer, call: Call) -> list[Trail | None] | None:
    """The trails of the results; None where the operator has no rule."""
    if call.name in VIEWS:
        return _moved(tracer, call)
    rule = _TRAILS.get(call.name)
    return None if rule is None else [rule(tracer, call)]


def _moved(tracer: Tracer, call: Call) -> list[Trail | None] | None:
    trail = tracer.trail(call["self"])
    if trail is None or (call.name == "view" and call.overload == "dtype"):
        return None
    if any(tracer.is_tainted(tensor) for tensor in call.tensors() if tensor is not call["self"]):
        return None
    ids = _applied(call, trail.ids)
    parts = [
        _applied(call, part) if part.ndim else [part] * len(ids) for part in (trail.scale, trail.offset, trail.reach)
    ]
    return [
        replace(trail, ids=one, scale=scale, offset=offset, reach=reach)
        for one, scale, offset, reach in zip(ids, *parts, strict=True)
    ]


def _applied(call: Call, array: Array) -> list[Array]:
    """The results of the call for another array; an operator that works in place gets a copy."""
    tensor = torch.from_numpy(np.array(array))
    result = call.operator(tensor, *call.args[1:], **call.kwargs)
    return [each.numpy() for each in (result if isinstance(result, list | tuple) else [result])]


def _same(tracer: Tracer, call: Call) -> Trail | None:
    """The trail of an operand: some values stay unchanged."""
    trail = tracer.trail(call["self"])
    if trail is None and call["other"] is not None:
        trail = tracer.trail(call["other"])
    return _to_shape(trail, call)


def _to_shape(trail: Trail | None, call: Call) -> Trail | None:
    if trail is None:
        return None
    shape = np.broadcast_shapes(*(tuple(tensor.shape) for tensor in call.tensors()))
    return trail if shape == trail.ids.shape else trail.moved(lambda array: np.broadcast_to(array, shape))


def _plus(tracer: Tracer, call: Call) -> Trail | None:
    """The trail of a sum or difference with a constant."""
    trail, constant = pair(tracer, call["self"], call["other"])
    if trail is None or constant is None:
        return None
    factor = float(call["alpha"] if call["alpha"] is not None else 1)
    first = tracer.trail(call["self"]) is not None
    # self + f·other, self − f·other, other − f·self
    own, others = {"add": (1.0, factor), "sub": (1.0, -factor), "rsub": (-factor, 1.0)}[call.name]
    mine, rest = (own, others) if first else (others, own)
    return trail.times(np.array(mine)).plus(np.maximum(constant, FAR_BELOW) * rest)


def _times(tracer: Tracer, call: Call) -> Trail | None:
    """The trail of a product or quotient with a constant."""
    trail, constant = pair(tracer, call["self"], call["other"])
    if trail is None or constant is None:
        return None
    if call.name == "div":
        if tracer.trail(call["self"]) is None or not np.all(constant):
            return None
        constant = 1 / constant
    learned = any(isinstance(one, torch.nn.Parameter) for one in (call["self"], call["other"]))
    found = replace(trail, learned=trail.learned or learned).times(np.maximum(constant, FAR_BELOW))
    tracer.clues.scaled(found)
    return found


def _floor(tracer: Tracer, call: Call) -> Trail | None:
    trail, divisor = tracer.trail(call["self"]), tracer.constant(call["other"])
    if trail is None or divisor is None or not np.all(divisor):
        return None
    return trail.times(1 / divisor)


def _negate(tracer: Tracer, call: Call) -> Trail | None:
    trail = tracer.trail(call["self"])
    return None if trail is None else trail.times(np.array(-1.0))


def _inverse(tracer: Tracer, call: Call) -> Trail | None:
    """The trail of `~mask`."""
    trail = tracer.trail(call["self"])
    if trail is None or not trail.truth:
        return None
    return trail.times(np.array(-1.0)).plus(np.array(1.0))


def _both(tracer: Tracer, call: Call) -> Trail | None:
    """The trail of a mask that is combined with another one: it stays a mask."""
    trail = tracer.trail(call["self"])
    trail = tracer.trail(call["other"]) if trail is None else trail
    return _to_shape(trail, call) if trail is not None and trail.truth else None


def _truth(tracer: Tracer, call: Call) -> Trail | None:
    """The trail of a comparison, from its results for 0 and 1."""
    trail, constant = pair(tracer, call["self"], call["other"])
    if trail is None or constant is None or trail.whole:
        return None
    holds = COMPARISONS[call.name]
    first = tracer.trail(call["self"]) is not None
    off, on = (holds(trail.at(x), constant) if first else holds(constant, trail.at(x)) for x in (0.0, 1.0))
    return trail.between(off, on, "equal" if call.name in ("eq", "ne") else "ordered")


def _copied(tracer: Tracer, call: Call) -> Trail | None:
    trail = tracer.trail(call["self"])
    if trail is None or call["dtype"] is not torch.bool or trail.truth:
        return trail
    return trail.between(trail.at(0.0) != 0, trail.at(1.0) != 0, "equal")


def _written(tracer: Tracer, call: Call) -> Trail | None:
    trail = tracer.trail(call["src"])
    shape = tuple(call["self"].shape)
    return None if trail is None else trail.moved(lambda array: np.broadcast_to(array, shape))


def _chosen(tracer: Tracer, call: Call) -> Trail | None:
    one, other, condition = call["self"], call["other"], tracer.trail(call["condition"])
    yes, no = tracer.constant(one), tracer.constant(other)
    if condition is not None and condition.truth and yes is not None and no is not None:
        return _selected(condition, yes, no)
    # If both have a trail, such as negative ids counted from the end and all others, the input itself is taken.
    both = [trail for trail in (tracer.trail(one), tracer.trail(other)) if trail is not None]
    return _to_shape(next((trail for trail in both if trail.plain), both[0] if both else None), call)


def _selected(condition: Trail, yes: Array, no: Array) -> Trail | None:
    """The trail of a choice between two constants, from the condition's values for 0 and 1."""
    off, on = (np.where(condition.at(x) == 1, yes, no) for x in (0.0, 1.0))
    return condition.between(np.maximum(off, FAR_BELOW), np.maximum(on, FAR_BELOW), "equal")


def _filled(tracer: Tracer, call: Call) -> Trail | None:
    mask, base, value = tracer.trail(call["mask"]), tracer.constant(call["self"]), tracer.constant(call["value"])
    if mask is not None and mask.truth and base is not None and value is not None:
        return _selected(mask, value, base)
    return _to_shape(tracer.trail(call["self"]), call)


def _normalised(tracer: Tracer, call: Call) -> Trail | None:
    trail, mean, variance = normaliser(tracer, call)
    if trail is None or mean is None or variance is None:
        return None
    shape = mean.shape
    factor = 1 / np.sqrt(variance + float(call["eps"]))
    weight, bias = tracer.constant(call["weight"]), tracer.constant(call["bias"])
    found = trail.plus(-mean).times(factor if weight is None else factor * weight.reshape(shape))
    return replace(found if bias is None else found.plus(bias.reshape(shape)), learned=True)


def _joined(tracer: Tracer, call: Call) -> Trail | None:
    """The trail of several inputs side by side."""
    parts: list[Trail | Array] = []
    for tensor in call["tensors"]:
        trail = tracer.trail(tensor)
        constant = tracer.constant(tensor) if trail is None else None
        if trail is None and constant is None:
            return None
        parts.append(trail if trail is not None else np.asarray(constant))
    dim = int(call["dim"] or 0)
    return joined(parts, lambda arrays: (np.stack if call.name == "stack" else np.concatenate)(arrays, axis=dim))


def _padded(tracer: Tracer, call: Call) -> Trail | None:
    trail = tracer.trail(call["self"])
    if trail is None:
        return None

    def pad(array: Array, value: float) -> Array:
        found: Array = torch.constant_pad_nd(torch.from_numpy(np.array(array)), call["pad"], value).numpy()
        return found

    whole = trail.full()
    return replace(
        whole,
        ids=pad(whole.ids, NOWHERE),
        scale=pad(whole.scale, 0.0),
        offset=pad(whole.offset, float(call["value"] or 0)),
        reach=pad(whole.reach, 0.0),
    )


def _total(tracer: Tracer, call: Call) -> Trail | None:
    """The trail of a sum or an extreme: its value where all elements are the same."""
    trail = tracer.trail(call["self"])
    if trail is None:
        return None
    dims = call["dim"] if call["dim"] not in (None, []) else list(range(trail.ids.ndim))
    axes = tuple(dims) if isinstance(dims, list | tuple) else (int(dims),)
    return trail.total(call.name, axes, keep=bool(call["keepdim"]))


_TRAILS: dict[str, Callable[[Tracer, Call], Trail | None]] = {
    **dict.fromkeys(KEPT, _same),
    **dict.fromkeys(("add", "sub", "rsub"), _plus),
    **dict.fromkeys(("mul", "div"), _times),
    "floor_divide": _floor,
    "neg": _negate,
    **dict.fromkeys(("bitwise_not", "logical_not"), _inverse),
    **dict.fromkeys(LOGIC, _both),
    **dict.fromkeys(COMPARISONS, _truth),
    "_to_copy": _copied,
    "copy": _written,
    "where": _chosen,
    "masked_fill": _filled,
    **dict.fromkeys(NORMALISED, _normalised),
    **dict.fromkeys(JOINS, _joined),
    "constant_pad_nd": _padded,
    **dict.fromkeys(TOTALS, _total),
}

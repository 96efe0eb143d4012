"""Rules per operator: the facts that it shows about the inputs that reach it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from onnx_gate.frameworks.torch.domain.operators import COMPARISONS, HANDLED, KEPT, NORMALISED, TURNS, normaliser, pair
from onnx_gate.frameworks.torch.domain.tracer import Call, Tracer
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.inputs.trails.clues import FAR
from onnx_gate.worker.inputs.trails.trail import Array, Trail


def note(tracer: Tracer, call: Call) -> None:
    """Record the facts about the inputs that follow from the call."""
    if rule := _NOTES.get(call.name):
        rule(tracer, call)
    elif call.name not in HANDLED:
        for tensor in call.tensors():
            if (trail := tracer.trail(tensor)) is not None and not _is_index(tensor, call):
                tracer.clues.used(trail)


def _is_index(tensor: Any, call: Call) -> bool:
    return any(tensor is call[name] for name in ("indices", "index"))


def _embedding(tracer: Tracer, call: Call) -> None:
    weight, indices = call["weight"], call["indices"]
    padding = call["padding_idx"]
    if (trail := tracer.trail(indices)) is not None:
        tracer.clues.rows(trail, weight.shape[0], padding if isinstance(padding, int) and padding >= 0 else None)
    elif not tracer.is_tainted(indices):
        _positions(tracer, indices, weight.shape[0])


def _positions(tracer: Tracer, indices: torch.Tensor, rows: int) -> None:
    """Indices that count up, as many as a dimension has elements, are positions. Those of a square are distances."""
    if not indices.ndim or not 1 < indices.shape[-1] <= rows or indices.is_floating_point():
        return
    row = indices.reshape(-1, indices.shape[-1])[0]
    first = int(row[0])
    if indices.ndim > 1 and _are_distances(indices.reshape(-1, *indices.shape[-2:])[0]):
        # Of so many elements, some are far enough apart for each row of the table.
        tracer.clues.positions(row.numel(), rows)
    elif bool((row == torch.arange(first, first + row.numel())).all()):
        tracer.clues.positions(row.numel(), rows - first)


def _are_distances(square: torch.Tensor) -> bool:
    """Whether each number depends only on how far its row is from its column, as in a table of relative positions."""
    alike = square.shape[0] == square.shape[1] and bool((square[1:, 1:] == square[:-1, :-1]).all())
    return alike and bool((square != square[0, 0]).any())


def _table(tracer: Tracer, call: Call) -> None:
    """Rows of a constant that an input selects, or positions."""
    table = call["self"]
    if tracer.is_tainted(table):
        return
    for dim, index in _indices(call):
        if (trail := tracer.trail(index)) is not None:
            tracer.clues.rows(trail, table.shape[dim], from_the_end=call.name == "index")
        elif isinstance(index, torch.Tensor) and not tracer.is_tainted(index) and index.dtype != torch.bool:
            _positions(tracer, index, table.shape[dim])


def _indices(call: Call) -> list[tuple[int, Any]]:
    if call.name == "index":
        return [(dim, index) for dim, index in enumerate(call["indices"]) if index is not None]
    return [(call["dim"] if call["dim"] is not None else 0, call["index"])]


def _slice(tracer: Tracer, call: Call) -> None:
    """The first rows of a table, as many as a dimension has."""
    table, start, end = call["self"], call["start"] or 0, call["end"]
    if tracer.is_tainted(table) or not isinstance(end, int) or start < 0:
        return
    room = table.shape[call["dim"] or 0]
    if start < end <= room:
        tracer.clues.positions(end - start, room - start)


def _compare(tracer: Tracer, call: Call) -> None:
    one, other = call["self"], call["other"]
    if one is other:
        _missing(tracer, call)
    trail, constant = pair(tracer, one, other)
    if trail is None or constant is None:
        return
    if call.name not in ("eq", "ne"):
        tracer.clues.cut(trail, constant)
    elif _is_count(constant):
        # One-hot encoding: the value is compared with every number of a row.
        tracer.clues.rows(_first(trail, constant), constant.size)
    else:
        tracer.clues.equal(trail, constant)


def _is_count(constant: Array) -> bool:
    return constant.size > 2 and np.array_equal(constant.ravel(), np.arange(constant.size))


def _first(trail: Trail, constant: Array) -> Trail:
    return trail if constant.ndim <= trail.ids.ndim else trail.moved(lambda array: array.reshape(-1))


def _clip(tracer: Tracer, call: Call) -> None:
    if (trail := tracer.trail(call["self"])) is None:
        return
    for name in ("min", "max", "min_val", "max_val", "threshold"):
        if (constant := tracer.constant(call[name])) is not None:
            tracer.clues.cut(trail, constant, Origin.RANGES)


def _extreme(tracer: Tracer, call: Call) -> None:
    trail, constant = pair(tracer, call["self"], call["other"])
    if trail is not None and constant is not None:
        tracer.clues.cut(trail, constant, Origin.RANGES)


def _turn(tracer: Tracer, call: Call) -> None:
    if (trail := tracer.trail(call["self"])) is not None:
        for at in TURNS[call.name]:
            tracer.clues.cut(trail, np.array(at), Origin.RANGES)
        if call.name not in KEPT:
            tracer.clues.used(trail)


def _sign(tracer: Tracer, call: Call) -> None:
    """Zero has a sign of its own."""
    _turn(tracer, call)
    if (trail := tracer.trail(call["self"])) is not None:
        tracer.clues.mark(trail, (0.0,))


def _shrink(tracer: Tracer, call: Call) -> None:
    if (trail := tracer.trail(call["self"])) is not None:
        for at in (-float(call["lambd"]), float(call["lambd"])):
            tracer.clues.cut(trail, np.array(at), Origin.RANGES)


def _buckets(tracer: Tracer, call: Call) -> None:
    names = ("self", "boundaries") if call.name == "bucketize" else ("self", "sorted_sequence")
    trail, edges = tracer.trail(call[names[0]]), tracer.constant(call[names[1]])
    if trail is not None and edges is not None and edges.ndim == 1:
        for edge in edges[np.linspace(0, edges.size - 1, min(edges.size, 256)).astype(int)]:
            tracer.clues.cut(trail, np.array(edge), Origin.RANGES)


def _normalise(tracer: Tracer, call: Call) -> None:
    trail, mean, variance = normaliser(tracer, call)
    if trail is not None and mean is not None and variance is not None:
        tracer.clues.statistics(trail, mean, np.sqrt(variance))


def _round(tracer: Tracer, call: Call) -> None:
    if (trail := tracer.trail(call["self"])) is not None:
        tracer.clues.rounded(trail)


def _remainder(tracer: Tracer, call: Call) -> None:
    trail, divisor = tracer.trail(call["self"]), tracer.constant(call["other"])
    if trail is not None and divisor is not None and divisor.size == 1:
        tracer.clues.remainder(trail, float(divisor.reshape(-1)[0]))


def _missing(tracer: Tracer, call: Call) -> None:
    if (trail := tracer.trail(call["self"])) is not None:
        tracer.clues.missing(trail)


def _cast(tracer: Tracer, call: Call) -> None:
    trail, dtype = tracer.trail(call["self"]), call["dtype"]
    if trail is None or dtype is None or dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        return
    if call["self"].is_floating_point():
        tracer.clues.rounded(trail)
    elif dtype.itemsize < call["self"].dtype.itemsize:
        over = torch.iinfo(dtype).max
        tracer.clues.mark(trail, (over, over + 6, -over - 7))


def _choose(tracer: Tracer, call: Call) -> None:
    """`where`: a value that is not chosen because of an input is masked."""
    condition = tracer.trail(call["condition"])
    one, other = call["self"], call["other"]
    if condition is None or not condition.truth:
        return
    for kept, left, value in ((one, other, 0.0), (other, one, 1.0)):
        constant = tracer.constant(left)
        if tracer.is_tainted(kept) and constant is not None:
            strong = bool(np.all(constant <= -FAR))
            tracer.clues.left_out(condition, value, strong=strong)


def _fill(tracer: Tracer, call: Call) -> None:
    mask, value = tracer.trail(call["mask"]), tracer.constant(call["value"])
    if mask is not None and value is not None and tracer.is_tainted(call["self"]):
        tracer.clues.left_out(mask, 1.0, strong=bool(np.all(value <= -FAR)))


def _combine(tracer: Tracer, call: Call) -> None:
    """Arithmetic of a value with a trail and another value that depends on an input."""
    if call.name == "div" and call["rounding_mode"]:
        _remainder(tracer, call)
        return
    one, other = call["self"], call["other"]
    for value, with_ in ((one, other), (other, one)):
        trail = tracer.trail(value)
        if trail is None or not tracer.is_tainted(with_):
            continue
        if call.name != "mul" or not _masks(tracer, trail, value, with_):
            tracer.clues.used(trail)


def _masks(tracer: Tracer, trail: Trail, value: torch.Tensor, with_: torch.Tensor) -> bool:
    """Whether a product masks values by 0: one number for a whole vector, or a boolean."""
    wider = any(one == 1 < other for one, other in zip(value.shape[::-1], with_.shape[::-1], strict=False))
    return (wider or bool(trail.truth)) and tracer.clues.left_out(trail, 0.0)


def _product(tracer: Tracer, call: Call) -> None:
    """A linear layer at the beginning; its weights show how large the columns are."""
    name = next((name for name in ("mat1", "self") if call[name] is not None), "self")
    trail, weights = tracer.trail(call[name]), tracer.constant(call["mat2"])
    if trail is None:
        return
    if weights is not None and weights.ndim == 2:
        bias = tracer.constant(call["self"]) if call.name == "addmm" else None
        tracer.clues.weighed(trail, weights.T, np.zeros(1) if bias is None else bias)
    tracer.clues.used(trail)


def _one_of(tracer: Tracer, call: Call) -> None:
    trail, known = tracer.trail(call["elements"]), tracer.constant(call["test_elements"])
    if trail is not None and known is not None:
        tracer.clues.mark(trail, known.ravel()[:256].tolist())


_NOTES: dict[str, Callable[[Tracer, Call], None]] = {
    "embedding": _embedding,
    "_embedding_bag": _embedding,
    "_embedding_bag_forward_only": _embedding,
    **dict.fromkeys(("index_select", "index", "gather", "scatter", "scatter_add"), _table),
    "slice": _slice,
    **dict.fromkeys(COMPARISONS, _compare),
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "hardtanh", "threshold"), _clip),
    **dict.fromkeys(("maximum", "minimum"), _extreme),
    **dict.fromkeys(TURNS, _turn),
    **dict.fromkeys(("sign", "sgn"), _sign),
    **dict.fromkeys(("hardshrink", "softshrink"), _shrink),
    **dict.fromkeys(("bucketize", "searchsorted"), _buckets),
    **dict.fromkeys(NORMALISED, _normalise),
    **dict.fromkeys(("round", "floor", "ceil", "trunc", "frac"), _round),
    **dict.fromkeys(("remainder", "fmod", "floor_divide"), _remainder),
    **dict.fromkeys(("isnan", "nan_to_num", "isfinite"), _missing),
    "_to_copy": _cast,
    "where": _choose,
    "masked_fill": _fill,
    **dict.fromkeys(("add", "sub", "rsub", "mul", "div"), _combine),
    "isin": _one_of,
    **dict.fromkeys(("addmm", "mm"), _product),
}

"""Operators that compute with constants: values are followed through sums and products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from onnx_gate.worker.onnx_files.domain.flow import INTEGERS, MOST_PARTS, Counting, Dim, Flow, Part, Sizes, either
from onnx_gate.worker.onnx_files.domain.operators.lengths import sizes_plus
from onnx_gate.worker.onnx_files.domain.operators.points import MOST_POINTS, note_points, note_small
from onnx_gate.worker.onnx_files.domain.step import Handlers, Known, Step, lose, numbers_of
from onnx_gate.worker.onnx_files.domain.stored import Array, Stored

SMALL_MATRIX = 65_536

Change = Callable[[Part, float], Part]


def with_constant(flow: Flow, array: Array, change: Change) -> Flow | None:
    """The flow after a change by constants: one for all elements, one per column, or one per channel."""
    numbers = numbers_of(array)
    if array.size == 1:
        return flow.each(lambda part: change(part, numbers[0]))
    if array.shape[-1] == array.size and flow.width in (None, 1, array.size):
        columns = flow.columns(array.size) or ()
        cells = columns * array.size if len(columns) == 1 else columns
        changed = tuple(_learnt(cell, number, change) for cell, number in zip(cells, numbers, strict=False))
        dims = None if flow.dims is None else (*flow.dims[:-1], array.size)
        return replace(flow, cells=changed, by_column=True, aligned=False, dims=dims) if changed else None
    if array.shape[-1] == 1 and not flow.by_column and len(numbers) * len(flow.cells[0]) <= MOST_PARTS:
        cell = tuple(part for number in numbers for part in _learnt(flow.cells[0], number, change))
        return replace(flow, cells=(cell,))
    return None


def _learnt(cell: tuple[Part, ...], number: float, change: Change) -> tuple[Part, ...]:
    changed = (change(part, number) for part in cell)
    return tuple(part if part.learnt else replace(part, learnt=True) for part in changed)


def _plus(step: Step) -> Sequence[Known]:
    sign = -1.0 if step.op == "Sub" else 1.0
    for place in (0, 1):
        given, array = step.given(place), step.array(1 - place)
        if array is None or array.dtype.kind not in "fiu":
            continue
        subtracted = step.op == "Sub" and place == 1
        if isinstance(given, Flow):
            flow = given.each(lambda part: part.times(-1)) if subtracted else given
            factor = 1.0 if subtracted else sign
            if step.op == "Sub" and _are_points(given, array):
                note_points(step, given, array.reshape(-1, array.shape[-1]).astype(np.float64))
            found = with_constant(flow, array, lambda part, number, f=factor: part.plus(f * number))  # type: ignore[misc]
            return lose(step) if found is None else [found]
        if array.size == 1 and not subtracted and isinstance(given, Sizes | Counting):
            return [_more(given, int(sign * float(array.reshape(-1)[0])))]
    return lose(step)


def _are_points(flow: Flow, array: Array) -> bool:
    """Whether a constant holds points that the model kept, and the distance of each row to them is computed."""
    if flow.reduced or flow.rank is None or array.ndim < 2 or not 1 < array.size // array.shape[-1] <= MOST_POINTS:
        return False
    alone = flow.rank < 3 or (flow.dims is not None and set(flow.dims[1:-1]) == {1})
    return alone and flow.width in (None, array.shape[-1]) and array.shape[-1] > 1


def _more(given: Sizes | Counting, number: int) -> Known:
    return sizes_plus(given, number) if isinstance(given, Sizes) else replace(given, more=given.more + number)


def _times(step: Step) -> Sequence[Known]:
    for place in (0, 1):
        given, other = step.given(place), step.given(1 - place)
        if isinstance(given, Counting) and isinstance(other, Flow):
            return [given]
        array = step.array(1 - place)
        if isinstance(given, Flow) and array is not None and array.dtype.kind in "fiu":
            found = with_constant(given, array, Part.times)
            return lose(step) if found is None else [found]
    return lose(step)


def _divided(step: Step) -> Sequence[Known]:
    flow, array = step.given(0), step.array(1)
    if not isinstance(flow, Flow) or array is None or not np.all(array):
        return lose(step)
    found = with_constant(flow, array, lambda part, number: part.times(1 / number))
    if found is not None and flow.kind in INTEGERS:
        found = found.each(lambda part: replace(part, whole=True))
    return lose(step) if found is None else [found]


def _negated(step: Step) -> Sequence[Known]:
    flow = step.given(0)
    return [flow.each(lambda part: part.times(-1))] if isinstance(flow, Flow) else [None]


def _absolute(step: Step) -> Sequence[Known]:
    flow = step.flow()
    return [either(flow, flow.each(lambda part: part.times(-1)))] if flow is not None else [None]


def _reduced(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return lose(step)
    step.findings.lost(flow, step.op)
    count = flow.width if step.op == "ReduceSum" else 1
    if count is None:
        return [None]
    return [replace(flow.mixed(None).each(lambda part: part.times(count)), reduced=True)]


def _normalised(step: Step) -> Sequence[Known]:
    """BatchNormalization: if it comes first, its running statistics show the centre and spread of the inputs."""
    flow = step.flow()
    scale, bias, mean, variance = (step.array(place) for place in range(1, 5))
    if flow is None or scale is None or bias is None or mean is None or variance is None:
        return lose(step)
    deviation = np.sqrt(variance.astype(np.float64) + float(step.attribute("epsilon", 1e-5)))
    columns = flow.columns(mean.size) if flow.rank in (2, None) else None
    for place, (centre, spread) in enumerate(zip(numbers_of(mean), numbers_of(deviation), strict=True)):
        for part in columns[place] if columns is not None and place < len(columns) else flow.parts[:MOST_PARTS]:
            step.findings.scale(part, centre, spread)
    if columns is None:
        return [Flow(dims=flow.dims), *[None] * (len(step.node.output) - 1)]
    factor = scale / deviation
    scaled = with_constant(flow, factor, Part.times)
    return [with_constant(scaled, bias - mean * factor, Part.plus) if scaled is not None else None]


def _normed(step: Step) -> Sequence[Known]:
    """Normalisation of each row by its own deviation, to which a small epsilon is added."""
    flow = step.flow()
    if flow is not None and step.axis(flow, -1) == -1:
        note_small(step, flow, float(step.attribute("epsilon", 1e-5)) ** 0.5)
    return lose(step)


def _multiplied(step: Step) -> Sequence[Known]:
    """MatMul and Gemm: a matrix that picks columns is followed; for any other, only the number of columns is known."""
    flow, stored = step.flow(0), step.given(1)
    lost = lose(step)
    if not isinstance(stored, Stored) or not stored.shape or len(stored.shape) != 2 or flow is None:
        return lost
    turned = bool(step.attribute("transB", 0))
    width = stored.shape[0 if turned else 1]
    rows: tuple[Dim, ...] = flow.dims[:-1] if flow.dims else (None,)
    picks = _picking(step, flow, stored, turned) if width * stored.shape[0] <= SMALL_MATRIX else None
    return [picks if picks is not None else Flow(dims=(*rows, width))]


def _picking(step: Step, flow: Flow, stored: Stored, turned: bool) -> Flow | None:
    array = stored.array
    if array is None or step.attribute("transA", 0) or len(step.inputs) > 2:
        return None
    matrix = array.T if turned else array
    used = matrix != 0
    if len(matrix) < 2 or used.sum(axis=0).max(initial=0) != 1 or used.sum(axis=0).min(initial=1) != 1:
        return None
    places = used.argmax(axis=0)
    alpha = float(step.attribute("alpha", 1.0))
    chosen = flow.pick([int(place) for place in places])
    return with_constant(chosen, matrix[places, np.arange(len(places))] * alpha, Part.times)


ARITHMETIC: Handlers = {
    "Add": _plus,
    "Sub": _plus,
    "Mul": _times,
    "Div": _divided,
    "Neg": _negated,
    "Abs": _absolute,
    **dict.fromkeys(("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum"), _reduced),
    "BatchNormalization": _normalised,
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), _normed),
    "MatMul": _multiplied,
    "Gemm": _multiplied,
}

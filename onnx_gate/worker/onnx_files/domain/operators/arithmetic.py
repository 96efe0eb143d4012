"""Operators that compute with constants: what is added and multiplied is followed, the rest says where to look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.onnx_files.domain.flow import (
    BOOL,
    FLOATS,
    INTEGERS,
    MOST_PARTS,
    Counting,
    Dim,
    Flow,
    Part,
    Sizes,
    either,
)
from onnx_gate.worker.onnx_files.domain.lengths import row_of, sizes_plus
from onnx_gate.worker.onnx_files.domain.points import MOST_POINTS, note_points, ties
from onnx_gate.worker.onnx_files.domain.routing import picked
from onnx_gate.worker.onnx_files.domain.step import Handlers, Known, Step, numbers_of
from onnx_gate.worker.onnx_files.domain.stored import Array, Stored

HALVES = (-1.5, -0.5, 0.5, 1.5, 2.5)
MOST_CONSTANTS = 1024
SMALL_MATRIX = 65_536

Change = Callable[[Part, float], Part]


def lose(step: Step) -> Sequence[Known]:
    """An operator that nothing is followed through."""
    flows = [each for each in step.inputs if isinstance(each, Flow)]
    for flow in flows:
        if flow.known and not flow.reduced:
            step.findings.lost(flow, step.op)
    dims = max((flow.dims for flow in flows if flow.dims is not None), key=len, default=None)
    kept = Flow(dims=dims) if step.op in _SHAPE_STAYS and dims is not None else None
    return [kept, *[None] * (len(step.node.output) - 1)]


def with_constant(flow: Flow, array: Array, change: Change) -> Flow | None:
    """Each element with a number: one for all, one for each column, or one for each channel on another axis."""
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
    """Rows that each row is compared with: a distance is computed, to points that the model kept."""
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


def _compared(step: Step) -> Sequence[Known]:
    first, second = step.given(0), step.given(1)
    flow, constant = (first, second) if isinstance(first, Flow) else (second, first)
    answer = [Flow(truth=True, dims=flow.dims if isinstance(flow, Flow) else None)]
    if first is second and isinstance(first, Flow):
        for part in first.parts:
            # Only a missing value differs from itself.
            step.findings.missing(part)
    array = constant.array if isinstance(constant, Stored) else None
    if not isinstance(flow, Flow) or array is None or flow.truth:
        if isinstance(flow, Flow) and flow.known and not flow.reduced:
            step.findings.lost(flow, step.op)
        return answer
    for part, number in _pairs(flow, array):
        _compare(step, flow, part, number)
    return answer


def _pairs(flow: Flow, array: Array) -> list[tuple[Part, Scalar]]:
    """Each part, with each constant that it meets."""
    numbers = array.reshape(-1)[:MOST_CONSTANTS].tolist()
    columns = flow.columns(array.size) if array.size > 1 and array.shape[-1] == array.size else None
    if columns is not None and len(columns) == len(numbers):
        return [(part, number) for cell, number in zip(columns, numbers, strict=True) for part in cell]
    parts = flow.parts
    return [(part, number) for part in parts for number in numbers[: max(1, 4 * MOST_CONSTANTS // len(parts))]]


def _compare(step: Step, flow: Flow, part: Part, number: Scalar) -> None:
    findings = step.findings
    if isinstance(number, str):
        findings.text_mark(part, number)
    elif number is None:
        return
    elif flow.reduced:
        findings.level(part, float(number))
    else:
        findings.cut(part, float(number))
        if step.op == "Equal":
            findings.mark(part, [float(number)])
        if number in (0, 1) and abs(part.factor) == 1:
            findings.mask(part, sure=False)


def _clipped(step: Step) -> Sequence[Known]:
    flow = step.given(0)
    ends = [step.attribute("min"), step.attribute("max")]
    ends = [step.array(place + 1) if end is None else np.array(end) for place, end in enumerate(ends)]
    if not isinstance(flow, Flow):
        return [None]
    for array in ends:
        if array is not None and not flow.reduced:
            _cut_all(step, flow, array, Origin.RANGES)
    return [flow]


def _extreme(step: Step) -> Sequence[Known]:
    flows = [each for each in step.inputs if isinstance(each, Flow) and not each.reduced]
    arrays = [array for place in range(len(step.inputs)) if (array := step.array(place)) is not None]
    if len(flows) != 1 or len(flows) + len(arrays) != len(step.inputs):
        return lose(step)
    for array in arrays:
        _cut_all(step, flows[0], array, Origin.RANGES)
    return [flows[0]]


def _cut_all(step: Step, flow: Flow, array: Array, origin: Origin) -> None:
    for part, number in _pairs(flow, array):
        if isinstance(number, int | float):
            step.findings.cut(part, float(number), origin)


def _rectified(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return lose(step)
    if len(flow.parts) <= MOST_PARTS:
        _cut_all(step, flow, np.zeros(1), Origin.CONSTANTS)
    return [flow]


def _cast(step: Step) -> Sequence[Known]:
    given, to = step.given(0), int(step.attribute("to", 0))
    if not isinstance(given, Flow):
        return [given]
    if given.truth or given.reduced:
        return [replace(given, kind=to)]
    change = _changed_kind(step, given, to)
    return [replace(given.each(change), kind=to, truth=to == BOOL)]


def _changed_kind(step: Step, flow: Flow, to: int) -> Callable[[Part], Part]:
    """What a cast does to each part, with what it says noted."""
    findings, was = step.findings, flow.kind
    for part in flow.parts:
        if to == BOOL:
            findings.mark_cast(part, [0.0])
            findings.mask(part, sure=was not in FLOATS)
        elif was in FLOATS and to in INTEGERS:
            findings.mark_cast(part, _without_negatives((-1.0, *HALVES), to))
        elif was in INTEGERS and to in INTEGERS:
            findings.mark_cast(part, _ends(was, to))
    if was in FLOATS and to in FLOATS and FLOATS[was] > FLOATS[to]:
        return lambda part: replace(part, coarse=part.coarse * 2.0 ** (FLOATS[was] - FLOATS[to]))
    if was in FLOATS and to in INTEGERS:
        return lambda part: replace(part, whole=True)
    return lambda part: part


def _without_negatives(numbers: Sequence[float], kind: int) -> list[float]:
    """A negative float has no defined value as an unsigned number."""
    return [number for number in numbers if number > -1 or INTEGERS[kind][0] < 0]


def _ends(was: int, to: int) -> list[float]:
    """The ends of the narrower type, and what is just beyond them, as far as the wider one holds it."""
    (least, most), (low, high) = INTEGERS[was], INTEGERS[to]
    numbers = [low - 1, low, high, high + 1] if (low > least or high < most) else []
    return [float(number) for number in numbers if least <= number <= most]


def _rounded(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return lose(step)
    for part in flow.parts:
        step.findings.mark(part, HALVES)
    return [flow.each(lambda part: replace(part, whole=True))]


def _remainder(step: Step) -> Sequence[Known]:
    flow, array = step.flow(0), step.array(1)
    if flow is None:
        return lose(step)
    base = abs(float(array.reshape(-1)[0])) if array is not None and array.size else 3.0
    numbers = [-1, -base, -base - 1, -2 * base + 1, base - 1, base, base + 1, 2 * base + 1]
    if flow.kind in FLOATS:
        # Not on a multiple, where rounding decides.
        numbers = [base * each for each in (-2.25, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 2.25)]
    for part in flow.parts:
        step.findings.mark(part, numbers)
    return [Flow(dims=flow.dims, kind=flow.kind)]


def _chosen(step: Step) -> Sequence[Known]:
    condition = step.flow(0)
    if condition is not None:
        _as_masks(step, condition)
    for given in (step.given(1), step.given(2)):
        if isinstance(given, Counting):
            return [given]
    flows = [flow for place in (1, 2) if (flow := step.flow(place)) is not None]
    if not flows:
        return [Flow(dims=condition.dims)] if condition is not None else [None]
    return [flows[0] if len(flows) == 1 else either(*flows)]


def _as_masks(step: Step, flow: Flow) -> None:
    for part in flow.parts:
        if step.findings.inputs[part.name].kind == BOOL:
            step.findings.mask(part, sure=True)


def _logic(step: Step) -> Sequence[Known]:
    flows = [flow for place in range(len(step.inputs)) if (flow := step.flow(place)) is not None]
    for flow in flows:
        _as_masks(step, flow)
    dims = next((flow.dims for flow in flows if flow.dims), None)
    kept = flows[0].cells if step.op == "Not" and flows else ((),)
    return [Flow(cells=kept, truth=True, dims=dims, by_column=flows[0].by_column if kept != ((),) else False)]


def _is_missing(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return lose(step)
    for part in flow.parts:
        step.findings.missing(part)
    return [Flow(truth=True, dims=flow.dims)]


def _ranked(step: Step) -> Sequence[Known]:
    """ArgMax, ArgMin, TopK on an input: equal values show who comes first."""
    flow = step.flow()
    if flow is not None and step.axis(flow, -1 if step.op == "TopK" else 0) == -1:
        lowest = step.op == "ArgMin" or (step.op == "TopK" and not step.attribute("largest", 1))
        step.findings.boxes(ties(step, flow, lowest=lowest), Origin.CONSTANTS)
    return lose(step)


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
    """Running statistics of a normalisation that comes first."""
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


def _dequantised(step: Step) -> Sequence[Known]:
    flow, scale, zero = step.flow(), step.array(1), step.array(2)
    if flow is None or scale is None or scale.size != 1:
        return lose(step)
    if flow.kind in INTEGERS and INTEGERS[flow.kind][1] < 2**16:
        for part in flow.parts:
            step.findings.between(part, *INTEGERS[flow.kind], Origin.RANGES)
    shift = 0.0 if zero is None or not zero.size else float(zero.reshape(-1)[0])
    factor = float(scale.reshape(-1)[0])
    return [replace(flow.each(lambda part: part.plus(-shift).times(factor)), kind=1)]


def _quantised(step: Step) -> Sequence[Known]:
    """The ends of what the quantised type holds; what is between is still the value."""
    flow, scale, zero = step.flow(), step.array(1), step.array(2)
    if flow is None or scale is None or scale.size != 1 or not scale.all():
        return lose(step)
    shift = 0.0 if zero is None or not zero.size else float(zero.reshape(-1)[0])
    low, high = (-128, 127) if zero is not None and zero.dtype == np.int8 else (0, 255)
    factor = float(scale.reshape(-1)[0])
    for part in flow.parts:
        step.findings.between(part, (low - shift) * factor, (high - shift) * factor, Origin.RANGES)
    return [flow.each(lambda part: replace(part.times(1 / factor).plus(shift), coarse=2.0**16))]


def _gathered(step: Step) -> Sequence[Known]:
    data, places = step.given(0), step.given(1)
    if isinstance(data, Sizes):
        numbers = step.numbers(1)
        inside = numbers is not None and all(-len(data.items) <= each < len(data.items) for each in numbers)
        return [Sizes(items=tuple(data.items[each] for each in numbers)) if inside and numbers is not None else None]
    if isinstance(data, Stored):
        axis = int(step.attribute("axis", 0))
        return [row_of(step, data, places, axis if axis >= 0 else axis + len(data.shape or ()))]
    if isinstance(data, Flow) and not data.reduced and isinstance(places, Stored):
        return [picked(step, data)]
    return lose(step)


def _gathered_each(step: Step) -> Sequence[Known]:
    """As many rows of a table as there are elements."""
    data = step.given(0)
    if isinstance(data, Stored):
        axis = int(step.attribute("axis", 0))
        row_of(step, data, step.given(1), axis if axis >= 0 else axis + len(data.shape or ()))
    return lose(step)


def _one_hot(step: Step) -> Sequence[Known]:
    flow, depth = step.flow(), step.numbers(1)
    if flow is None or not depth:
        return lose(step)
    for part in flow.parts:
        if 0 < depth[0] <= MOST_CONSTANTS:
            step.findings.categories(part, range(depth[0]), unknown=True)
    return [None]


def _multiplied(step: Step) -> Sequence[Known]:
    """A matrix that picks columns is followed; of any other the number of columns is known."""
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


_SHAPE_STAYS = {
    *("Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Exp", "Log", "Erf", "Tanh", "Sigmoid", "Gelu", "LayerNormalization"),
    *("Softmax", "LeakyRelu", "Elu", "HardSwish", "Softplus", "Sin", "Cos", "Max", "Min", "Reciprocal", "Sign", "Relu"),
    *("Clip", "RMSNormalization", "SimplifiedLayerNormalization", "FastGelu", "BiasGelu", "Round", "Floor", "Ceil"),
}
_COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
ARITHMETIC: Handlers = {
    "Add": _plus,
    "Sub": _plus,
    "Mul": _times,
    "Div": _divided,
    "Neg": _negated,
    "Abs": _absolute,
    **dict.fromkeys(_COMPARISONS, _compared),
    "Clip": _clipped,
    "Min": _extreme,
    "Max": _extreme,
    "Relu": _rectified,
    "Cast": _cast,
    **dict.fromkeys(("Round", "Floor", "Ceil"), _rounded),
    "Mod": _remainder,
    "Where": _chosen,
    **dict.fromkeys(("And", "Or", "Not", "Xor"), _logic),
    "IsNaN": _is_missing,
    **dict.fromkeys(("ArgMax", "ArgMin", "TopK"), _ranked),
    **dict.fromkeys(("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum"), _reduced),
    "BatchNormalization": _normalised,
    "DequantizeLinear": _dequantised,
    "QuantizeLinear": _quantised,
    "Gather": _gathered,
    "GatherElements": _gathered_each,
    "OneHot": _one_hot,
    "MatMul": _multiplied,
    "Gemm": _multiplied,
}

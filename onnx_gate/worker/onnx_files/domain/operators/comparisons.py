"""Operators that compare, clip and select: the input values at which a result changes, and which inputs are masks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.onnx_files.domain.flow import BOOL, MOST_PARTS, Counting, Flow, Part, either
from onnx_gate.worker.onnx_files.domain.operators.points import note_rows, ties
from onnx_gate.worker.onnx_files.domain.step import MOST_CONSTANTS, Handlers, Known, Step, lose
from onnx_gate.worker.onnx_files.domain.stored import Array, Stored

LARGE, LARGEST = 1e3, 1e30
"""A number between these may be used in place of minus infinity, though other values can lie beyond it."""


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
    """Each part, with each constant that it is compared with."""
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
            findings.sought(part, float(number))
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


def _cornered(step: Step) -> Sequence[Known]:
    """Activations that change their course at numbers of their attributes."""
    flow = step.flow()
    if flow is not None and len(flow.parts) <= MOST_PARTS:
        _cut_all(step, flow, np.array(_corners(step), dtype=np.float64), Origin.CONSTANTS)
    return lose(step)


def _signed(step: Step) -> Sequence[Known]:
    """Zero has a sign of its own, so it is fed as well as both sides of it."""
    flow = step.flow()
    if flow is not None and len(flow.parts) <= MOST_PARTS:
        _cut_all(step, flow, np.zeros(1), Origin.CONSTANTS)
        for part in flow.parts:
            step.findings.mark(part, [0.0])
    return lose(step)


def _corners(step: Step) -> tuple[float, ...]:
    if step.op == "ThresholdedRelu":
        return (float(step.attribute("alpha", 1.0)),)
    if step.op == "Shrink":
        far = float(step.attribute("lambd", 0.5))
        return (-far, far)
    # HardSwish is defined with these numbers of HardSigmoid.
    swish = step.op == "HardSwish"
    slope, offset = (1 / 6, 0.5) if swish else (step.attribute("alpha", 0.2), step.attribute("beta", 0.5))
    return (-offset / slope, (1 - offset) / slope) if slope else ()


def _chosen(step: Step) -> Sequence[Known]:
    condition = step.flow(0)
    if condition is not None:
        _as_masks(step, condition)
    for given in (step.given(1), step.given(2)):
        if isinstance(given, Counting):
            return [given]
    flows = [flow for place in (1, 2) if (flow := step.flow(place)) is not None]
    for place in (1, 2):
        _beyond_stand_in(step, step.flow(place), step.array(3 - place))
    if not flows:
        return [Flow(dims=condition.dims)] if condition is not None else [None]
    return [flows[0] if len(flows) == 1 else either(*flows)]


def _beyond_stand_in(step: Step, flow: Flow | None, array: Array | None) -> None:
    """If a large number is used as minus infinity, note rows with all values beyond it: they show the difference."""
    number = float(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype.kind == "f" else 0.0
    if flow is not None and LARGE <= abs(number) <= LARGEST:
        note_rows(step, flow, lambda drawn: number * (1.6 + drawn))


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
    """ArgMax, ArgMin, TopK on an input: ties show which of several equal values comes first."""
    flow = step.flow()
    if flow is not None and step.axis(flow, -1 if step.op == "TopK" else 0) == -1:
        lowest = step.op == "ArgMin" or (step.op == "TopK" and not step.attribute("largest", 1))
        step.findings.boxes(ties(step, flow, lowest=lowest), Origin.CONSTANTS)
    return lose(step)


COMPARISONS: Handlers = {
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), _compared),
    "Clip": _clipped,
    "Min": _extreme,
    "Max": _extreme,
    "Relu": _rectified,
    **dict.fromkeys(("ThresholdedRelu", "Shrink", "HardSigmoid", "HardSwish"), _cornered),
    "Sign": _signed,
    "Where": _chosen,
    **dict.fromkeys(("And", "Or", "Not", "Xor"), _logic),
    "IsNaN": _is_missing,
    **dict.fromkeys(("ArgMax", "ArgMin", "TopK"), _ranked),
}

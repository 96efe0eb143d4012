"""Operators that round: to integers, to another type, or to a quantised type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from onnx_gate.vocabulary import Origin
from onnx_gate.worker.onnx_files.domain.flow import BOOL, FLOATS, INTEGERS, Flow, Part
from onnx_gate.worker.onnx_files.domain.step import Handlers, Known, Step, lose

HALVES = (-1.5, -0.5, 0.5, 1.5, 2.5)


def _cast(step: Step) -> Sequence[Known]:
    given, to = step.given(0), int(step.attribute("to", 0))
    if not isinstance(given, Flow):
        return [given]
    if given.truth or given.reduced:
        return [replace(given, kind=to)]
    change = _changed_kind(step, given, to)
    return [replace(given.each(change), kind=to, truth=to == BOOL)]


def _changed_kind(step: Step, flow: Flow, to: int) -> Callable[[Part], Part]:
    """The change that a cast makes to each part; also notes what the cast says about the input."""
    findings, was = step.findings, flow.kind
    for part in flow.parts:
        if to == BOOL:
            findings.mark_cast(part, [0.0])
            findings.mask(part, sure=was not in FLOATS)
        elif was in FLOATS and to in INTEGERS:
            findings.mark_cast(part, _without_negatives((-1.0, *HALVES), to))
            if part.digits:
                # The next integers that the float on the way could not hold.
                findings.mark_cast(part, [2.0**part.digits + 1, 2.0 ** (part.digits + 1) + 2])
        elif was in INTEGERS and to in INTEGERS:
            findings.mark_cast(part, _ends(was, to))
    if was in FLOATS and to in FLOATS and FLOATS[was] > FLOATS[to]:
        return lambda part: replace(part, coarse=part.coarse * 2.0 ** (FLOATS[was] - FLOATS[to]))
    if was in FLOATS and to in INTEGERS:
        return lambda part: replace(part, whole=True, digits=0)
    if was in INTEGERS and to in FLOATS:
        return lambda part: replace(part, digits=FLOATS[to])
    return lambda part: part


def _without_negatives(numbers: Sequence[float], kind: int) -> list[float]:
    """The numbers that the type can hold: a negative float has no defined value as an unsigned integer."""
    return [number for number in numbers if number > -1 or INTEGERS[kind][0] < 0]


def _ends(was: int, to: int) -> list[float]:
    """The limits of the narrower type, and the numbers just beyond them, as far as the wider type can hold them."""
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
        # No multiples of the divisor: there, rounding decides.
        numbers = [base * each for each in (-2.25, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 2.25)]
    for part in flow.parts:
        step.findings.mark(part, numbers)
    return [Flow(dims=flow.dims, kind=flow.kind)]


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
    """QuantizeLinear: note the limits of the quantised type; between them, the value is followed further."""
    flow, scale, zero = step.flow(), step.array(1), step.array(2)
    if flow is None or scale is None or scale.size != 1 or not scale.all():
        return lose(step)
    shift = 0.0 if zero is None or not zero.size else float(zero.reshape(-1)[0])
    low, high = (-128, 127) if zero is not None and zero.dtype == np.int8 else (0, 255)
    factor = float(scale.reshape(-1)[0])
    for part in flow.parts:
        step.findings.between(part, (low - shift) * factor, (high - shift) * factor, Origin.RANGES)
    return [flow.each(lambda part: replace(part.times(1 / factor).plus(shift), coarse=2.0**16))]


ROUNDING: Handlers = {
    "Cast": _cast,
    **dict.fromkeys(("Round", "Floor", "Ceil"), _rounded),
    "Mod": _remainder,
    "DequantizeLinear": _dequantised,
    "QuantizeLinear": _quantised,
}

"""Answers that are infinite or NaN only in the file, on rows further out than ordinary ones: a warning.

A softmax that is exported without the subtraction of the largest score is right up to a score of 88, and NaN beyond.
Without data it isn't known whether such scores occur, so this is not a divergence. Only answers that are not finite
count, because far out any other difference may be rounding.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from onnx_gate.frameworks.plugin import Feed
from onnx_gate.records.asked import InputSpec
from onnx_gate.records.domain import Domain
from onnx_gate.records.found import Answer
from onnx_gate.wording.numbers import number
from onnx_gate.worker.compare.form import in_numpys_own, kind_of
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.inputs.known import each_values, fixed_elements, says_ordinary
from onnx_gate.worker.onnx_files.graph import every_node
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.run import Answering

Array = npt.NDArray[Any]
MOST_BYTES = 64 * 1024 * 1024
"""Most bytes of a file that is searched for such operators."""
GROWS = frozenset({"Exp", "Sinh", "Cosh", "ReduceSumExp", "ReduceLogSumExp"})
"""Operators that overflow at ordinary input values; squares, in contrast, overflow only far beyond real data."""
_TIMES = (4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0)
"""How many times further from the median the rows lie, one factor per row in turn."""
_TIMES_KNOWN = (4.0, 16.0)
"""The same factors if the model says which values are ordinary."""
_MOST = 1e30
"""Answers of the source above this count as infinite: float32 can't hold the values that they are computed from."""


@dataclass(frozen=True, kw_only=True)
class _Far:
    """Rows that lie further out."""

    feed: Feed
    times: Array
    """The factor of each row: how many times further out it lies."""


@dataclass(frozen=True, kw_only=True)
class _Found:
    """An element that is finite only in the source."""

    output: str
    row: int
    reference: float
    actual: float


def overflow_warning(prepared: Prepared, session: Answering, provider: str, outputs: Collection[str]) -> str:
    """A warning about such answers; empty if there are no such answers, or if this can't be checked."""
    spec = prepared.spec
    if spec.data is not None or spec.variant or prepared.weak or prepared.source is None:
        return ""
    try:
        nodes = _growing(prepared)
        far = _far_rows(prepared) if nodes else None
        found = _find(prepared, session, far, outputs) if far else None
    except Exception:
        # The source may refuse rows that lie far out; then nothing is known.
        return ""
    return _tell(prepared, provider, nodes, far, found) if far and found else ""


def _growing(prepared: Prepared) -> list[str]:
    """The nodes that may overflow, with their operators."""
    if prepared.file_size > MOST_BYTES:
        return []
    model = onnx.load(prepared.onnx, load_external_data=False)
    constants = {tensor.name for tensor in model.graph.initializer}
    found = []
    for node in every_node(model):
        if node.op_type == "Constant":
            constants.update(node.output)
        power = node.op_type == "Pow" and node.input[0] in constants
        if node.domain in ("", "ai.onnx") and (power or node.op_type in GROWS):
            found.append(f"{node.op_type} {node.name!r}" if node.name else node.op_type)
    return found


def _far_rows(prepared: Prepared) -> _Far | None:
    """Ordinary rows, each moved further away from the median of all; None if no input may be moved."""
    case = _largest(prepared.cases)
    inputs = [given for given in prepared.spec.inputs or () if "batch" in given.shape]
    if case is None or not inputs:
        return None
    feed = dict(next(case.calls()).feed)
    free = {given.name: given for given in inputs if given.range is None and given.values is None}
    known = [prepared.domains.inputs.get(name) for name in free]
    steps = _TIMES_KNOWN if any(map(says_ordinary, known)) else _TIMES
    times = np.resize(steps, case.sizes["batch"])
    moved = False
    for name, given in free.items():
        if kind_of(feed[name]) == "float":
            far = _moved(feed[name], given, prepared.domains.inputs.get(name), times)
            moved = moved or not np.array_equal(far, feed[name], equal_nan=True)
            feed[name] = far
    return _Far(feed=feed, times=times) if moved else None


def _largest(cases: list[Case]) -> Case | None:
    ordinary = [case for case in cases if case.generated and "batch" in case.sizes and not (case.edge or case.cut)]
    return max(ordinary, key=lambda case: math.prod(case.sizes.values()), default=None)


def _moved(array: Array, given: InputSpec, domain: Domain | None, times: Array) -> Array:
    """The rows moved further out, except elements that can only have a few values, or that have a range."""
    rows = np.moveaxis(array, given.shape.index("batch"), 0)
    held = fixed_elements(rows, given, domain)
    if any(values.low is not None for values in each_values(domain)):
        held = np.ones_like(held)
    with np.errstate(all="ignore"):
        wide = rows.astype(np.float64)
        middle = np.nanmedian(wide, axis=0)
        far = middle + times.reshape(-1, *[1] * (rows.ndim - 1)) * (wide - middle)
        fitted = far.astype(array.dtype)
    kept = np.where(held | ~np.isfinite(fitted.astype(np.float64)), rows, fitted)
    return np.asarray(np.moveaxis(kept, 0, given.shape.index("batch")), order="C")


def _find(prepared: Prepared, session: Answering, far: _Far, outputs: Collection[str]) -> _Found | None:
    """An element that is finite only in the source, from the row that lies the least far out."""
    call = Call(feed=far.feed)
    reference, actual = prepared.ask_again(call), session.run(prepared.fed(call))
    found = [
        each
        for name in outputs
        if name in reference and name in actual
        for each in _finite_alone(name, reference[name], actual[name].value, len(far.times))
    ]
    return min(found, key=lambda each: far.times[each.row], default=None)


def _finite_alone(name: str, answer: Answer, got: Any, rows: int) -> Iterator[_Found]:
    """One such element for each row of the output that has any."""
    if not isinstance(answer.value, np.ndarray) or not isinstance(got, np.ndarray):
        return
    if kind_of(answer.value) != "float" or answer.value.shape[:1] != (rows,) or got.shape[:1] != (rows,):
        return
    expected, actual = (in_numpys_own(each).astype(np.float64).reshape(rows, -1) for each in (answer.value, got))
    if expected.shape != actual.shape:
        return
    with np.errstate(all="ignore"):
        sound = np.isfinite(expected).all(axis=1) & (np.abs(expected) < _MOST).all(axis=1)
    for row in np.flatnonzero(sound & ~np.isfinite(actual).all(axis=1)):
        place = int(np.argmax(np.where(np.isfinite(actual[row]), -1.0, np.abs(expected[row]))))
        yield _Found(output=name, row=int(row), reference=float(expected[row, place]), actual=float(actual[row, place]))


def _tell(prepared: Prepared, provider: str, nodes: list[str], far: _Far, found: _Found) -> str:
    inputs = [
        given
        for given in prepared.spec.inputs or ()
        if "batch" in given.shape and given.range is None and kind_of(far.feed[given.name]) == "float"
    ]
    sizes = {given.name: _size(far.feed[given.name], given, found.row) for given in inputs}
    name, size = max(sizes.items(), key=lambda item: item[1])
    listed = ", ".join(dict.fromkeys(nodes[:3])) + (" and others" if len(nodes) > 3 else "")
    return (
        f"far from the generated values, the .onnx on {provider} answers {number(found.actual)} for `{found.output}`, "
        f"and the source {number(found.reference)}. There, `{name}` goes up to {number(size)}, "
        f"{far.times[found.row]:.0f} times as far. The file computes {listed}, which overflows in float32, and the "
        "source does not overflow. Fix: subtract the largest value before it, as Softmax does; to have such values "
        f"judged, add `range: [-{_upper(size)}, {_upper(size)}]` to the input `{name}`, or `data`"
    )


def _size(array: Array, given: InputSpec, row: int) -> float:
    part = np.take(array, row, axis=given.shape.index("batch")).astype(np.float64)
    return float(np.abs(part[np.isfinite(part)]).max(initial=0.0))


def _upper(size: float) -> str:
    """A round number that is at least `size`."""
    step = 10.0 ** max(0, math.floor(math.log10(max(size, 1.0))))
    return f"{math.ceil(size / step) * step:.0f}"

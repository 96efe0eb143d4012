"""Tables from which inputs select rows, and sizes of inputs: the number of rows, and the longest possible sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnx_gate.worker.onnx_files.domain.flow import Counting, Dim, Flow, Length, Sizes
from onnx_gate.worker.onnx_files.domain.step import Handlers, Known, Step
from onnx_gate.worker.onnx_files.domain.stored import Stored


def row_of(step: Step, table: Stored, chooser: Known, axis: int = 0) -> Flow:
    """Rows of a constant table, selected by an input's ids or by positions along a dimension."""
    if not table.shape or axis >= len(table.shape):
        return Flow()
    rows = table.shape[axis]
    if isinstance(chooser, Flow) and not chooser.reduced and not chooser.truth:
        for part in chooser.parts:
            step.findings.ids(part, rows)
    if isinstance(chooser, Counting):
        step.findings.position(chooser.name, rows - chooser.more - 1)
    dims = chooser.dims if isinstance(chooser, Flow) else None
    return Flow(dims=None if dims is None else (*table.shape[:axis], *dims, *table.shape[axis + 1 :]))


def sliced_table(step: Step, table: Stored) -> Known:
    """The first rows of a constant table, as many as an input is long."""
    ends = step.given(2)
    starts, axes = step.numbers(1, "starts"), step.numbers(3, "axes")
    if not isinstance(ends, Sizes) or table.shape is None:
        return None
    places = axes if axes is not None else list(range(len(ends.items)))
    last = None
    for place, (axis, end) in enumerate(zip(places, ends.items, strict=False)):
        if isinstance(end, Length) and starts is not None and starts[place] >= 0:
            step.findings.position(end.name, table.shape[axis] - end.more)
            last = end
    counts = last is not None and _counts(table)
    return Counting(name=last.name, more=last.more - 1) if counts and last is not None else None


def _counts(table: Stored) -> bool:
    """Whether a table holds 0, 1, 2, …"""
    array = table.array if table.kind else None
    if array is None or array.dtype.kind not in "iu":
        return False
    return bool(np.array_equal(array.reshape(-1), np.arange(array.size)))


def sizes_plus(sizes: Sizes, number: int) -> Sizes:
    """The sizes after adding a number to each."""
    return Sizes(items=tuple(_plus(item, number) for item in sizes.items))


def _plus(item: int | Length | None, number: int) -> int | Length | None:
    if isinstance(item, Length):
        return replace(item, more=item.more + number)
    return None if item is None else item + number


def _shape(step: Step) -> Sequence[Known]:
    flow = step.given(0)
    dims = flow.dims if isinstance(flow, Flow) else None
    dims = dims or step.dims(step.node.input[0])
    if dims is None:
        return [None]
    items = [Length(name=size) if isinstance(size, str) else size for size in dims]
    return [Sizes(items=tuple(items[slice(step.attribute("start", 0), step.attribute("end"))]))]


def _range(step: Step) -> Sequence[Known]:
    start, end, delta = (_one(step.given(place)) for place in range(3))
    if isinstance(end, Length) and isinstance(start, int) and delta == 1 and start >= 0:
        return [Counting(name=end.name, more=end.more - 1)]
    if isinstance(start, Length) and delta == -1:
        return [Counting(name=start.name, more=start.more)]
    return [None]


def _one(given: Known) -> int | Length | None:
    if isinstance(given, Sizes) and len(given.items) == 1:
        return given.items[0]
    if isinstance(given, Stored) and given.array is not None and given.array.size == 1:
        return int(given.array.reshape(-1)[0])
    return None


def _cumulated(step: Step) -> Sequence[Known]:
    """CumSum: the running count of elements that a mask keeps."""
    flow, axis = step.flow(), step.numbers(1)
    if flow is None or not axis or flow.dims is None or not -len(flow.dims) <= axis[0] < len(flow.dims):
        return [None]
    size: Dim = flow.dims[axis[0]]
    plain = flow.truth or all(part.factor == 1 and not part.shift for part in flow.parts)
    if flow.known:
        step.findings.lost(flow, step.op)
    return [Counting(name=size, more=0) if isinstance(size, str) and plain else Flow(dims=flow.dims)]


def _non_zero(step: Step) -> Sequence[Known]:
    """NonZero: older exporters count with it, as the positions of ones along a single dimension."""
    flow = step.given(0)
    size = flow.dims[0] if isinstance(flow, Flow) and flow.dims and len(flow.dims) == 1 else None
    return [Counting(name=size) if isinstance(size, str) else None]


def _filled(step: Step) -> Sequence[Known]:
    sizes = step.given(0)
    if not isinstance(sizes, Sizes):
        return [None]
    plain = (item if isinstance(item, int) else _name(item) for item in sizes.items)
    return [Flow(dims=tuple(plain))]


def _name(item: Length | None) -> str | None:
    return item.name if item is not None and not item.more else None


def _embed_layer(step: Step) -> Sequence[Known]:
    """EmbedLayerNormalization: the optimiser's own node for words, positions and segments."""
    ids = step.flow(0)
    for chooser, table in ((0, 2), (1, 4)):
        stored = step.given(table)
        if isinstance(stored, Stored):
            row_of(step, stored, step.given(chooser))
    positions, dims = step.given(3), ids.dims if ids is not None else None
    if isinstance(positions, Stored) and positions.shape and dims and isinstance(dims[-1], str):
        step.findings.position(dims[-1], positions.shape[0])
    return [Flow()] * len(step.node.output)


LENGTHS: Handlers = {
    "Shape": _shape,
    "Range": _range,
    "CumSum": _cumulated,
    "NonZero": _non_zero,
    "ConstantOfShape": _filled,
}
LENGTHS_CONTRIB: Handlers = {"EmbedLayerNormalization": _embed_layer}

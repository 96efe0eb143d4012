"""Operators that move values without changing them: where each column of each input goes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnx_gate.worker.onnx_files.domain.flow import Counting, Dim, Flow, Sizes, either, joined
from onnx_gate.worker.onnx_files.domain.operators.lengths import row_of, sliced_table
from onnx_gate.worker.onnx_files.domain.step import Handlers, Known, Step, from_end, lose
from onnx_gate.worker.onnx_files.domain.stored import Stored


def _same(step: Step) -> Sequence[Known]:
    return [step.given(0)]


def _reshape(step: Step) -> Sequence[Known]:
    if isinstance(step.given(0), Counting | Sizes):
        return [step.given(0)]
    flow, shape = step.flow(), step.numbers(1, "shape")
    if flow is None:
        return [None]
    sizes = _asked_sizes(step.given(1))
    dims: tuple[Dim, ...] | None = sizes
    if shape is not None:
        dims = tuple(size if size > 0 else None for size in shape)
    if flow.width is not None and dims and dims[-1] == flow.width:
        return [replace(flow, dims=dims)]
    return [flow.mixed(dims)]


def _asked_sizes(given: Known) -> tuple[Dim, ...] | None:
    if not isinstance(given, Sizes):
        return None
    return tuple(
        item if isinstance(item, int) and item > 0 else getattr(item, "name", None) if not _added(item) else None
        for item in given.items
    )


def _added(item: object) -> bool:
    return bool(getattr(item, "more", 0))


def _flatten(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return [None]
    if flow.rank == 2 and step.attribute("axis", 1) == 1:
        return [flow]
    width = math.prod(size for size in flow.dims[1:] if isinstance(size, int)) if flow.dims else None
    fixed = flow.dims is not None and all(isinstance(size, int) for size in flow.dims[1:])
    return [flow.mixed((flow.dims[0], width) if flow.dims and fixed else (None, None))]


def _squeeze(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return [step.given(0) if isinstance(step.given(0), Counting | Sizes) else None]
    axes = step.numbers(1, "axes")
    if axes is None and len(step.inputs) > 1:
        return [None]
    if flow.dims is None:
        return [flow.mixed(None)]
    rank = len(flow.dims)
    gone = {axis % rank for axis in axes} if axes is not None else {a for a, s in enumerate(flow.dims) if s == 1}
    dims = tuple(size for axis, size in enumerate(flow.dims) if axis not in gone)
    return [_narrowed(flow, dims) if rank - 1 in gone else replace(flow, dims=dims)]


def _narrowed(flow: Flow, dims: tuple[Dim, ...] | None) -> Flow:
    """The flow without its last axis, which has a single position."""
    return replace(flow, cells=(flow.at(0),), by_column=False, aligned=False, dims=dims)


def _unsqueeze(step: Step) -> Sequence[Known]:
    flow, axes = step.flow(), step.numbers(1, "axes")
    if flow is None:
        return [step.given(0) if isinstance(step.given(0), Counting | Sizes) else None]
    if axes is None or flow.dims is None:
        return [flow.mixed(None)]
    rank = len(flow.dims) + len(axes)
    new = {axis % rank for axis in axes}
    old = iter(flow.dims)
    dims = tuple(1 if axis in new else next(old) for axis in range(rank))
    return [flow.mixed(dims) if rank - 1 in new else replace(flow, dims=dims)]


def _transpose(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return [None]
    if flow.dims is None:
        return [flow.mixed(None)]
    order = step.attribute("perm", list(range(len(flow.dims)))[::-1])
    dims = tuple(flow.dims[axis] for axis in order)
    return [replace(flow, dims=dims) if order[-1] == len(dims) - 1 else flow.mixed(dims)]


def _expand(step: Step) -> Sequence[Known]:
    given = step.given(0)
    if not isinstance(given, Flow):
        return [given if isinstance(given, Counting) else None]
    if given.width is not None and given.width > 1:
        return [replace(given, dims=None if given.dims is None else (*(None,) * (len(given.dims) - 1), given.width))]
    return [given.mixed(_asked_sizes(step.given(1)))]


def _slice(step: Step) -> Sequence[Known]:
    given = step.given(0)
    if isinstance(given, Stored):
        return [sliced_table(step, given)]
    starts, ends = step.numbers(1, "starts"), step.numbers(2, "ends")
    axes = step.numbers(3, "axes") or list(range(len(starts or ())))
    steps = step.numbers(4) or [1] * len(axes)
    if isinstance(given, Sizes) and starts and ends:
        return [Sizes(items=given.items[slice(starts[0], ends[0], steps[0])])]
    flow = step.flow()
    if flow is None:
        return [given if isinstance(given, Counting) else None]
    places = [from_end(axis, flow.rank) for axis in axes]
    if None in places:
        return [flow.mixed(None)]
    dims = None
    if flow.dims is not None:
        dims = tuple(None if axis - len(flow.dims) in places else size for axis, size in enumerate(flow.dims))
    if -1 not in places:
        return [replace(flow, dims=dims)]
    return [_sliced(flow, dims, starts, ends, steps, places.index(-1))]


def _sliced(
    flow: Flow,
    dims: tuple[Dim, ...] | None,
    starts: list[int] | None,
    ends: list[int] | None,
    steps: list[int],
    which: int,
) -> Flow:
    """A slice of the last axis, which holds the columns."""
    if starts is None or ends is None or (flow.width is None and (starts[which] < 0 or not 0 <= ends[which] < 4096)):
        return flow.mixed(dims)
    width = flow.width if flow.width is not None else ends[which]
    picked = flow.pick(range(width)[slice(starts[which], ends[which], steps[which])])
    return replace(picked, dims=None if dims is None else (*dims[:-1], len(picked.cells)))


def _picked(step: Step, flow: Flow) -> Known:
    """Gather with constant indices; on the last axis, they select columns."""
    places, axis = step.array(1), step.axis(flow)
    if axis is None or places is None:
        return Flow() if axis in (None, -1) else replace(flow, dims=None)
    if axis != -1:
        dims = _without(flow.dims, axis, places.ndim)
        # The axis is removed or replaced by others; the last axis stays.
        return replace(flow, dims=dims)
    indices = [int(each) for each in np.asarray(places).reshape(-1)]
    found = flow.pick(indices)
    if places.ndim == 0:
        return _narrowed(found, None if flow.dims is None else flow.dims[:-1])
    return found if places.ndim == 1 else found.mixed(None)


def _without(dims: tuple[Dim, ...] | None, axis: int, new: int) -> tuple[Dim, ...] | None:
    if dims is None:
        return None
    place = len(dims) + axis
    return (*dims[:place], *(None,) * new, *dims[place + 1 :])


def _extract(step: Step) -> Sequence[Known]:
    flow, places = step.flow(), step.array(1)
    if flow is None or places is None:
        return [None]
    found = flow.pick([int(each) for each in places.reshape(-1)])
    # A value with one axis becomes a single row.
    return [replace(found, dims=(1, len(found.cells))) if flow.rank == 1 else found]


def _split(step: Step) -> Sequence[Known]:
    flow, count = step.flow(), len(step.node.output)
    if flow is None:
        return [None] * count
    axis = step.axis(flow)
    if axis != -1:
        return [Flow()] * count if axis is None else [replace(flow, dims=None)] * count
    sizes = step.numbers(1, "split")
    if sizes is None and flow.width is not None:
        each = -(-flow.width // count)
        sizes = [min(each, flow.width - place * each) for place in range(count)]
    if sizes is None:
        return [flow.mixed(None)] * count
    starts = [sum(sizes[:place]) for place in range(count)]
    return [flow.pick(range(start, start + size)) for start, size in zip(starts, sizes, strict=False)]


def _concat(step: Step) -> Sequence[Known]:
    if all(isinstance(each, Sizes | Stored) for each in step.inputs):
        return [_joined_sizes(step.inputs)]
    flows = [_as_flow(each) for each in step.inputs]
    if any(flow is None or flow.reduced for flow in flows):
        return [_before_unknown(flows)]
    known = [flow for flow in flows if flow is not None]
    rank = next((flow.rank for flow in known if flow.rank is not None), None)
    axis = from_end(int(step.attribute("axis", 1)), rank)
    if axis == -1:
        return [joined(known) or _before_unknown(list(known))]
    whole = known[0]
    for flow in known[1:]:
        whole = either(whole, flow)
    return [replace(whole, dims=None if whole.dims is None else (None,) * len(whole.dims))]


def _before_unknown(flows: Sequence[Flow | None]) -> Flow:
    """The columns before the first value of unknown width: only their positions are known."""
    known: list[Flow] = []
    for flow in flows:
        if flow is None or flow.columns() is None:
            break
        known.append(flow)
    return (joined(known) if known else None) or Flow()


def _as_flow(given: Known) -> Flow | None:
    if isinstance(given, Stored) and given.shape:
        return Flow(cells=((),), dims=given.shape)
    return given if isinstance(given, Flow) else None


def _joined_sizes(inputs: Sequence[Known]) -> Sizes | None:
    items: list[object] = []
    for each in inputs:
        if isinstance(each, Sizes):
            items += each.items
        elif isinstance(each, Stored) and each.array is not None and each.array.dtype.kind in "iu":
            items += [int(number) for number in each.array.reshape(-1)]
        else:
            return None
    return Sizes(items=tuple(items))  # type: ignore[arg-type]


def _features(step: Step) -> Sequence[Known]:
    flows = [flow for place in range(len(step.inputs)) if (flow := step.flow(place)) is not None]
    return [joined(flows) if len(flows) == len(step.inputs) else None]


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
        return [_picked(step, data)]
    return lose(step)


def _gathered_each(step: Step) -> Sequence[Known]:
    """GatherElements: each element selects an entry along one axis of a table."""
    data = step.given(0)
    if isinstance(data, Stored):
        axis = int(step.attribute("axis", 0))
        row_of(step, data, step.given(1), axis if axis >= 0 else axis + len(data.shape or ()))
    return lose(step)


def _gathered_by_tuple(step: Step) -> Sequence[Known]:
    """GatherND, to which indexing with an array is converted: with one number per index, it selects rows."""
    data, places = step.given(0), step.flow(1)
    one = places is not None and places.dims is not None and places.dims[-1:] == (1,)
    if isinstance(data, Stored) and one and not int(step.attribute("batch_dims", 0)):
        return [row_of(step, data, places, 0)]
    return lose(step)


ROUTING: Handlers = {
    "Identity": _same,
    "Dropout": _same,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _expand,
    "Slice": _slice,
    "Split": _split,
    "Concat": _concat,
    "Gather": _gathered,
    "GatherElements": _gathered_each,
    "GatherND": _gathered_by_tuple,
}
ROUTING_ML: Handlers = {"ArrayFeatureExtractor": _extract, "FeatureVectorizer": _features}

"""Other sizes of the data: cut along its named dimensions, or repeated if the wanted size is longer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import DimLimits, InputSpec, ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.inputs.calls import Call, Case, Feed
from onnx_gate.worker.inputs.data import Dataset
from onnx_gate.worker.inputs.dims import combine, has_batch, named_dims

CUT_CASE = "cut:"
MOST_CALLS = 8
FEWEST = 2
"""The shortest cut that `dims` doesn't list: many models have no answer to a shorter one."""


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """The calls to cut: up to eight at the largest batch."""

    size: int | None
    """None if the data has no batch."""
    starts: tuple[int, ...]


def plan_cuts(spec: ModelSpec, dataset: Dataset, *, stated: bool) -> tuple[list[Case], list[str]]:
    """Cases for the sizes that `dims` lists, then for two shorter sizes of each dimension that it doesn't list.

    With `stated`, the manifest's `inputs` name the dimensions, which means that they vary.
    """
    listed, notes = _listed_sizes(spec, dataset)
    cases = [_cut_case(spec, dataset, sizes, name=_name(spec, dataset, sizes)) for sizes in listed]
    for dim, size in _shorter_sizes(spec, dataset):
        name = f"{CUT_CASE}{dim}={size}"
        cases.append(_cut_case(spec, dataset, {dim: size}, name=name, optional=True, held=stated))
    return cases, notes


def refuse_listed(spec: ModelSpec, why: str) -> list[str]:
    """A note about listed sizes that can't be run; an error if the model itself lists them."""
    listed = [dim for dim in named_dims(spec) if dim in spec.dims and dim not in spec.drawn_dims]
    if not listed:
        return []
    if "dims" in spec.own:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"dims: the sizes of {', '.join(map(repr, listed))} can't be run: {why}",
            fix="remove `dims`, and give data of these sizes",
        )
    return [f"the sizes of {', '.join(listed)} under `dims` were not run: {why}"]


def resize(feed: Feed, inputs: tuple[InputSpec, ...], sizes: Mapping[str, int]) -> Feed:
    """The feed, cut to `sizes` along each dimension; repeated from its beginning if it is shorter."""
    resized = dict(feed)
    for given in inputs:
        for axis, dim in enumerate(given.shape):
            if isinstance(dim, str) and dim in sizes:
                array = resized[given.name]
                indices = np.arange(sizes[dim], dtype=np.intp) % max(1, array.shape[axis])
                resized[given.name] = np.take(array, indices, axis=axis)
    return resized


def one_size_warnings(spec: ModelSpec, cases: list[Case]) -> list[str]:
    """Warnings about dimensions that were run at one size only, though their name means that they vary."""
    found = []
    for dim in named_dims(spec):
        seen = {size for case in cases for size in _seen(spec, case, dim)}
        if len(seen) == 1 and _may_vary(spec, dim):
            found.append(_one_size(spec, dim, seen.pop()))
    batches = (
        {size for case in cases if not case.edge for size in _seen(spec, case, "batch")} if has_batch(spec) else ()
    )
    return [*found, *(_one_batch(size, cases) for size in batches if len(batches) == 1)]


def _one_batch(size: int, cases: list[Case]) -> str:
    sizes = ", ".join(map(str, sorted((1 if size > 1 else 8, size))))
    fix = (
        "Give data of more rows, and several `batches`"
        if any(case.sizes for case in cases)
        else "Record calls of another"
    )
    fix = f"Add `batches: [{sizes}]`" if any(case.generated for case in cases) else fix
    return (
        f"the batch was run at one size only, {size}: a batch built into the model would not be seen. {fix}; write "
        f"{size} for `batch` in `inputs` if the model takes no other"
    )


def _seen(spec: ModelSpec, case: Case, dim: str) -> list[int]:
    """The sizes of a dimension in a case; for recorded calls, they are read from the feeds."""
    if case.sizes:
        return [case.sizes[dim]] if dim in case.sizes else []
    places = [(given.name, given.shape.index(dim)) for given in spec.inputs or () if dim in given.shape]
    feeds = (call.feed for call in case.calls())
    return [np.shape(feed[name])[axis] for feed in feeds for name, axis in places if feed.get(name) is not None]


def _may_vary(spec: ModelSpec, dim: str) -> bool:
    limits = spec.dim_limits.get(dim, DimLimits())
    return limits.max is None or limits.max // limits.multiple * limits.multiple > limits.min


def _one_size(spec: ModelSpec, dim: str, size: int) -> str:
    limits = spec.dim_limits.get(dim, DimLimits())
    step = limits.multiple
    half = max(step, size // 2 // step * step)
    other = half if limits.min <= half < size else (size // step + 1) * step
    sizes = ", ".join(map(str, sorted((size, other))))
    return (
        f"the dimension {dim!r} was run at one size only, {size}: a size built into the model would not be seen. "
        f"Add `dims: {{{dim}: [{sizes}]}}`, or data of several sizes; write {size} in its place in `inputs` if the "
        "model takes no other"
    )


def _listed_sizes(spec: ModelSpec, dataset: Dataset) -> tuple[list[dict[str, int]], list[str]]:
    """Every listed combination that the data itself doesn't have."""
    axes = {dim: spec.dims[dim] for dim in named_dims(spec) if dim in spec.dims and dim not in spec.drawn_dims}
    if not axes:
        return [], []
    if empty := [dim for dim in axes if dataset.sizes.get(dim) == 0]:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"dims: the data has nothing along {empty[0]!r} that could be cut or repeated",
            fix="give data that has",
        )
    combined, notes = combine(axes)
    own = [part.sizes for part in dataset.all_parts]
    return [sizes for sizes in combined if {**dataset.sizes, **sizes} not in own], notes


def _shorter_sizes(spec: ModelSpec, dataset: Dataset) -> Iterator[tuple[str, int]]:
    """For each dimension that the data has at one size only: one less, and half, as near as its limits allow."""
    for dim in named_dims(spec):
        if dim in spec.dims and dim not in spec.drawn_dims:
            continue
        if len({part.sizes.get(dim) for part in dataset.all_parts}) > 1:
            continue
        limits, size = spec.dim_limits.get(dim, DimLimits()), dataset.sizes[dim]
        less = (size - 1) // limits.multiple * limits.multiple
        half = -(-size // (2 * limits.multiple)) * limits.multiple
        for cut in dict.fromkeys((less, half)):
            if max(FEWEST, limits.min) <= cut < size and (limits.max is None or cut <= limits.max):
                yield dim, cut


def _name(spec: ModelSpec, dataset: Dataset, sizes: Mapping[str, int]) -> str:
    shown = {**dataset.sizes, **sizes}
    batch = _batch(spec, dataset).size
    names = {"batch": batch} if batch is not None else {}
    return ",".join(f"{dim}={size}" for dim, size in {**names, **shown}.items())


def _batch(spec: ModelSpec, dataset: Dataset) -> _Batch:
    rows = dataset.rows
    if rows is None:
        return _Batch(size=None, starts=(0,))
    size = dataset.fixed_batch or max((batch for batch in spec.batches if batch <= rows), default=rows)
    starts = range(0, rows - size + 1, size)
    count = min(MOST_CALLS, len(starts))
    return _Batch(size=size, starts=tuple(starts[i * len(starts) // count] for i in range(count)))


def _cut_case(
    spec: ModelSpec,
    dataset: Dataset,
    sizes: dict[str, int],
    *,
    name: str,
    optional: bool = False,
    held: bool = True,
) -> Case:
    batch = _batch(spec, dataset)

    def calls() -> Iterator[Call]:
        for start in batch.starts:
            feed = dataset.inputs if batch.size is None else dataset.slice(start, start + batch.size)
            yield Call(feed=resize(feed, spec.inputs or (), sizes), first_row=start)

    rows = {"batch": batch.size} if batch.size is not None else {}
    return Case(
        name=name, calls=calls, sizes={**rows, **dataset.sizes, **sizes}, optional=optional, cut=True, held=held
    )

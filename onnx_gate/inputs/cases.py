"""The cases of a model: named lists of calls, each with one feed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from onnx_gate.errors import CannotJudge
from onnx_gate.inputs.data import Dataset
from onnx_gate.inputs.edges import edge_feeds
from onnx_gate.inputs.generate import generate
from onnx_gate.inputs.values import needs_data
from onnx_gate.records import Graph, InputSpec, ModelSpec

SAMPLED_CALLS = 8
"""Calls made at each batch size other than the largest: it alone sees every row."""
MOST_COMBINATIONS = 64
Feed = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One feed, and what was recorded for it."""

    feed: Feed
    """Arrays by input name, in the schema's dtype."""
    first_row: int = 0
    """Of the data, so that a worst index can be found in it."""
    recorded: Feed | None = None
    """The reference, where the data holds it."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A named line of the report."""

    name: str
    """Such as `batch=7,seq=16`."""
    calls: Callable[[], Iterator[Call]]
    """Made anew each time, so that only one feed is in memory."""
    sizes: dict[str, int]
    """The dynamic dimensions of its feeds."""


def schema_from_graph(graph: Graph, spec: ModelSpec) -> tuple[InputSpec, ...]:
    """The inputs as the .onnx declares them; its first dynamic dimension is the batch."""
    inputs = []
    for value in graph.inputs:
        if value.shape is None:
            form = value.dtype if value.element else "unranked"
            given = InputSpec(name=value.name, dtype=value.element or value.dtype, shape=(), form=form)
            if not spec.data or "undeclared" in (value.dtype, value.element):
                raise needs_data(given, spec.source.shown)
            inputs.append(given)
            continue
        shape = tuple(
            size if isinstance(size, int) else "batch" if axis == 0 else size or f"{value.name}_dim{axis}"
            for axis, size in enumerate(value.shape)
        )
        inputs.append(InputSpec(name=value.name, dtype=value.dtype, shape=shape))
    return tuple(inputs)


def plan_cases(spec: ModelSpec, dataset: Dataset | None) -> tuple[list[Case], list[str]]:
    """Every case of a model whose schema is known, and notes on what was left out."""
    _check_dims(spec)
    if dataset and dataset.recorded:
        edges = ["edge cases were not run: the data is made of recorded calls"] if spec.edges else []
        return _recorded_cases(dataset), edges
    if dataset:
        cases, notes = _data_cases(spec, dataset)
    else:
        cases, notes = _generated_cases(spec)
    if spec.edges and any(given.form != "tensor" for given in spec.inputs or ()):
        return cases, [*notes, "edge cases were not run: not all inputs are tensors of a declared shape"]
    return [*cases, *(_edge_cases(spec) if spec.edges else [])], notes


def example_sizes(spec: ModelSpec) -> dict[str, int]:
    """Sizes to export with: above 1, which exporters take for a constant, and each one different."""
    sizes = {"batch": 2}
    for name in _named_dims(spec):
        tried = [size for size in spec.dims.get(name, ()) if size > 1 and size not in sizes.values()]
        sizes[name] = tried[0] if tried else max(sizes.values()) + 1
    return sizes


def example_feed(spec: ModelSpec, cases: list[Case]) -> Feed:
    """A feed to export with: that of a case whose sizes no exporter takes for constants, else generated."""
    for case in cases:
        sizes = list(case.sizes.values())
        if min(sizes, default=2) > 1 and len(set(sizes)) == len(sizes) and not case.name.startswith("edge="):
            return next(case.calls()).feed
    return generate(spec.inputs or (), example_sizes(spec), seed=f"{spec.base}/example")


def _named_dims(spec: ModelSpec) -> list[str]:
    dims = (size for given in spec.inputs or () for size in given.shape if isinstance(size, str))
    return [name for name in dict.fromkeys(dims) if name != "batch"]


def _has_batch(spec: ModelSpec) -> bool:
    return any("batch" in given.shape for given in spec.inputs or ())


def _check_dims(spec: ModelSpec) -> None:
    """What the model's own `dims` name must be a dimension; the manifest could tell only where it has the schema."""
    known = _named_dims(spec)
    for name in spec.dims if "dims" in spec.own else ():
        if name not in known:
            raise CannotJudge(
                "load-failed",
                f"dims: no input of the .onnx has a dimension {name!r}; named ones: {', '.join(known) or 'none'}",
                fix="correct its name, or remove it",
            )


def _generated_cases(spec: ModelSpec) -> tuple[list[Case], list[str]]:
    axes = {"batch": spec.batches} if _has_batch(spec) else {}
    for name in _named_dims(spec):
        if name not in spec.dims:
            raise CannotJudge(
                "load-failed",
                f"the dimension {name!r} of the .onnx has no values to try",
                fix=f"add `dims: {{{name}: [1, 16, 128]}}`, or `data`",
            )
        axes[name] = spec.dims[name]
    combinations, notes = _combine(axes)
    return [_generated_case(spec, sizes) for sizes in combinations], notes


def _combine(axes: dict[str, tuple[int, ...]]) -> tuple[list[dict[str, int]], list[str]]:
    """All combinations; where those are too many, each value of each dimension at least once."""
    count = math.prod(len(values) for values in axes.values())
    if count <= MOST_COMBINATIONS:
        return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())], []
    longest = max(len(values) for values in axes.values())
    rows = [{name: values[i % len(values)] for name, values in axes.items()} for i in range(longest)]
    return rows, [f"{count} combinations of dimensions are too many: every value was run, not every combination"]


def _generated_case(spec: ModelSpec, sizes: dict[str, int]) -> Case:
    name = ",".join(f"{dim}={size}" for dim, size in sizes.items()) or "fixed"

    def calls() -> Iterator[Call]:
        yield Call(feed=generate(spec.inputs or (), sizes, seed=f"{spec.base}/{name}"))

    return Case(name=name, calls=calls, sizes=sizes)


def _edge_cases(spec: ModelSpec) -> list[Case]:
    sizes = example_sizes(spec) | {"batch": 3}

    def case(name: str, feed: Feed) -> Case:
        return Case(name=f"edge={name}", calls=lambda: iter([Call(feed=feed)]), sizes=sizes)

    return [case(name, feed) for name, feed in edge_feeds(spec.inputs or (), sizes, seed=f"{spec.base}/edges")]


def _recorded_cases(dataset: Dataset) -> list[Case]:
    def case(name: str, call: Call) -> Case:
        return Case(name=name, calls=lambda: iter([call]), sizes={})

    return [case(part.name, Call(feed=part.inputs, recorded=part.outputs)) for part in dataset.recorded]


def _data_cases(spec: ModelSpec, dataset: Dataset) -> tuple[list[Case], list[str]]:
    rows = dataset.rows
    if rows is None:
        whole = "the data was fed in one call, without `batches`: no input's first dimension is called `batch`"
        notes = [whole] if "batches" in spec.own or any(_dynamic_first(given) for given in spec.inputs or ()) else []
        return [Case(name="data", calls=lambda: iter([Call(feed=dataset.inputs)]), sizes=dataset.sizes)], notes
    if dataset.fixed_batch:
        return _fixed_batch_cases(dataset, rows, dataset.fixed_batch), []
    usable = [batch for batch in spec.batches if batch <= rows] or [rows]
    dropped = [batch for batch in spec.batches if batch > rows]
    notes = [f"batch {', '.join(map(str, dropped))} was not run: the data has {rows} rows"] if dropped else []
    largest = max(usable)
    cases = []
    for batch in usable:
        starts = list(range(0, rows - batch + 1, batch))
        if batch != largest and len(starts) > SAMPLED_CALLS:
            starts = [starts[i * len(starts) // SAMPLED_CALLS] for i in range(SAMPLED_CALLS)]
        cases.append(_slice_case(dataset, batch, starts))
    if remainder := rows % largest:
        case = _slice_case(dataset, remainder, [rows - remainder])
        taken = any(case.name == other.name for other in cases)
        cases.append(replace(case, name=f"{case.name} (last rows)") if taken else case)
    return cases, notes


def _fixed_batch_cases(dataset: Dataset, rows: int, batch: int) -> list[Case]:
    """The schema's own batch size; a remainder is filled up with the rows before it."""
    cases = [_slice_case(dataset, batch, list(range(0, rows - batch + 1, batch)))]
    if rows % batch:
        cases.append(replace(_slice_case(dataset, batch, [rows - batch]), name=f"batch={batch} (last rows)"))
    return cases


def _dynamic_first(given: InputSpec) -> bool:
    return bool(given.shape) and isinstance(given.shape[0], str)


def _slice_case(dataset: Dataset, batch: int, starts: list[int]) -> Case:
    def calls() -> Iterator[Call]:
        for start in starts:
            yield Call(feed=dataset.slice(start, start + batch), first_row=start)

    return Case(name=f"batch={batch}", calls=calls, sizes={"batch": batch, **dataset.sizes})

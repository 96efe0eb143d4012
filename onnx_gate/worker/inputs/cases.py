"""The cases of a model: named lists of calls, each with one feed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Domains
from onnx_gate.records.found import Graph
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.inputs.cuts import plan_cuts, refuse_listed
from onnx_gate.worker.inputs.data import Dataset
from onnx_gate.worker.inputs.data.values import needs_data
from onnx_gate.worker.inputs.dims import MOST_COMBINATIONS, check_dims, example_sizes, has_batch, sizes_to_run
from onnx_gate.worker.inputs.edges import are_listed, plan_edges
from onnx_gate.worker.inputs.known import generate

SAMPLED_CALLS = 8
"""Calls made at each batch size except the largest: only the largest gets every row."""
_OTHER_SIZES = "other sizes"
"""The name of the case for the remaining sizes, if the data has more sizes than a report can hold."""


def schema_from_graph(graph: Graph, spec: ModelSpec) -> tuple[InputSpec, ...]:
    """The inputs as the .onnx declares them; a dynamic first dimension is the batch."""
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


def outputs_by_row(graph: Graph) -> frozenset[str]:
    """The outputs that have one row per input row, according to the .onnx."""
    # Nothing says that dimensions without a name are the same.
    first = {value.shape[0] for value in graph.inputs if value.shape and isinstance(value.shape[0], str)}
    return frozenset(value.name for value in graph.outputs if value.shape and value.shape[0] in first)


def has_one_batch(graph: Graph) -> bool:
    """Whether the .onnx says that the dynamic first dimensions of its inputs are the same."""
    first = [value.shape[0] for value in graph.inputs if value.shape and not isinstance(value.shape[0], int)]
    return len(first) < 2 or (None not in first and len(set(first)) == 1)


def plan_cases(
    spec: ModelSpec, dataset: Dataset | None, domains: Domains = NOTHING_KNOWN, *, stated: bool = True
) -> tuple[list[Case], list[str]]:
    """Every case of a model whose schema is known, and notes about skipped cases.

    Without data, values are drawn from `domains`. With `stated`, the schema comes from the manifest: a dimension that
    has a name there must vary.
    """
    check_dims(spec)
    told = list(dataset.notes) if dataset else []
    if dataset and dataset.recorded:
        why = "the data is made of recorded calls"
        notes = [*refuse_listed(spec, why), *_no_edges(spec, why, fix="remove `edges`, or the recorded outputs")]
        return _recorded_cases(dataset), [*told, *notes]
    if dataset:
        cases, notes = _cases_by_size(spec, dataset) if dataset.parts else _data_cases(spec, dataset)
    else:
        sizes, notes = sizes_to_run(spec)
        cases = [_generated_case(spec, given, domains) for given in sizes]
    if any(given.form != "tensor" for given in spec.inputs or ()):
        why = "not all inputs are tensors of a declared shape"
        notes += [
            *refuse_listed(spec, why),
            *_no_edges(spec, why, fix="remove `edges`, or declare the shapes in `inputs`"),
        ]
        return cases, [*told, *notes]
    if dataset:
        cuts, more = plan_cuts(spec, dataset, stated=stated)
        cases, notes = [*cases, *cuts], [*notes, *more]
    return [*cases, *(plan_edges(spec, dataset, domains) if spec.edges else [])], [*told, *notes]


def example_case(spec: ModelSpec, cases: list[Case], domains: Domains = NOTHING_KNOWN) -> Case:
    """The case to export with: one whose sizes no exporter mistakes for constants, else a generated one."""
    for case in cases:
        sizes = list(case.sizes.values())
        if min(sizes, default=2) > 1 and len(set(sizes)) == len(sizes) and not case.edge:
            return case
    sizes_of_it = example_sizes(spec)
    feed = generate(spec.inputs or (), sizes_of_it, seed=f"{spec.base}/example", domains=domains)
    return Case(name="the example of the conversion", calls=lambda: iter([Call(feed=feed)]), sizes=sizes_of_it)


def _generated_case(spec: ModelSpec, sizes: dict[str, int], domains: Domains) -> Case:
    name = ",".join(f"{dim}={size}" for dim, size in sizes.items()) or "fixed"

    def calls() -> Iterator[Call]:
        yield Call(feed=generate(spec.inputs or (), sizes, seed=f"{spec.base}/{name}", domains=domains))

    return Case(name=name, calls=calls, sizes=sizes, generated=True)


def _no_edges(spec: ModelSpec, why: str, *, fix: str) -> list[str]:
    """A note that edge cases can't be run; an error if the model itself lists them."""
    if not spec.edges:
        return []
    if are_listed(spec):
        raise CannotJudge(Cause.LOAD_FAILED, f"edges: edge cases can't be run: {why}", fix=fix)
    return [f"edge cases were not run: {why}"]


def _recorded_cases(dataset: Dataset) -> list[Case]:
    def case(name: str, call: Call) -> Case:
        return Case(name=name, calls=lambda: iter([call]), sizes={})

    return [case(part.name, Call(feed=part.inputs, recorded=part.outputs)) for part in dataset.recorded]


def _data_cases(spec: ModelSpec, dataset: Dataset) -> tuple[list[Case], list[str]]:
    rows = dataset.rows
    if rows is None:
        whole = "the data was fed in one call, without `batches`: no input has a dimension called `batch`"
        dynamic = any(_dynamic_first(given) for given in spec.inputs or ()) and not has_batch(spec)
        notes = [whole] if dynamic or ("batches" in spec.own and not has_batch(spec)) else []
        call = Call(feed=dataset.inputs, given=dataset.slice_given(0, 0))
        return [Case(name="data", calls=lambda: iter([call]), sizes=dataset.sizes)], notes
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
        cases.append(_slice_case(dataset, batch, starts, whole=batch == largest))
    if remainder := rows % largest:
        case = _slice_case(dataset, remainder, [rows - remainder], whole=True)
        taken = any(case.name == other.name for other in cases)
        cases.append(replace(case, name=f"{case.name} (last rows)") if taken else case)
    return cases, notes


def _cases_by_size(spec: ModelSpec, dataset: Dataset) -> tuple[list[Case], list[str]]:
    """Cases for each size of the data, at its largest batch; the size with the most rows runs at all batches."""
    made: dict[str, list[Case]] = {}
    run: set[int] = set()
    most = max(part.rows or 0 for part in dataset.parts)
    for number, part in enumerate(sorted(dataset.parts, key=lambda part: -(part.rows or 0))):
        rows = part.rows or 0
        fitting = [batch for batch in spec.batches if batch <= rows]
        run |= set(fitting if rows == most else fitting[-1:])
        batches = spec.batches if rows == most else tuple(fitting[-1:]) or spec.batches
        for case in _data_cases(replace(spec, batches=batches), part)[0]:
            name = ",".join(f"{dim}={size}" for dim, size in case.sizes.items()) or case.name
            made.setdefault(name if number < MOST_COMBINATIONS else _OTHER_SIZES, []).append(case)
    dropped = [batch for batch in spec.batches if batch not in run and most]
    notes = (
        [f"batch {', '.join(map(str, dropped))} was not run: no size of the data has so many rows"] if dropped else []
    )
    return [_chained(name, cases) for name, cases in made.items()], notes


def _chained(name: str, cases: list[Case]) -> Case:
    """One case with the calls of several cases, one after the other."""
    sizes = cases[0].sizes if all(case.sizes == cases[0].sizes for case in cases) else {}
    return Case(name=name, calls=lambda: (call for case in cases for call in case.calls()), sizes=sizes)


def _fixed_batch_cases(dataset: Dataset, rows: int, batch: int) -> list[Case]:
    """Cases at the schema's fixed batch size; a last partial batch is filled with the rows before it."""
    cases = [_slice_case(dataset, batch, list(range(0, rows - batch + 1, batch)), whole=True)]
    if rows % batch:
        case = _slice_case(dataset, batch, [rows - batch], whole=True, repeated=batch - rows % batch)
        cases.append(replace(case, name=f"batch={batch} (last rows)"))
    return cases


def _dynamic_first(given: InputSpec) -> bool:
    return bool(given.shape) and isinstance(given.shape[0], str)


def _slice_case(dataset: Dataset, batch: int, starts: list[int], *, whole: bool, repeated: int = 0) -> Case:
    """A case of batches of the data; `whole` batches, which together hold every row once, get unrounded rows too.

    `repeated` rows at the start of a batch are in an earlier one too.
    """

    def calls() -> Iterator[Call]:
        for start in starts:
            stop = start + batch
            given = dataset.slice_given(start, stop) if whole else None
            yield Call(feed=dataset.slice(start, stop), first_row=start, given=given, repeated=repeated)

    return Case(name=f"batch={batch}", calls=calls, sizes={"batch": batch, **dataset.sizes})

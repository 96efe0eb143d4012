"""The first half of a job: load, inputs, reference, convert, check → Prepared."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.plugin import Answers, Plugin, get_plugin
from onnx_gate.protocol import Event, Job, Note, Stage
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import ConvertInfo, Graph
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.compare.form import onnx_name
from onnx_gate.worker.inputs.calls import Case
from onnx_gate.worker.inputs.cases import example_feed, has_one_batch, outputs_by_row, plan_cases, schema_from_graph
from onnx_gate.worker.inputs.cuts import one_size_warnings
from onnx_gate.worker.inputs.data import load_dataset
from onnx_gate.worker.onnx_files.branches import untried_branches
from onnx_gate.worker.onnx_files.checks import checker_note, structural_breaches
from onnx_gate.worker.onnx_files.files import keep_copy, name_weights
from onnx_gate.worker.onnx_files.graph import read_graph
from onnx_gate.worker.onnx_files.sizes import fixed_sizes
from onnx_gate.worker.trial.columns import check_columns
from onnx_gate.worker.trial.outputs import check_rules, match_outputs
from onnx_gate.worker.trial.prepared import Prepared, answer_call
from onnx_gate.worker.trial.reference import ask_cuts, ask_edges
from onnx_gate.worker.trial.samples import describe_feed
from onnx_gate.worker.trial.unrounded import unrounded
from onnx_gate.worker.user_code import failed, require_access
from onnx_gate.worker.variants.in_place import as_lowered, fitting_cases, lower_precision, overflow_warning

FLOAT32 = "float32"
"""The folder in the worker's own that holds the model of which a variant is made."""
SAME_IN_FLOAT32 = (
    "no outputs are recorded, so the reference is the model that the variant was made of: "
    "this finds what the precision costs, not faults of the conversion"
)
WEAK_REFERENCE = (
    "no outputs are recorded, so the reference is the same file run on the CPU without optimisations: "
    "this finds faults of the runtime, not of the conversion"
)


def prepare(job: Job, send: Callable[[Event], None]) -> Prepared:
    """Everything up to the ONNX file, its cases and what is expected of it."""
    spec = job.spec
    send(Stage(name="load"))
    require_access(spec, job.scratch)
    framework = get_plugin(spec.framework)
    shipped = read_graph(spec.onnx, spec.onnx_shown) if spec.onnx else None
    source = framework.load(spec)
    send(Stage(name="inputs"))
    stated, one_batch, fixed = spec.inputs is not None, True, None
    if not stated and shipped is not None:
        fixed, one_batch = fixed_sizes(spec, shipped), has_one_batch(shipped)
        spec = replace(fixed.spec, inputs=schema_from_graph(shipped, spec))
    by_row = outputs_by_row(shipped) if shipped else frozenset()
    outputs = shipped.outputs if shipped else ()
    dataset = load_dataset(spec, outputs, batched=by_row, one_batch=one_batch) if spec.data else None
    if dataset:
        check_columns(framework.fitted_columns(source), spec, dataset.columns)
    cases, notes = plan_cases(spec, dataset, stated=stated)
    cases, beyond = fitting_cases(spec, cases)
    notes += beyond
    if spec.framework == "onnx" and not (dataset and dataset.holds_reference):
        send(Note(text=SAME_IN_FLOAT32) if spec.variant else Note(text=WEAK_REFERENCE, weak=True))
    send(Stage(name="reference"))
    first = _first_answers(framework, source, spec, cases)
    path, graph, seconds = _onnx_file(job, spec, framework, source, cases, shipped, send)
    prepared = Prepared(spec=spec, onnx=path, framework=framework, source=source, cases=cases)
    if dataset and dataset.was_rounded:
        prepared.wide = unrounded(framework, source, spec)
    if spec.variant:
        send(Stage(name="variant"))
        started = time.monotonic()
        prepared.base, prepared.onnx = path, str(Path(job.scratch) / f"{spec.id}.onnx")
        notes += lower_precision(spec, Path(path), Path(prepared.onnx), dataset)
        graph, seconds = read_graph(prepared.onnx, f"{spec.id}.onnx"), seconds + time.monotonic() - started
    send(Stage(name="check"))
    send(_describe(spec, graph, seconds))
    _check(prepared, graph, first, notes)
    if fixed and fixed.breaches:
        prepared.breaches += fixed.breaches
        prepared.cause = prepared.cause or Cause.BATCH_BAKED
    notes += ask_edges(prepared, send)
    notes += ask_cuts(prepared, send)
    for note in notes:
        send(Note(text=note))
    for warning in (*(fixed.warnings if fixed else ()), *_sizes_not_run(prepared, graph), *_overflows(prepared)):
        send(Note(text=warning, warns=True))
    return prepared


def _sizes_not_run(prepared: Prepared, graph: Graph) -> list[str]:
    """What may be built in, or branched on, and was not seen; of a variant the model itself says it."""
    spec = prepared.spec
    if spec.variant:
        return []
    run: dict[str, set[int]] = {}
    for case in prepared.cases:
        for dim, size in case.sizes.items():
            run.setdefault(dim, set()).add(size)
    shapes = {given.name: given.shape for given in spec.inputs or ()}
    return [*one_size_warnings(spec, prepared.cases), *untried_branches(graph.branches, shapes, run)]


def _overflows(prepared: Prepared) -> list[str]:
    """What float16 can't hold and the CPU hides, on the largest feed."""
    variant, base = prepared.spec.variant, prepared.base
    if variant is None or base is None or variant.kind != "fp16":
        return []
    call = next(max(prepared.cases, key=lambda case: case.sizes.get("batch", 0)).calls())
    warning = overflow_warning(prepared.onnx, base, call.feed, prepared.fed(call))
    return [warning] if warning else []


def _first_answers(framework: Plugin, source: Any, spec: ModelSpec, cases: list[Case]) -> Answers:
    case = cases[0]
    try:
        return answer_call(framework, source, spec, next(case.calls()))
    except (CannotJudge, MemoryError):
        raise
    except BaseException as error:
        raise source_failed(spec, case, error) from error


def source_failed(spec: ModelSpec, case: Case, error: BaseException) -> CannotJudge:
    """The source itself can't answer a feed."""
    fix = f"correct `inputs` to what the model takes; it was fed {describe_feed(next(case.calls()).feed)}."
    if case.edge:
        fix = f"remove {case.edge} from `edges` if the model isn't to answer it, or {fix}"
    if case.cut:
        fix = f"remove this size from `dims` if the model isn't to answer it, or {fix}"
    if type(error).__name__ == "NotFittedError":
        fix = "fit the estimator before it is saved"
    elif any("int" in given.dtype and given.range is given.values is None for given in spec.inputs or ()):
        fix += " Integers are drawn from 0 to 9 unless `range` or `values` is given"
    return failed(Cause.LOAD_FAILED, f"{spec.source.shown}: the source itself fails on {case.name}", error, fix=fix)


def _onnx_file(
    job: Job,
    spec: ModelSpec,
    framework: Plugin,
    source: Any,
    cases: list[Case],
    shipped: Graph | None,
    send: Callable[[Event], None],
) -> tuple[str, Graph, float]:
    """The shipped file, or the one converted now, with what it says of itself and the seconds that it took."""
    folder = Path(job.scratch) / FLOAT32 if spec.variant else Path(job.scratch)
    folder.mkdir(exist_ok=True)
    if spec.onnx and shipped:
        # The copy is what is judged: what is kept in the report is then the very model that was.
        return keep_copy(spec.onnx, folder, spec.id, spec.onnx_shown), shipped, 0.0
    send(Stage(name="convert"))
    path, started = str(folder / f"{spec.id}.onnx"), time.monotonic()
    for note in framework.convert(source, spec, Path(path), example_feed(spec, cases)):
        send(Note(text=note))
    name_weights(path)
    return path, read_graph(path, f"{spec.id}.onnx"), time.monotonic() - started


def _describe(spec: ModelSpec, graph: Graph, seconds: float) -> ConvertInfo:
    return ConvertInfo(
        opset=graph.opsets.get("", 0),
        opsets={domain: version for domain, version in graph.opsets.items() if domain},
        ir_version=graph.ir_version,
        nodes=graph.nodes,
        size_bytes=graph.size_bytes,
        seconds=seconds,
        shipped=spec.onnx is not None,
        variant=spec.variant.kind if spec.variant else "",
    )


def _check(prepared: Prepared, graph: Graph, first: Answers, notes: list[str]) -> None:
    """Structure, then names: what isn't as asked becomes a breach."""
    spec = prepared.spec
    check_rules(spec, graph.outputs)
    asked, prepared.halves = as_lowered(spec, graph)
    for breach, cause in structural_breaches(asked, graph):
        prepared.breaches.append(breach)
        prepared.cause = prepared.cause or cause
    prepared.answered = frozenset(first)
    prepared.names, breaches = match_outputs(spec, graph.outputs, first)
    prepared.breaches += breaches
    if note := checker_note(prepared.onnx):
        notes.append(note)
    if prepared.lenient:
        declared = {value.name: value.element or value.dtype for value in graph.outputs}
        for name, reference in prepared.names.items():
            wanted = first[reference].dtype
            if wanted and declared[name] not in (wanted, "undeclared"):
                notes.append(
                    f"{name} is {onnx_name(declared[name])} in the .onnx and {onnx_name(wanted)} in the source"
                )

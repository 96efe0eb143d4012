"""The first half of a job: load the source, inputs, reference, convert, check → Prepared."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.plugin import Answers, Plugin, get_plugin
from onnx_gate.protocol import FLOAT32, Event, Job, Note, Stage
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Domains
from onnx_gate.records.found import ConvertInfo, Graph
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.inputs.cases import example_case, has_one_batch, outputs_by_row, plan_cases, schema_from_graph
from onnx_gate.worker.inputs.cuts import one_size_warnings
from onnx_gate.worker.inputs.data import Dataset, load_dataset
from onnx_gate.worker.inputs.data.casting import made_equal
from onnx_gate.worker.inputs.data.fitted import check_columns
from onnx_gate.worker.inputs.known import draws_known, joined
from onnx_gate.worker.onnx_files.branches import untried_branches
from onnx_gate.worker.onnx_files.checks import checker_note, random_warnings, structural_breaches
from onnx_gate.worker.onnx_files.domain.analysis import domains_of
from onnx_gate.worker.onnx_files.files import keep_copy, name_weights
from onnx_gate.worker.onnx_files.graph import read_graph
from onnx_gate.worker.onnx_files.sizes import FixedSizes, fixed_sizes, stated_sizes
from onnx_gate.worker.runtime.options import missing_inputs
from onnx_gate.worker.trial.domains import feed_domain, source_domains, with_searched
from onnx_gate.worker.trial.fixed import also_answered
from onnx_gate.worker.trial.outputs import check_rules, differences_of_form, match_outputs
from onnx_gate.worker.trial.prepared import Prepared, answer_call
from onnx_gate.worker.trial.reference import ask_cuts, ask_edges, ask_padded, refusal, why_refused, with_answered_rows
from onnx_gate.worker.trial.repeats.randomness import ask_watched, draws
from onnx_gate.worker.trial.samples import describe_feed
from onnx_gate.worker.trial.unrounded import unrounded
from onnx_gate.worker.trial.veil import veiled
from onnx_gate.worker.user_code import failed, require_access
from onnx_gate.worker.variants.in_place import as_lowered, fitting_cases, lower_precision, overflow_warning

SAME_IN_FLOAT32 = (
    "no outputs are recorded, so the reference is the model that the variant was made of: "
    "this finds what the precision costs, not faults of the conversion"
)
WEAK_REFERENCE = (
    "no outputs are recorded, so the reference is the same file run on the CPU without optimisations: "
    "this finds faults of the runtime, not of the conversion"
)

LEFT_OUT = "{}: generated rows that the source does not answer were replaced ({})"
DEFAULTED = (
    "{}: default values were fed, since the source answers no row with the values that the model seems to know ({}). "
    "State what it takes with `range` or `values` in `inputs`, or give `data`"
)


@dataclass
class _Inputs:
    """The data and cases that a model is fed with."""

    spec: ModelSpec
    """The model, with its schema filled in."""
    dataset: Dataset | None
    stated: bool
    """Whether the schema comes from the manifest."""
    fixed: FixedSizes | None
    """Sizes that the file fixes; None if they aren't checked, or if there are none."""
    domains: Domains
    """What the source and the file know about the values."""
    cases: list[Case] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    answered: Case | None = None
    """The largest case whose rows were replaced because the source refuses some; None if there is no such case."""
    defaulted: dict[str, list[str]] = field(default_factory=dict)
    """Why the source refuses all values that the model seems to know → the cases that got default values instead."""

    def plan(self, domains: Domains) -> None:
        """Plan the cases: values are drawn from what is known; with data, only the data is used."""
        self.domains = domains
        cases, notes = plan_cases(self.spec, self.dataset, domains, stated=self.stated)
        self.cases, beyond = fitting_cases(self.spec, cases)
        self.notes = [*notes, *beyond]

    @property
    def guessed(self) -> bool:
        """Whether values were drawn from what the model seems to know; the model may not accept them."""
        inputs = self.domains.inputs
        drawn = any(draws_known(given, inputs.get(given.name)) for given in self.spec.inputs or ())
        return self.dataset is None and drawn

    def replace_refused(self, case: Case, why: Callable[[Call], str | None]) -> bool:
        """Feed other rows or default values where the source refuses a case; False if it refuses these too."""
        refused = why(next(case.calls())) or "it refuses the case"
        answered = None if case.edge else with_answered_rows(self.spec, case, self.domains, why)
        if answered is not None:
            self.answered = max((answered, self.answered or answered), key=lambda each: math.prod(each.sizes.values()))
            self.notes.append(LEFT_OUT.format(case.name, refused))
        else:
            default = next((each for each in self._default_cases() if each.name == case.name), None)
            if default is None or any(why(call) is not None for call in default.calls()):
                return False
            answered = default
            if not case.edge:
                self.defaulted.setdefault(refused, []).append(case.name)
        self.cases[self.cases.index(case)] = answered
        return True

    def _default_cases(self) -> list[Case]:
        return fitting_cases(self.spec, plan_cases(self.spec, self.dataset, stated=self.stated)[0])[0]

    @property
    def doubts(self) -> list[str]:
        """Warnings about the cases that were fed default values."""
        return [DEFAULTED.format(", ".join(cases), why) for why, cases in self.defaulted.items()]

    @property
    def is_drawn(self) -> bool:
        """Whether any case is drawn from what the model knows; False if the source refused all such values."""
        replaced = {name for cases in self.defaulted.values() for name in cases}
        return bool({case.name for case in self.cases if not case.edge} - replaced)


def prepare(job: Job, send: Callable[[Event], None]) -> Prepared:
    """Prepare everything for the run: the ONNX file, its cases, and the expected answers."""
    send(Stage(name="load"))
    require_access(job.spec, job.scratch)
    framework = get_plugin(job.spec.framework)
    shipped = read_graph(job.spec.onnx, job.spec.onnx_shown) if job.spec.onnx else None
    source = framework.load(job.spec)
    send(Stage(name="inputs"))
    inputs = _inputs(job.spec, shipped, framework, source)
    spec, dataset = inputs.spec, inputs.dataset
    itself = spec.framework == "onnx" and not (dataset and dataset.holds_reference)
    if itself:
        send(Note(text=SAME_IN_FLOAT32) if spec.variant else Note(text=WEAK_REFERENCE, weak=True))
    send(Stage(name="reference"))
    first, warnings = _first_answers(framework, source, inputs)
    try:
        path, graph, seconds = _onnx_file(job, spec, framework, source, inputs.cases, shipped, send)
    except Exception:
        # The source may refuse the example that it is converted with.
        if not inputs.guessed or not _replace_all_refused(framework, source, inputs):
            raise
        path, graph, seconds = _onnx_file(job, spec, framework, source, inputs.cases, shipped, send)
    prepared = Prepared(
        spec=spec, onnx=path, framework=framework, source=source, cases=inputs.cases, file_size=graph.size_bytes
    )
    prepared.weak = itself
    # A warning that the first answer draws random numbers stands for all others.
    prepared.watched = not warnings
    if dataset and dataset.was_rounded:
        prepared.wide = unrounded(framework, source, spec)
        if prepared.wide is None and not dataset.holds_reference:
            warnings += made_equal(dataset.given, dataset.inputs)
    more = []
    if spec.variant:
        send(Stage(name="variant"))
        started = time.monotonic()
        prepared.base, prepared.onnx = path, str(Path(job.scratch) / f"{spec.id}.onnx")
        more += lower_precision(spec, Path(path), Path(prepared.onnx), dataset)
        graph, seconds = read_graph(prepared.onnx, f"{spec.id}.onnx"), seconds + time.monotonic() - started
    send(Stage(name="check"))
    send(_describe(spec, graph, seconds))
    warnings += [*_check(prepared, graph, first, more), *random_warnings(graph), *_take_fixed(prepared, inputs.fixed)]
    _draw_what_is_answered(prepared, inputs)
    more += [*ask_edges(prepared, send), *ask_cuts(prepared, send)]
    prepared.domains = inputs.domains
    if not spec.onnx:
        prepared.domains = joined(inputs.domains, domains_of(path, spec.inputs or ()))
    more += feed_domain(prepared, dataset, send, drawn=inputs.is_drawn, answered=inputs.answered)
    if dataset is None:
        more += ask_padded(prepared, send)
    if shipped is not None and not (inputs.stated or spec.variant):
        warnings += also_answered(prepared, shipped, send)
    for note in (*inputs.notes, *more):
        send(Note(text=note))
    for warning in (*warnings, *inputs.doubts, *_sizes_not_run(prepared, graph), *_overflows(prepared)):
        send(Note(text=warning, warns=True))
    return prepared


def _inputs(spec: ModelSpec, shipped: Graph | None, framework: Plugin, source: Any) -> _Inputs:
    """The schema, the data, and what the model knows about its inputs."""
    stated, one_batch, fixed = spec.inputs is not None, True, None
    if not stated and shipped is not None:
        fixed, one_batch = fixed_sizes(spec, shipped), has_one_batch(shipped)
        spec = replace(fixed.spec, inputs=schema_from_graph(shipped, spec))
    elif shipped is not None and spec.framework == "onnx":
        fixed = stated_sizes(spec, shipped)
        spec = fixed.spec if fixed else spec
    by_row = outputs_by_row(shipped) if shipped else frozenset()
    outputs = shipped.outputs if shipped else ()
    dataset = load_dataset(spec, outputs, batched=by_row, one_batch=one_batch) if spec.data else None
    if dataset:
        check_columns(framework.fitted_columns(source), spec, dataset.columns)
    domains = source_domains(framework, source, spec, dataset)
    if spec.onnx:
        domains = with_searched(spec, joined(domains, domains_of(spec.onnx, spec.inputs or ())))
    inputs = _Inputs(spec=spec, dataset=dataset, stated=stated, fixed=fixed, domains=domains)
    inputs.plan(domains)
    return inputs


def _draw_what_is_answered(prepared: Prepared, inputs: _Inputs) -> None:
    """Replace the cases that the source refuses because of values that the model seems to know.

    A case stays if the source also refuses it with default values: then it refuses the size, for example one beyond
    its position table.
    """
    if not inputs.guessed or all(refusal(prepared, case) is None for case in inputs.cases if not case.edge):
        return

    def why(call: Call) -> str | None:
        return why_refused(prepared.framework, prepared.source, prepared.spec, call)

    for case in list(inputs.cases):
        if refusal(prepared, case) is not None:
            prepared.forget(case.name)
            inputs.replace_refused(case, why)
    prepared.cases = inputs.cases


def _take_fixed(prepared: Prepared, fixed: FixedSizes | None) -> Iterable[str]:
    """Add breaches for fixed sizes that the manifest asks to vary; returns warnings about the others."""
    if fixed is None:
        return ()
    prepared.breaches += fixed.breaches
    if fixed.breaches:
        prepared.cause = prepared.cause or Cause.BATCH_BAKED
    return fixed.warnings


def _sizes_not_run(prepared: Prepared, graph: Graph) -> list[str]:
    """Warnings about sizes that were not run; none for a variant, because its base model already has them."""
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
    """A warning about values on the largest feed that float16 can't hold, which the CPU hides."""
    variant, base = prepared.spec.variant, prepared.base
    if variant is None or base is None or variant.kind != "fp16":
        return []
    call = next(max(prepared.cases, key=lambda case: case.sizes.get("batch", 0)).calls())
    warning = overflow_warning(prepared.onnx, base, call.feed, prepared.fed(call))
    return [warning] if warning else []


def _first_answers(framework: Plugin, source: Any, inputs: _Inputs) -> tuple[Answers, list[str]]:
    """The source's first answers, with a warning if random numbers were drawn for them."""
    try:
        return _ask_first(framework, source, inputs)
    except CannotJudge:
        if not inputs.guessed:
            raise
        first = inputs.cases[0]
        _replace_all_refused(framework, source, inputs)
        if inputs.cases[0] is first:
            inputs.plan(NOTHING_KNOWN)
        return _ask_first(framework, source, inputs)


def _replace_all_refused(framework: Plugin, source: Any, inputs: _Inputs) -> bool:
    """Replace the ordinary cases that the source refuses; False if there is no such case, or nothing to replace it."""

    def why(call: Call) -> str | None:
        return why_refused(framework, source, inputs.spec, call)

    refused = [case for case in inputs.cases if not case.edge and any(why(call) is not None for call in case.calls())]
    replaced = [inputs.replace_refused(case, why) for case in refused]
    return any(replaced)


def _ask_first(framework: Plugin, source: Any, inputs: _Inputs) -> tuple[Answers, list[str]]:
    spec, case = inputs.spec, inputs.cases[0]
    call = next(case.calls())
    try:
        first, drawn = ask_watched(framework, lambda: answer_call(framework, source, spec, call))
        return first, [draws(drawn)] if drawn else []
    except (CannotJudge, MemoryError):
        raise
    except BaseException as error:
        raise source_failed(spec, case, call, error) from error


NAME_INPUTS = (
    "name the inputs in `inputs` as the .onnx does, or leave `inputs` out, which takes them from the file. If the "
    "names of the manifest are those that are served, export the file again with them"
)


def other_names(names: tuple[str, str]) -> str:
    """A sentence about input names of the .onnx that differ from those in the manifest."""
    return f"the .onnx takes the inputs {names[0]}, and the manifest names {names[1]}"


def source_failed(spec: ModelSpec, case: Case, call: Call, error: BaseException) -> CannotJudge:
    """The error for a feed that the source itself can't answer."""
    fix = f"correct `inputs` to what the model takes; it was fed {describe_feed(next(case.calls()).feed)}."
    if case.edge:
        fix = f"remove {case.edge} from `edges` if the model needn't answer it, or {fix}"
    sizes = [f"{dim}={size}" for dim, size in case.sizes.items() if dim != "batch"]
    if case.cut or sizes:
        fix = f"remove {' and '.join(sizes) or 'this size'} from `dims` if the model needn't answer it, or {fix}"
    if names := missing_inputs(str(error)):
        told = f"{spec.source.shown}: no input can be fed: {other_names(names)}"
        return CannotJudge(Cause.LOAD_FAILED, told, fix=NAME_INPUTS)
    if type(error).__name__ == "NotFittedError":
        fix = "fit the estimator before it is saved"
    elif not sizes and any("int" in given.dtype and given.range is given.values is None for given in spec.inputs or ()):
        fix += " Integers are drawn from 0 to 9 unless `range` or `values` is given"
    said = failed(Cause.LOAD_FAILED, f"{spec.source.shown}: the source itself fails on {case.name}", error, fix=fix)
    return CannotJudge(said.cause, veiled(str(said), spec, call, generated=case.generated), fix=said.fix)


def _onnx_file(
    job: Job,
    spec: ModelSpec,
    framework: Plugin,
    source: Any,
    cases: list[Case],
    shipped: Graph | None,
    send: Callable[[Event], None],
) -> tuple[str, Graph, float]:
    """The shipped or newly converted file, with its declared graph and the seconds that the conversion took."""
    folder = Path(job.scratch) / FLOAT32 if spec.variant else Path(job.scratch)
    folder.mkdir(exist_ok=True)
    if spec.onnx and shipped:
        # The copy is judged, so that the report keeps exactly the model that was judged.
        return keep_copy(spec.onnx, folder, spec.id, spec.onnx_shown), shipped, 0.0
    if job.converted:
        return job.converted, read_graph(job.converted, Path(job.converted).name), 0.0
    send(Stage(name="convert"))
    path, started = str(folder / f"{spec.id}.onnx"), time.monotonic()
    for note in _converted(framework, source, spec, path, example_case(spec, cases)):
        send(Note(text=note))
    name_weights(path)
    return path, read_graph(path, f"{spec.id}.onnx"), time.monotonic() - started


def _converted(framework: Plugin, source: Any, spec: ModelSpec, path: str, example: Case) -> list[str]:
    """Convert, and return the notes. If the source itself can't answer the example, the error says that."""
    call = next(example.calls())
    try:
        return framework.convert(source, spec, Path(path), call.feed)
    except (CannotJudge, MemoryError):
        raise
    except Exception:
        try:
            framework.predict(source, spec, call.feed)
        except Exception as error:
            raise source_failed(spec, example, call, error) from error
        raise


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


def _check(prepared: Prepared, graph: Graph, first: Answers, notes: list[str]) -> list[str]:
    """Check structure, then names; differences become breaches. Returns warnings about doubtful matches and forms."""
    spec = prepared.spec
    check_rules(spec, graph.outputs)
    asked, prepared.halves = as_lowered(spec, graph)
    for breach, cause in structural_breaches(asked, graph):
        prepared.breaches.append(breach)
        prepared.cause = prepared.cause or cause
    prepared.answered = frozenset(first)
    prepared.outputs = tuple(value.name for value in graph.outputs)
    matching = match_outputs(spec, graph.outputs, first)
    prepared.names = matching.names
    prepared.breaches += matching.breaches
    notes += matching.notes
    if note := checker_note(prepared.onnx):
        notes.append(note)
    told, warnings = differences_of_form(prepared.names, graph.outputs, first) if prepared.lenient else ([], [])
    notes += told
    return [*matching.doubts, *warnings]

"""run_gate(): the whole story, top to bottom."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from onnx_gate.gate.environment import describe_environment, require_one_runtime, require_supported_system
from onnx_gate.gate.kept.offers import keep_mended, keep_weak_inputs
from onnx_gate.gate.kept.repro import keep_repro
from onnx_gate.gate.numbers.checks import Contradiction, require_consistent
from onnx_gate.gate.numbers.models import require_consistent_model
from onnx_gate.gate.rules import judge_rules
from onnx_gate.gate.selection import describe_scope, require_folders, select_models
from onnx_gate.gate.strength import numbers as strength_numbers
from onnx_gate.gate.trust import refusal, runs_code
from onnx_gate.gate.verdict import Findings, compared, judge_model, judge_run
from onnx_gate.processes.process import Ended, NoStrength, Started
from onnx_gate.processes.sandbox import Quarters
from onnx_gate.processes.seclusion import secluded
from onnx_gate.processes.supervisor import Supervisor
from onnx_gate.protocol import Computed, Made, Note, Placed, Stage
from onnx_gate.records.asked import Manifest, ManifestWarning, ModelSpec, RunOptions
from onnx_gate.records.diagnosis.failing import Failing, failing_contradictions
from onnx_gate.records.diagnosis.plots import MOST_PLOTS, Plot
from onnx_gate.records.diagnosis.repro import Repro
from onnx_gate.records.found import ConvertInfo, Expectation, Failure, Fed, OutputDiff, Triage
from onnx_gate.records.ran import Latency, Noise, are_numbers
from onnx_gate.records.result import Check, GateResult, ModelResult, ProviderState
from onnx_gate.records.strength import Strength
from onnx_gate.references.read import Reference, check_reference
from onnx_gate.references.save import ReferenceStore
from onnx_gate.repository.credentials import find_credentials
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.wording.verdicts import with_fix


class Cancelled(BaseException):
    """The run is to stop now; whoever handles the signals raises it."""

    def __init__(self, signum: int) -> None:
        self.signum = signum
        super().__init__(signum)


class Folder(Protocol):
    """Where a run puts its files."""

    work: Path
    scratch: Path
    logs: Path

    def keep_weak_inputs(self, model_id: str) -> bool: ...
    def keep_mended(self, model_id: str) -> str: ...
    def keep_repro(self, model_id: str, most: int, texts: Mapping[str, str]) -> bool: ...
    def keep_model(self, model_id: str, weights: Sequence[str]) -> None: ...


class Watcher(Protocol):
    """Who is told how the run goes."""

    def began(self, models: Sequence[ModelSpec]) -> None: ...
    def started(self, model_id: str) -> None: ...
    def stage(self, model_id: str, name: str) -> None: ...
    def ended(self, result: ModelResult) -> None: ...


def run_gate(
    manifest: Manifest,
    options: RunOptions,
    folder: Folder,
    watcher: Watcher,
    check_signals: Callable[[], None] = lambda: None,
) -> GateResult:
    """Judge every model that was asked for; `check_signals` is called all the while, and may raise Cancelled."""
    require_supported_system()
    require_one_runtime()
    started_at, began = datetime.now(UTC), time.monotonic()
    specs = select_models(manifest, options)
    require_folders(manifest, options)
    store = ReferenceStore(options.save_reference, describe_environment({})) if options.save_reference else None
    # A reference is worth making for providers that only another machine has.
    found = {spec.id: Findings(spec=spec, ended=not spec.providers and not store) for spec in specs}
    warnings = _warnings(manifest, found)
    references = _check_references(found, options)
    watcher.began(specs)
    for findings in found.values():
        if findings.ended:
            watcher.ended(_result(findings))
    loaded = [each.spec for each in found.values() if not each.ended and each.spec.id not in references]
    for model_id, event in _refuse_pickles(loaded, options):
        _take(found[model_id], event, folder, watcher, store)
    runnable = [findings.spec for findings in found.values() if not findings.ended]
    cancelled = None
    try:
        with (
            secluded(options, folder=Path(manifest.path).parent, work=folder.work),
            Supervisor(
                jobs=options.jobs,
                work=folder.work,
                quarters=_quarters(options, folder),
                environ=options.environ,
                save_references=store is not None,
                references=references,
                calibrates=options.calibrates,
            ) as supervisor,
        ):
            for model_id, happening in supervisor.run(runnable, tick=check_signals):
                _take_or_spoil(found[model_id], happening, folder, watcher, store)
                check_signals()
    except Cancelled as error:
        cancelled = error
    models = tuple(_result(findings) for findings in found.values())
    scope = describe_scope(manifest, options)
    unused, problems = judge_rules(scope.rules, models, manifest.path) if cancelled is None else ((), ())
    verdict, exit_code = judge_run(models, empty_shard=not specs, problems=bool(problems))
    return GateResult(
        verdict=verdict,
        exit_code=128 + cancelled.signum if cancelled else exit_code,
        complete=cancelled is None,
        started_at=started_at.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 3),
        manifest=manifest.path,
        shard="{}/{}".format(*options.shard) if options.shard else None,
        scope=scope,
        problems=problems,
        warnings=(*warnings, *unused),
        environment=describe_environment(_provider_states(models), options.isolation),
        models=models,
    )


def _warnings(manifest: Manifest, found: Mapping[str, Findings]) -> tuple[ManifestWarning, ...]:
    """Those of the run as a whole and of the models that are run, where they stand as notes too."""
    for warning in manifest.warnings:
        for findings in found.values():
            if warning.concerns(findings.spec.base):
                findings.add_note(str(warning))
    run = {findings.spec.base for findings in found.values()}
    return tuple(each for each in manifest.warnings if not each.models or any(map(each.concerns, run)))


def _refuse_pickles(specs: list[ModelSpec], options: RunOptions) -> Iterator[tuple[str, Failure | Ended]]:
    """What the workflow, or what lies beside it, forbids to load."""
    for spec in specs:
        searched = options.allow_pickle is None and runs_code(spec)
        credentials = find_credentials(Path(spec.folder), options.workspace).found if searched else ()
        if refused := refusal(spec, allowed=options.allow_pickle, credentials=credentials):
            yield spec.id, refused
            yield spec.id, Ended(seconds=0.0)


def _quarters(options: RunOptions, folder: Folder) -> Quarters:
    return Quarters(
        work=folder.work,
        scratch=folder.scratch,
        logs=folder.logs,
        environ=options.environ,
        isolation=options.isolation,
        packages=options.packages,
    )


def _check_references(found: dict[str, Findings], options: RunOptions) -> dict[str, str]:
    """The folder of each model's reference; a model whose reference can't be used is an error and isn't run."""
    checked: dict[str, str] = {}
    for findings in found.values() if options.reference else ():
        if findings.ended or options.reference is None:
            continue
        match check_reference(options.reference, findings.spec):
            case Reference(folder=folder, origin=origin):
                checked[findings.spec.id], findings.reference = folder, origin
            case Failure() as failure:
                findings.failures.append(failure)
                findings.ended = True
    return checked


def _take_or_spoil(
    found: Findings, event: object, folder: Folder, watcher: Watcher, store: ReferenceStore | None
) -> None:
    """The last resort: whatever one model's events do to us, it is that model's error, and the others go on."""
    if found.spoiled and not isinstance(event, Ended):
        return
    try:
        _take(found, event, folder, watcher, store)
    except Exception as error:
        found.spoil(error)
        if isinstance(event, Ended):
            found.ended = True
            watcher.ended(_result(found))


def _take(
    found: Findings, event: object, folder: Folder, watcher: Watcher, store: ReferenceStore | None = None
) -> None:
    """Book what a worker, or the supervisor, has to say about a model."""
    match event:
        case Started():
            found.log = f"logs/{found.spec.id}.log"
            watcher.started(found.spec.id)
        case Stage(name=name, case=""):
            watcher.stage(found.spec.id, name)
        case OutputDiff():
            _book(found, event)
        case Failure():
            _book_failure(found, event)
        case Expectation():
            _book_expectation(found, event)
        case Placed():
            found.placement[event.provider] = event.placement
        case Computed():
            found.numerics[event.provider] = event.numerics
        case Latency():
            found.latency[event.provider, event.case] = event
        case ConvertInfo():
            found.convert = event
        case Fed():
            found.fed = event
        case Made(weights=weights):
            found.weights = weights
        case Triage():
            found.triage = event
        case Noise():
            _book_noise(found, event)
        case Failing():
            _book_failing(found, event)
        case Repro():
            # The first one: another process may leave files of its own in their place.
            found.repro = found.repro or replace(event, folder="")
        case Plot():
            _book_plot(found, event)
        case Strength():
            _book_strength(found, event)
        case NoStrength(why=why):
            _book_no_strength(found, why)
        case Note():
            found.add_note(event.text, warns=event.warns)
            found.weak_reference |= event.weak
        case Ended(seconds=seconds):
            found.seconds, found.ended = round(seconds, 3), True
            _keep_reference(found, folder, store)
            keep_weak_inputs(found, _result(found), folder)
            keep_mended(found, _result(found), folder)
            keep_repro(found, folder, failed=_result(found).verdict in (Status.DIVERGED, Status.ERROR))
            _keep_model(found, folder)
            found.close(_result(found))
            watcher.ended(_result(found))


def _keep_reference(found: Findings, folder: Folder, store: ReferenceStore | None) -> None:
    try:
        if store:
            store.keep(found.spec, _result(found), folder.scratch)
    except OSError as error:
        why = f"its reference can't be kept ({error.strerror or error})"
        fix = "make room, or name another folder for --save-reference"
        found.failures.append(Failure(stage="save reference", cause=Cause.UNKNOWN, message=why, fix=fix))


def _keep_model(found: Findings, folder: Folder) -> None:
    try:
        folder.keep_model(found.spec.id, found.weights)
    except OSError as error:
        found.add_note(f"the model could not be kept in models/ ({error.strerror})")


def _book(found: Findings, diff: OutputDiff) -> None:
    """A second process may compare the same again: what was wrong once stays wrong.

    Numbers that contradict each other are refused here, because `report` and `merge` refuse them later, and with them
    the results of all models.
    """
    if not diff.output and not diff.breaches:
        raise Contradiction("it compared an output that has no name")
    require_consistent(compared(diff))
    key = diff.provider, diff.case, diff.output
    if key not in found.diffs or not found.diffs[key].breaches:
        found.diffs[key] = diff


def _book_failure(found: Findings, failure: Failure) -> None:
    """Whether inputs are weak is for us to judge: a worker that says so did not."""
    if failure.cause is Cause.WEAK_INPUTS:
        raise Contradiction("it judged the strength of its own inputs")
    found.add_failure(failure)


def _book_expectation(found: Findings, expected: Expectation) -> None:
    """A second one, with aimed cases, may promise more and never less."""
    known = found.expectations.get(expected.provider)
    if known and replace(expected, cases=known.cases) != known:
        raise Contradiction(f"it was to compare other outputs on {expected.provider} than it announced first")
    if known and not set(known.cases) <= set(expected.cases):
        raise Contradiction(f"it was to compare fewer cases on {expected.provider} than it announced first")
    found.expectations[expected.provider] = expected


def _book_noise(found: Findings, event: Noise) -> None:
    """Of an output that was announced, and of numbers that can be: there are no more of them than of outputs."""
    expected = found.expectations.get(event.provider)
    if expected is None or event.output not in expected.outputs or not are_numbers(event):
        raise Contradiction(f"it measured noise of {event.output!r} on {event.provider} that can't be")
    found.noise[event.provider, event.output] = event


def _book_failing(found: Findings, event: Failing) -> None:
    """Refused here for the same reason as numbers of a comparison."""
    for reason in failing_contradictions(event):
        raise Contradiction(f"rows that fail: {reason}")
    if event.private is False and found.spec.data is not None and not found.spec.shows_data:
        # Cases that were generated beside the data: nobody here can tell whose values these are.
        event = replace(event, rows=tuple(replace(row, inputs=()) for row in event.rows), private=True)
    found.failing = found.failing or event


def _book_plot(found: Findings, plot: Plot) -> None:
    """Of a comparison that was reported; whether its numbers can be is asked once the model is whole."""
    if (plot.provider, plot.case, plot.output) not in found.diffs:
        raise Contradiction(f"it has a plot of {plot.output!r} on {plot.provider}, which was not compared")
    found.plots[plot.provider, plot.output] = plot
    if len(found.plots) > MOST_PLOTS * len(found.spec.providers):
        raise Contradiction(f"it has more than {MOST_PLOTS} plots on a provider")


def _book_strength(found: Findings, event: Strength) -> None:
    """Refused here for the same reason as numbers of a comparison; whether it is believed is known at the end."""
    for reason in strength_numbers.contradictions(event):
        raise Contradiction(f"strength: {reason}")
    if found.strength not in (None, event):
        raise Contradiction("it has two strengths")
    found.strength = event


def _book_no_strength(found: Findings, why: str) -> None:
    """What was compared stands, and so does a strength that came before."""
    found.no_strength = why
    what = "strength was not computed" if found.strength is None else "its process did not come to its end"
    found.add_note(f"{what}: {why}", warns=found.strength is None)


def _result(found: Findings) -> ModelResult:
    if found.result:
        return found.result
    try:
        if not found.spec.providers and not found.failures:
            return _nothing_asked(found.spec)
        model = judge_model(found)
        # `report` and `merge` would refuse it, and with it all others.
        require_consistent_model(model)
        return model
    except Exception as error:
        found.spoil(error)
        return judge_model(found)


def _nothing_asked(spec: ModelSpec) -> ModelResult:
    """None of the model's providers is among those that the call asks for."""
    message = "none of its providers was asked for"
    check = Check(provider="", case="select", output="", status=Status.SKIPPED, message=message)
    return ModelResult(
        id=spec.id,
        line=spec.line,
        framework=spec.framework,
        variant_of=spec.base if spec.variant else None,
        verdict=Status.SKIPPED,
        allow_failure=spec.allow_failure,
        checks=(check,),
        notes=(message,),
    )


def _provider_states(models: Iterable[ModelResult]) -> dict[str, ProviderState]:
    """Which providers answered, and why the others did not."""
    states: dict[str, ProviderState] = {}
    for check in (check for model in models for check in model.checks):
        if check.total or check.status is Status.PASSED:
            states[check.provider] = ProviderState(available=True)
        elif check.cause is Cause.PROVIDER_UNAVAILABLE and check.provider not in states:
            states[check.provider] = ProviderState(available=False, reason=with_fix(check), kind=check.absence)
    return {name: state for name, state in states.items() if name not in ("", "graph")}

"""run_gate(): a whole run, from start to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from onnx_gate.gate.environment import describe_environment, require_one_runtime, require_supported_system
from onnx_gate.gate.kept.offers import keep_mended, keep_weak_inputs
from onnx_gate.gate.kept.recalled import Recall, open_recall, summary
from onnx_gate.gate.kept.repro import keep_repro
from onnx_gate.gate.numbers.bookings import book
from onnx_gate.gate.numbers.models import require_consistent_model
from onnx_gate.gate.rules import judge_rules
from onnx_gate.gate.selection import describe_scope, longest_first, require_folders, select_models
from onnx_gate.gate.trust import refusal, runs_code
from onnx_gate.gate.verdict import Findings, judge_model, judge_run
from onnx_gate.processes.process import Ended, Started
from onnx_gate.processes.sandbox import Quarters
from onnx_gate.processes.seclusion import secluded
from onnx_gate.processes.supervisor import Supervisor
from onnx_gate.processes.warming import Early
from onnx_gate.protocol import Stage
from onnx_gate.records.asked import Manifest, ManifestWarning, ModelSpec, RunOptions
from onnx_gate.records.found import Failure
from onnx_gate.records.result import Check, GateResult, ModelResult, ProviderState
from onnx_gate.references.read import Reference, check_reference
from onnx_gate.references.save import ReferenceStore
from onnx_gate.repository.credentials import find_credentials
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.wording.verdicts import with_fix


class Cancelled(BaseException):
    """The run must stop now; the signal handling raises this."""

    def __init__(self, signum: int) -> None:
        self.signum = signum
        super().__init__(signum)


class Folder(Protocol):
    """Where a run puts its files."""

    path: Path
    work: Path
    scratch: Path
    logs: Path

    def keep_weak_inputs(self, model_id: str) -> bool: ...
    def keep_mended(self, model_id: str) -> str: ...
    def keep_repro(self, model_id: str, most: int, texts: Mapping[str, str]) -> bool: ...
    def keep_model(self, model_id: str, weights: Sequence[str]) -> None: ...


class Watcher(Protocol):
    """Receives the progress of a run."""

    def began(self, models: Sequence[ModelSpec]) -> None: ...
    def started(self, model_id: str) -> None: ...
    def stage(self, model_id: str, name: str) -> None: ...
    def ended(self, result: ModelResult) -> None: ...
    def say(self, line: str) -> None: ...


def run_gate(
    manifest: Manifest,
    options: RunOptions,
    folder: Folder,
    watcher: Watcher,
    check_signals: Callable[[], None] = lambda: None,
    *,
    meanwhile: Callable[[], None] = lambda: None,
    last: Mapping[str, float] | None = None,
    finished: Mapping[str, ModelResult] | None = None,
    early: Early | None = None,
) -> GateResult:
    """Judge every model that was asked for; `check_signals` is called repeatedly, and may raise Cancelled.

    `meanwhile` is called while the servers import their frameworks, which takes seconds of another core.
    `last` are the seconds that models took in the run before; they only decide which models start first.
    Models that an interrupted run has `finished` are not run again. Servers may have been started `early`.
    """
    kept = finished or {}
    require_supported_system()
    require_one_runtime()
    started_at, began = datetime.now(UTC), time.monotonic()
    specs = select_models(manifest, options)
    require_folders(manifest, options)
    store = ReferenceStore(options.save_reference, describe_environment({})) if options.save_reference else None
    # A reference is also made for a model without a provider here: another machine may have one.
    found = {
        spec.id: Findings(spec=spec, ended=spec.id in kept or (not spec.providers and not store)) for spec in specs
    }
    warnings = _warnings(manifest, found)
    references = _check_references(found, options)
    watcher.began(specs)
    for findings in found.values():
        if findings.ended:
            watcher.ended(kept.get(findings.spec.id) or _result(findings))
    loaded = [each.spec for each in found.values() if not each.ended and each.spec.id not in references]
    for model_id, event in _refuse_pickles(loaded, options):
        _take(found[model_id], event, folder, watcher, store)
    recall = open_recall(manifest, options, folder, watcher.say, started_at)
    cancelled = None
    try:
        runnable = longest_first(_not_recalled(found, recall, folder, watcher, check_signals), last or {})
        while runnable:
            again: list[ModelSpec] = []
            with (
                secluded(options, folder=Path(manifest.path).parent, work=folder.work),
                Supervisor(
                    jobs=options.jobs,
                    work=folder.work,
                    quarters=_quarters(options, folder),
                    environ=options.environ,
                    save_references=store is not None,
                    references=references | recall.references,
                    recalled=recall.references,
                    calibrates=options.calibrates,
                    records=recall.cache is not None,
                    early=early,
                ) as supervisor,
            ):
                recall.expect(runnable)
                for model_id, happening in supervisor.run(runnable, tick=check_signals, meanwhile=meanwhile):
                    recall.hear(model_id, happening)
                    if isinstance(happening, Ended):
                        if fresh := recall.afresh(found[model_id], _result):
                            found[model_id] = fresh
                            again.append(fresh.spec)
                            continue
                        recall.take_answers(model_id)
                    _take_or_spoil(found[model_id], happening, folder, watcher, store)
                    if isinstance(happening, Ended):
                        recall.keep(found[model_id], _result(found[model_id]))
                    check_signals()
            runnable = again
    except Cancelled as error:
        cancelled = error
    recall.close()
    models = tuple(kept.get(model_id) or _result(findings) for model_id, findings in found.items())
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
    """Warnings about the whole run and about models that are run; such a model also gets them as notes."""
    for warning in manifest.warnings:
        for findings in found.values():
            if warning.concerns(findings.spec.base):
                findings.add_note(str(warning))
    run = {findings.spec.base for findings in found.values()}
    return tuple(each for each in manifest.warnings if not each.models or any(map(each.concerns, run)))


def _refuse_pickles(specs: list[ModelSpec], options: RunOptions) -> Iterator[tuple[str, Failure | Ended]]:
    """Failures of sources that must not be loaded, because the workflow or credentials near them forbid it."""
    for spec in specs:
        searched = options.allow_pickle is None and runs_code(spec)
        credentials = find_credentials(Path(spec.folder), options.workspace).found if searched else ()
        if refused := refusal(spec, allowed=options.allow_pickle, credentials=credentials):
            yield spec.id, refused
            yield spec.id, Ended(seconds=0.0)


def _not_recalled(
    found: dict[str, Findings], recall: Recall, folder: Folder, watcher: Watcher, check_signals: Callable[[], None]
) -> Iterator[ModelSpec]:
    """The models that have to run; the findings about all others come from an earlier run."""
    waiting = [findings for findings in found.values() if not findings.ended]
    for findings in waiting:
        check_signals()
        if recalled := recall.answer(findings, _result):
            found[findings.spec.id] = recalled
            _take(recalled, Ended(seconds=0.0), folder, watcher)
        else:
            yield findings.spec
    if recall.cache:
        hits = sum(found[each.spec.id] is not each for each in waiting)
        watcher.say(summary(hits, len(waiting), len(recall.references)))


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
    """The folder of each model's reference; a model whose reference can't be used gets an error and isn't run."""
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
    """Book an event; any exception becomes an error of that model alone, and the other models continue."""
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
    """Book an event that a worker, or the supervisor, reports about a model."""
    match event:
        case Started():
            found.log = f"logs/{found.spec.id}.log"
            watcher.started(found.spec.id)
        case Stage(name=name, case=""):
            watcher.stage(found.spec.id, name)
        case Ended(seconds=seconds):
            found.seconds, found.ended = round(seconds, 3), True
            _keep_reference(found, folder, store)
            keep_weak_inputs(found, _result(found), folder)
            keep_mended(found, _result(found), folder)
            keep_repro(found, folder, failed=_result(found).verdict in (Status.DIVERGED, Status.ERROR))
            _keep_model(found, folder)
            found.close(_result(found))
            watcher.ended(_result(found))
        case _:
            book(found, event)


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


def _result(found: Findings) -> ModelResult:
    if found.result:
        return found.result
    try:
        if not found.spec.providers and not found.failures:
            return _nothing_asked(found.spec)
        model = judge_model(found)
        # `report` and `merge` would refuse an inconsistent model, and with it the whole result.
        require_consistent_model(model)
        return model
    except Exception as error:
        found.spoil(error)
        return judge_model(found)


def _nothing_asked(spec: ModelSpec) -> ModelResult:
    """The result of a model none of whose providers the call asks for."""
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

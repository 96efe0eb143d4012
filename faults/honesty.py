"""Checks the results of a run after a fault: what it may report, and what it may not."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from enum import StrEnum
from xml.etree import ElementTree

from faults.plan import API, CLOCK, PIPE, SERVER, SETS, WORKER, Fault
from faults.trial import OLD, Trial
from faults.workload import RIGHT
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.reports import RENDER
from onnx_gate.reports.json import parse
from onnx_gate.vocabulary import REPORTS, Status

_LINE = re.compile(r"^\[\d+/\d+\] \S (?P<id>[\w-]+): (?P<verdict>\w+)", re.MULTILINE)
_STOPPED = (signal.SIGINT, signal.SIGTERM)


class Ending(StrEnum):
    """The ways in which a run can end."""

    SAME = "verdicts as without the fault"
    ERRORS = "models not judged, with a cause"
    INCOMPLETE = "incomplete"
    NOT_WRITTEN = "reports not written, exit code 3"
    REFUSED = "refused, exit code 2"
    DIED = "the gate was killed"
    HUNG = "hung"
    BUG = "bug, exit code 4"


def ending_of(trial: Trial) -> Ending:
    """The ending of a run, from the exit code, and from results.json if it exists."""
    if trial.code is None:
        return Ending.HUNG
    if trial.code < 0:
        return Ending.DIED
    result = _read(trial)
    if result is None:
        return {2: Ending.REFUSED, 3: Ending.NOT_WRITTEN}.get(trial.code, Ending.BUG)
    if not result.complete:
        return Ending.INCOMPLETE
    right = all(model.verdict is RIGHT[model.id] for model in result.models)
    return Ending.SAME if right else Ending.ERRORS


def wrong_verdicts(trial: Trial) -> list[str]:
    """Wrong verdicts: one that is neither the right one nor an error, or a pass of a run that was not fully judged."""
    said = [(found["id"], found["verdict"]) for found in _LINE.finditer(trial.said)]
    result = _read(trial)
    models = result.models if result else ()
    lies = [
        f"{model_id} is {verdict}, expected {RIGHT[model_id]}"
        for model_id, verdict in (*said, *((model.id, model.verdict) for model in models))
        if verdict not in (RIGHT[model_id], Status.ERROR)
    ]
    asked = SETS[trial.fault.models] if trial.fault else ()
    right = [model.id for model in models if model.verdict is RIGHT[model.id] is Status.PASSED]
    if trial.code == 0 and sorted(right) != sorted(asked):
        lies.append(f"the run passed with {right} of {list(asked)}")
    if result and result.verdict is Status.PASSED and sorted(right) != sorted(asked):
        lies.append("results.json says that the run passed")
    return lies


def broken_promises(trial: Trial) -> list[str]:
    """All other broken promises: a hang, a bug, a half-written file, something left behind."""
    return [*_of_ending(trial), *_of_reports(trial), *_of_models(trial), *_of_comments(trial)]


def _of_ending(trial: Trial) -> Iterator[str]:
    ending = ending_of(trial)
    if ending in (Ending.HUNG, Ending.BUG):
        yield f"{ending} ({trial.code}): {trial.complained[-2000:]}"
    if ending is Ending.DIED and not _may_die(trial):
        yield f"the gate was killed by {-(trial.code or 0)}"
    if ending in (Ending.REFUSED, Ending.NOT_WRITTEN) and "Fix:" not in trial.complained:
        yield f"no way out: {trial.complained}"
    if trial.survivors:
        yield f"{len(trial.survivors)} processes survived"
    if trial.left:
        yield f"left after the next run: {trial.left}"


def _may_die(trial: Trial) -> bool:
    """Whether the gate was allowed to die: its own process got this signal as the fault."""
    fault = trial.fault
    return fault is not None and trial.fired and fault.what.startswith("SIG") and -(trial.code or 0) == _number(fault)


def _number(fault: Fault) -> int:
    return int(signal.Signals[fault.what])


def _of_reports(trial: Trial) -> Iterator[str]:
    """Promises on reports: each is complete; if results.json exists, all reports exist and agree."""
    if "junit.xml" in trial.reports:
        ElementTree.fromstring(trial.reports["junit.xml"])
    result = _read(trial)
    if result is None:
        if trial.reports and ending_of(trial) is not Ending.DIED:
            yield f"some reports only: {sorted(trial.reports)}"
        return
    if missing := set(REPORTS) - trial.reports.keys():
        yield f"missing beside results.json: {sorted(missing)}"
    for name, text in trial.reports.items():
        if text != RENDER[name](result).encode("utf-8", "backslashreplace"):
            yield f"{name} is not what results.json says"
    if trial.code != result.exit_code and ending_of(trial) is not Ending.DIED:
        yield f"exit code {trial.code}, results.json says {result.exit_code}"
    if not result.complete and result.exit_code not in [128 + number for number in _STOPPED]:
        yield f"incomplete, with exit code {result.exit_code}"


def _of_models(trial: Trial) -> Iterator[str]:
    """Promises on models: every model is there; an error has a reason; a fault in one model does not affect others."""
    result = _read(trial)
    if result is None or trial.fault is None:
        return
    asked = SETS[trial.fault.models]
    if sorted(model.id for model in result.models) != sorted(asked):
        yield f"models {[model.id for model in result.models]}, expected {list(asked)}"
    for model in result.models:
        if model.verdict is Status.ERROR and not (model.error and model.cause):
            yield f"{model.id}: an error without a cause"
        if result.complete and model.verdict is not RIGHT[model.id] and not _may_suffer(model, trial.fault):
            yield f"{model.id} suffered from a fault of others: {model.error}"


def _may_suffer(model: ModelResult, fault: Fault) -> bool:
    if fault.kind in (WORKER, PIPE):
        return model.id == fault.model
    if fault.kind == SERVER:
        return True
    return fault.kind not in (API, CLOCK)


def _of_comments(trial: Trial) -> Iterator[str]:
    """Promises on comments: complete, and at most one; if there is no new one, the log says so."""
    if trial.comments is None or (result := _read(trial)) is None:
        return
    if len(trial.comments) > 1:
        yield f"{len(trial.comments)} comments"
    known = [comment for comment in trial.comments if OLD not in comment]
    summary = trial.reports["summary.md"].decode().splitlines()[0]
    for comment in known:
        if summary not in comment or not all(model.id in comment for model in result.models):
            yield f"a comment that says something else: {comment[:200]}"
    if not known and "::warning title=onnx-gate::" not in trial.said:
        yield "no comment, and no word about it"


def _read(trial: Trial) -> GateResult | None:
    text = trial.reports.get("results.json")
    return parse(text.decode()) if text is not None else None

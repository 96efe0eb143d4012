"""The messages of a run, as workflow commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_gate.errors import GateError, ManifestError, Problem
from onnx_gate.gate.console import Command, workflow_command
from onnx_gate.records.asked import ManifestWarning
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.vocabulary import Status
from onnx_gate.wording import gaps
from onnx_gate.wording.numbers import plural, seconds
from onnx_gate.wording.text import one_line, shorten, visible
from onnx_gate.wording.verdicts import is_allowed, outcome, urgency, with_fix, worst_check

MOST_ANNOTATIONS = 10
"""The most annotations of one severity in one step: GitHub drops the others."""
MOST_WARNINGS = MOST_ANNOTATIONS - 2
"""Two are reserved for the gate itself: a comment that could not be written, a baseline that could not be read."""
LONGEST_MESSAGE = 4096


def annotation(level: str, message: str, **properties: object) -> Command:
    """`::error file=…,line=…::message`."""
    return workflow_command(level, shorten(visible(message), LONGEST_MESSAGE), **properties)


def debug(message: str) -> Command:
    """A line that is shown only if the job runs with debug logging."""
    return workflow_command("debug", message)


def facts(result: GateResult) -> list[str]:
    """The lines that only debug logging shows: versions, and the time that each model took."""
    versions = (f"{name}: {value}" for name, value in vars(result.environment).items() if isinstance(value, str))
    models = (
        f"{model.id}: {outcome(model)}, {seconds(model.seconds)} in all, "
        f"{seconds(model.convert.seconds) if model.convert else 'nothing'} converting, "
        f"{seconds(sum(check.seconds for check in model.checks))} comparing {len(model.checks):,} times"
        for model in result.models
    )
    return [*versions, *models]


def error_annotations(error: GateError, file: str = "") -> list[Command]:
    """One error at the place of each problem in a manifest, as many as GitHub shows; for other errors, one annotation.

    `file` is the manifest's path as GitHub knows it, if the user named it differently.
    """
    if not isinstance(error, ManifestError):
        return [annotation("error", str(error), title="onnx-gate")]
    lines = [_at_place("error", problem, file) for problem in error.problems]
    return _at_most(MOST_ANNOTATIONS, "error", lines, "problems: see the log and the job summary")


def warning_annotations(warnings: Sequence[ManifestWarning], file: str = "") -> list[Command]:
    """One warning at the place of each warning in a manifest, as many as GitHub shows."""
    lines = [_at_place("warning", warning, file) for warning in warnings]
    return _at_most(MOST_WARNINGS, "warning", lines, "warnings: see the log")


def _at_place(level: str, problem: Problem, file: str) -> Command:
    place = {"file": file or problem.file, "line": problem.line, "col": problem.column}
    return annotation(level, str(problem), **place, title="onnx-gate")


def result_annotations(result: GateResult, file: str = "") -> list[Command]:
    """An annotation at the manifest's line of each failing model, worst first; then warnings, also on the manifest."""
    file = file or result.manifest
    failing = [model for model in result.models if model.verdict in (Status.DIVERGED, Status.ERROR)]
    failing.sort(key=urgency)
    errors = [annotation("error", one_line(problem), file=file, title="onnx-gate") for problem in result.problems]
    errors += [_model_annotation(model, file) for model in failing if not is_allowed(model)]
    warnings = [_model_annotation(model, file) for model in failing if is_allowed(model)]
    warnings += [_at_place("warning", warning, file) for warning in result.warnings]
    warnings += _skip_annotations(result, file)
    passed = (model for model in result.models if model.verdict not in (Status.DIVERGED, Status.ERROR))
    warnings += [_weak_annotation(model, told, file) for model in passed if (told := _weaknesses(model))]
    return [
        *_at_most(MOST_ANNOTATIONS, "error", errors, "models: see the job summary"),
        *_at_most(MOST_WARNINGS, "warning", warnings, "warnings: see the job summary"),
    ]


def _skip_annotations(result: GateResult, file: str) -> Iterator[Command]:
    """One annotation per reason, at its first model: fifty models on a machine without a GPU have the same reason."""
    reasons: dict[tuple[str, str], list[ModelResult]] = {}
    for model in result.models:
        for check in model.checks:
            if check.status is Status.SKIPPED:
                reasons.setdefault((check.provider, check.message), []).append(model)
    for (provider, message), models in reasons.items():
        of = models[0].id if len(models) == 1 else plural(len(models), "model")
        told = f"{of}: not compared on {provider}: {message}" if provider else f"{of}: not compared: {message}"
        yield annotation("warning", one_line(told), file=file, line=models[0].line, title="onnx-gate")


def _weaknesses(model: ModelResult) -> list[str]:
    itself = [f"{gaps.ITSELF} ({gaps.WHY_ITSELF})"] if gaps.is_weak_pass(model) else []
    return [*itself, *(model.coverage.warnings if model.coverage else ())]


def _weak_annotation(model: ModelResult, told: Sequence[str], file: str) -> Command:
    """One annotation for a model: it passed, but a wrong model might have passed too."""
    return annotation(
        "warning",
        one_line(f"{model.id} passed, with a warning: {'; '.join(told)}"),
        file=file,
        line=model.line,
        title=f"onnx-gate: {model.id}",
    )


def _model_annotation(model: ModelResult, file: str) -> Command:
    bad = worst_check(model) if model.verdict is Status.DIVERGED else None
    bad = bad or next((check for check in model.checks if check.status is model.verdict), None)
    where = " ".join(filter(None, (bad.provider, bad.case, bad.output))) if bad else "run"
    message = with_fix(bad) if bad else model.error or "nothing was compared"
    told = f"{message.rstrip('.')}. {model.advice}" if model.advice else message
    return annotation(
        "warning" if is_allowed(model) else "error",
        one_line(f"{model.id} {outcome(model)} ({model.cause or 'unknown'}): {where}: {told}"),
        file=file,
        line=model.line,
        title=f"onnx-gate: {model.id}",
    )


def _at_most(limit: int, level: str, lines: list[Command], of_what: str) -> list[Command]:
    """At most `limit` annotations, since GitHub drops the rest: the last one says how many more there are."""
    if len(lines) <= limit:
        return lines
    kept = lines[: limit - 1]
    return [*kept, annotation(level, f"and {len(lines) - len(kept):,} more {of_what}", title="onnx-gate")]

"""Workflow commands, with everything in them escaped."""

from __future__ import annotations

from onnx_gate.errors import GateError, ManifestError
from onnx_gate.records import GateResult, ModelResult, Status
from onnx_gate.wording import is_allowed, one_line, shorten, visible, worst_check

MOST_ANNOTATIONS = 10
LONGEST_MESSAGE = 4096


def annotation(level: str, message: str, **properties: object) -> str:
    """`::error file=…,line=…::message`."""
    given = ",".join(f"{key}={_escape_property(visible(str(value)))}" for key, value in properties.items() if value)
    return f"::{level}{' ' if given else ''}{given}::{_escape(shorten(visible(message), LONGEST_MESSAGE))}"


def error_annotations(error: GateError) -> list[str]:
    """An error at the place of each of a manifest's problems, as many as GitHub shows, or just the error."""
    if not isinstance(error, ManifestError):
        return [annotation("error", str(error), title="onnx-gate")]
    lines = [
        annotation("error", str(problem), file=problem.file, line=problem.line, col=problem.column, title="onnx-gate")
        for problem in error.problems
    ]
    return _at_most(lines, "problems: see the log and the job summary")


def result_annotations(result: GateResult) -> list[str]:
    """At the manifest's line of each failing model, divergences first, allowed ones last; then warnings."""
    failing = [model for model in result.models if model.verdict in (Status.DIVERGED, Status.ERROR)]
    failing.sort(key=lambda model: (is_allowed(model), model.verdict is not Status.DIVERGED))
    lines = [_model_annotation(model, result) for model in failing]
    passed = [model for model in result.models if model not in failing]
    lines += [_weak_annotation(model, result) for model in passed if model.coverage and model.coverage.warnings]
    return _at_most(lines, "models: see the job summary")


def _weak_annotation(model: ModelResult, result: GateResult) -> str:
    """One a model: a pass that a wrong model might have had too."""
    warnings = model.coverage.warnings if model.coverage else ()
    return annotation(
        "warning",
        one_line(f"{model.id} passed, with a warning: {'; '.join(warnings)}"),
        file=result.manifest,
        line=model.line,
        title=f"onnx-gate: {model.id}",
    )


def _model_annotation(model: ModelResult, result: GateResult) -> str:
    bad = worst_check(model) if model.verdict is Status.DIVERGED else None
    bad = bad or next((check for check in model.checks if check.status is model.verdict), None)
    where = f"{bad.provider} {bad.case} {bad.output}" if bad else "run"
    message = bad.message if bad else model.error or "nothing was compared"
    return annotation(
        "warning" if is_allowed(model) else "error",
        one_line(f"{model.id} {model.verdict} ({model.cause or 'unknown'}): {where}: {message} {model.advice}"),
        file=result.manifest,
        line=model.line,
        title=f"onnx-gate: {model.id}",
    )


def _at_most(lines: list[str], of_what: str) -> list[str]:
    """GitHub drops what is beyond its limit: the last one then says how many there are."""
    if len(lines) <= MOST_ANNOTATIONS:
        return lines
    kept = lines[: MOST_ANNOTATIONS - 1]
    level = "error" if any(line.startswith("::error") for line in lines[len(kept) :]) else "warning"
    return [*kept, annotation(level, f"and {len(lines) - len(kept)} more {of_what}", title="onnx-gate")]


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")

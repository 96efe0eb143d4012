"""Workflow commands, with everything in them escaped."""

from __future__ import annotations

from onnx_gate.errors import Problem
from onnx_gate.records import GateResult, Status
from onnx_gate.wording import one_line

MOST_ANNOTATIONS = 10
LONGEST_MESSAGE = 4096


def annotation(level: str, message: str, **properties: object) -> str:
    """`::error file=…,line=…::message`."""
    given = ",".join(f"{key}={_escape_property(str(value))}" for key, value in properties.items() if value)
    return f"::{level}{' ' if given else ''}{given}::{_escape(message[:LONGEST_MESSAGE])}"


def manifest_annotations(problems: tuple[Problem, ...]) -> list[str]:
    """An error at each problem's place, as many as GitHub shows."""
    lines = [
        annotation("error", str(problem), file=problem.file, line=problem.line, col=problem.column, title="onnx-gate")
        for problem in problems[: MOST_ANNOTATIONS - 1]
    ]
    if more := len(problems) - len(lines):
        lines.append(annotation("error", f"and {more} more: see the log and the job summary", title="onnx-gate"))
    return lines


def result_annotations(result: GateResult) -> list[str]:
    """An error at the manifest's line of each failing model, divergences first."""
    failing = [model for model in result.models if model.verdict in (Status.DIVERGED, Status.ERROR)]
    failing.sort(key=lambda model: model.verdict is not Status.DIVERGED)
    lines = []
    for model in failing[: MOST_ANNOTATIONS - 1]:
        bad = next(check for check in model.checks if check.status is model.verdict)
        level = "warning" if model.allow_failure and model.verdict is Status.DIVERGED else "error"
        where = f"{bad.provider} {bad.case} {bad.output}".strip()
        message = f"{model.id} {model.verdict} ({model.cause}): {where}: {one_line(bad.message)} {model.advice}".strip()
        lines.append(annotation(level, message, file=result.manifest, line=model.line, title=f"onnx-gate: {model.id}"))
    if more := len(failing) - len(lines):
        lines.append(annotation("error", f"and {more} more models: see the job summary", title="onnx-gate"))
    return lines


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")

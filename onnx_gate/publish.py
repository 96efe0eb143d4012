"""A result → reports, the console, and the workflow that asked for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from onnx_gate.console import say
from onnx_gate.errors import GateError, NotWritten
from onnx_gate.folder import OutputFolder
from onnx_gate.github import commands, files
from onnx_gate.records import GateResult
from onnx_gate.reports import RENDER, markdown
from onnx_gate.settings import Settings
from onnx_gate.wording import headline, one_line

SUMMARY_LIMIT = 1024 * 1024 - 1024


def publish(result: GateResult, asked: Settings, folder: OutputFolder) -> None:
    """All that a run has to say, to all who listen."""
    write_reports(result, folder)
    for problem in result.problems:
        say(f"onnx-gate: {one_line(problem)}")
    say(f"{headline(result)}\nreports: {asked.output}/summary.md, junit.xml, results.json")
    _tell_workflow(
        asked,
        commands.result_annotations(result),
        markdown.render_within(result, SUMMARY_LIMIT),
        files.outputs_of(result, str(asked.output)),
    )


def publish_plan(matrix: str, told: Sequence[str], outputs: Mapping[str, str], asked: Settings) -> None:
    """The matrix to standard output, alone, so that a script can take it; the rest beside it."""
    for line in told:
        say(one_line(line), sys.stderr)
    say(matrix)
    _tell_workflow(asked, [], "", outputs)


def write_reports(result: GateResult, folder: OutputFolder) -> None:
    """All reports; a disk that is full by now must not cost what was found out, so that goes to the log then."""
    try:
        for name, render in RENDER.items():
            folder.write(name, render(result))
    except OSError as error:
        say(markdown.render(result))
        raise NotWritten(
            f"{folder.path}: the reports can't be written ({error.strerror}), so the summary is above. "
            "Fix: make room, or name another --output"
        ) from error


@contextmanager
def errors_told(asked: Settings) -> Iterator[None]:
    """A run that does not come about shows in the workflow too."""
    try:
        yield
    except GateError as error:
        counts = {"verdict": "error", "passed": "0", "diverged": "0", "errors": "0"}
        _tell_workflow(asked, commands.error_annotations(error), files.error_summary(error), counts)
        raise


def _tell_workflow(asked: Settings, annotations: list[str], summary: str, outputs: Mapping[str, str]) -> None:
    """A file of the runner's that can't be written is worth a warning; the verdict stands."""
    if asked.in_actions and annotations:
        say("\n".join(annotations))
    try:
        if asked.step_summary and summary:
            files.write_summary(asked.step_summary, summary)
        if asked.github_output:
            files.write_outputs(asked.github_output, outputs)
    except OSError as error:
        say(f"onnx-gate: the workflow can't be told ({error.strerror}: {error.filename})", sys.stderr)

"""A result → reports, the console, and the workflow that asked for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from onnx_gate.errors import GateError, NotWritten
from onnx_gate.gate.console import Command, command, say
from onnx_gate.gate.output import OutputFolder
from onnx_gate.github import commands, log, step_files
from onnx_gate.github.step_files import place_in_repository
from onnx_gate.publish.comment import HURRY, publish_comment, publish_failure
from onnx_gate.records.asked import ManifestWarning
from onnx_gate.records.result import GateResult
from onnx_gate.records.settings import Settings
from onnx_gate.reports import failure, markdown, render_all
from onnx_gate.vocabulary import REPORTS
from onnx_gate.wording.text import one_line
from onnx_gate.wording.verdicts import headline

SMALLEST_SUMMARY = 1000
"""The fewest bytes for a summary: in less, not even a verdict fits."""


def publish(result: GateResult, asked: Settings, folder: OutputFolder) -> GateResult:
    """Write reports, log, annotations, summary, outputs and comment; returns the result that was shown."""
    result = write_reports(result, folder)
    if asked.in_actions:
        log.show_logs(result.models, folder.logs, everything=asked.workflow.debug)
    if asked.debugs:
        command(*map(commands.debug, commands.facts(result)))
    for problem in result.problems:
        say(f"onnx-gate: {one_line(problem)}")
    say_done(result, asked.output)
    _tell_workflow(
        asked,
        commands.result_annotations(result, place_in_repository(result.manifest, asked.workflow.workspace)),
        lambda room: markdown.render_within(result, room),
        step_files.outputs_of(result, str(asked.output)),
    )
    publish_comment(result, asked.comment, asked.workflow)
    return result


def say_done(result: GateResult, output: Path) -> None:
    """Print the verdict, and where the reports are."""
    say(f"{headline(result)}\nreports: {output}/{', '.join(REPORTS)}")


def publish_plan(
    matrix: str,
    told: Sequence[str],
    outputs: Mapping[str, str],
    asked: Settings,
    warnings: Sequence[ManifestWarning] = (),
) -> None:
    """Print only the matrix to standard output, so that a script can read it; messages go to standard error."""
    for line in told:
        say(one_line(line), sys.stderr)
    say(matrix)
    place = place_in_repository(str(asked.manifest), asked.workflow.workspace)
    _tell_workflow(asked, commands.warning_annotations(warnings, place), None, outputs)


def write_reports(result: GateResult, folder: OutputFolder) -> GateResult:
    """Write all reports. If that fails, such as on a full disk, the summary goes to the log, so that it isn't lost."""
    result, contents = render_all(result)
    try:
        folder.write_all(contents)
    except OSError as error:
        say(markdown.render(result))
        raise NotWritten(
            f"{folder.path}: the reports can't be written ({error.strerror}), so the summary is above. "
            "Fix: make room, or name another --output"
        ) from error
    return result


def tell_failure(error: GateError, asked: Settings, *, hurry: bool = False) -> None:
    """Write annotations, summary, outputs and comment of a run without a result."""
    _tell_workflow(
        asked,
        commands.error_annotations(error, place_in_repository(str(asked.manifest), asked.workflow.workspace)),
        lambda room: failure.render_within(error, room),
        {"verdict": "error", "passed": "0", "diverged": "0", "allowed": "0", "errors": "0", "changed": ""},
    )
    if not asked.options.shard:
        patience = {"patience": HURRY} if hurry else {}
        publish_failure(error, str(asked.manifest), asked.comment, asked.workflow, **patience)


def _tell_workflow(
    asked: Settings, annotations: list[Command], summary: Callable[[int], str] | None, outputs: Mapping[str, str]
) -> None:
    """Write annotations, outputs and summary. If a file of the runner can't be written, warn; the verdict stands."""
    if asked.in_actions and annotations:
        command(*annotations)
    try:
        if asked.github_output:
            step_files.write_outputs(asked.github_output, outputs)
        if not asked.step_summary or not summary:
            return
        if (room := step_files.summary_room(asked.step_summary)) >= SMALLEST_SUMMARY:
            step_files.write_summary(asked.step_summary, summary(room))
        else:
            say("onnx-gate: the step's summary is full, so that nothing was added to it", sys.stderr)
    except OSError as error:
        say(
            f"onnx-gate: could not write the step's outputs or summary ({error.strerror}: {error.filename})", sys.stderr
        )
    except ValueError as error:
        say(f"onnx-gate: could not write the step's outputs or summary ({error})", sys.stderr)

"""Output of models in the job's log: folded, and without any effect as workflow commands."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from onnx_gate.gate.console import command, say, workflow_command
from onnx_gate.processes.stacks import frames_of
from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import OWN_LINE, Status
from onnx_gate.wording.numbers import plural, size
from onnx_gate.wording.text import one_line, shorten, visible
from onnx_gate.wording.verdicts import model_icon

MOST_OF_ONE = 32 * 1024
"""The most bytes of one model's log: its end is shown, since the reason is there."""
MOST_GROUPS = 50
LONGEST_TITLE = 200
_LINES = re.compile(r"\r\n|\r|\n")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def show_logs(models: Iterable[ModelResult], logs: Path, *, everything: bool) -> None:
    """Print the end of the log of each model that failed, or of all models, with one group per model."""
    shown = [model for model in models if everything or model.verdict in (Status.DIVERGED, Status.ERROR)]
    found = [(model, end) for model in shown if (end := read_end(logs / f"{model.id}.log"))]
    for model, (text, total) in found[:MOST_GROUPS]:
        cut = f", the last {size(MOST_OF_ONE)} of {size(total)}" if total > MOST_OF_ONE else ""
        with foreign(f"{model_icon(model)} {model.id}: what it printed{cut}"):
            say(text)
    if more := found[MOST_GROUPS:]:
        say(f"… and {plural(len(more), 'more log')}: see logs/ in the output folder")


def _is_ours(line: str) -> bool:
    """Whether a line is the gate's, not the model's: marked as such, or a call of the gate on the stack of a crash."""
    return line.startswith(OWN_LINE) or (line.lstrip().startswith("File ") and any(f.is_ours for f in frames_of(line)))


@contextmanager
def foreign(title: str) -> Iterator[None]:
    """A group in which no line is a command, until a random token, which nobody can know, ends it."""
    token = secrets.token_hex(16)
    title = shorten(one_line(title), LONGEST_TITLE)
    command(workflow_command("group", title), workflow_command("stop-commands", token))
    try:
        yield
    finally:
        command(workflow_command(token), workflow_command("endgroup"))


def read_end(path: Path) -> tuple[str, int] | None:
    """The last lines of a log and its size in bytes; None if it is empty, missing, a link or no regular file."""
    try:
        # The model's code could write here, so a link may lead anywhere.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                return None
            file.seek(max(0, about.st_size - MOST_OF_ONE))
            text = file.read(MOST_OF_ONE).decode("utf-8", "replace")
    except OSError:
        return None
    lines = _LINES.split(text.strip("\r\n"))
    whole = lines[1:] if about.st_size > MOST_OF_ONE and len(lines) > 1 else lines
    shown = "\n".join(visible(_COLOURS.sub("", line)) for line in whole if not _is_ours(line))
    return (shown, about.st_size) if shown.strip() else None

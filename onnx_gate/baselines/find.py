"""What `baseline` asks for → an earlier result, or one warning and no result."""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path

from onnx_gate.errors import GateError
from onnx_gate.gate.baseline.compare import Earlier, compare
from onnx_gate.gate.console import command
from onnx_gate.github.artifacts import kept_files
from onnx_gate.github.commands import debug
from onnx_gate.github.http import ApiError
from onnx_gate.publish.comment import open_api, warn
from onnx_gate.records.result import GateResult
from onnx_gate.records.settings import Workflow
from onnx_gate.shards.parts import LARGEST_RESULTS, result_of
from onnx_gate.shards.untrusted_files import opened
from onnx_gate.wording.text import LONGEST_NAME, one_line, shorten

AUTO = "auto"
ARTIFACT = "onnx-gate-baseline"
"""The artifact that `auto` looks for; `auto:other` looks for another one."""
FILE = "results.json"
PATIENCE = 30.0
"""Seconds for all requests together, since the run waits for them."""
_LONGEST_REASON = 1000


class NoBaseline(Exception):
    """Why there is no baseline, and what to do about it."""


def beside(result: GateResult, earlier: Earlier | None) -> GateResult:
    """The result with what changed since the baseline; a run that was stopped is not compared."""
    return compare(result, earlier) if earlier and result.complete else result


def find_baseline(asked: str, workflow: Workflow) -> Earlier | None:
    """The baseline; None if nobody asked for one, or, after one warning, if no baseline can be found."""
    if not asked:
        return None
    try:
        kind, _, artifact = asked.partition(":")
        return _from_pushes(artifact or ARTIFACT, workflow) if kind == AUTO else _from_file(Path(asked))
    except (ApiError, NoBaseline, GateError) as error:
        reason = f"{shorten(one_line(str(error)), _LONGEST_REASON)}{_fix(error)}"
    except Exception as error:
        # This is a bug in onnx-gate, but no reason to change a verdict.
        if workflow.debug and workflow.in_actions:
            command(debug(traceback.format_exc()))
        reason = f"a bug in onnx-gate ({type(error).__name__})"
    warn(f"no baseline: {reason}. The run is judged as without one", workflow)
    return None


def _fix(error: Exception) -> str:
    """What to do after an error of the API; other errors say it in their own message."""
    if not isinstance(error, ApiError):
        return ""
    if error.status in (401, 403, 404):
        return ". Fix: the job needs `permissions: {actions: read}`"
    return ". Fix: run the job again, or leave the baseline out" if error.unanswered else ""


def _from_pushes(artifact: str, workflow: Workflow) -> Earlier:
    """The result of the last push that kept a complete one; incomplete results are skipped."""
    api = open_api(workflow, PATIENCE)
    for kept in kept_files(api, workflow, artifact, FILE, LARGEST_RESULTS):
        result = result_of(kept.data, f"{FILE} of {kept.run}")
        if not _misses(result):
            return Earlier(result=_light(result), source=kept.run, branch=kept.branch, commit=kept.commit)
    raise NoBaseline(
        f"no push to the base branch has kept a complete {FILE} in an artifact {one_line(artifact)!r} that is still "
        f"there. Fix: upload {FILE} under this name on pushes to it, as examples/workflows/baseline.yml does; the next "
        "run will find it"
    )


def _from_file(path: Path) -> Earlier:
    """A results.json, or the folder that holds it; a link is followed, since the user named it."""
    shown = shorten(one_line(str(path)), LONGEST_NAME)
    try:
        real = path.resolve()
        real = real / FILE if real.is_dir() else real
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no path, or a link to itself"
        raise NoBaseline(f"{shown}: it can't be followed ({why}). Fix: name an earlier {FILE}, or its folder") from None
    with opened(real.parent, real.name, LARGEST_RESULTS) as file:
        if file is None:
            raise NoBaseline(f"{shown}: there is no such file. Fix: name an earlier {FILE}, or its folder")
        result = result_of(file.read(LARGEST_RESULTS + 1), shown)
    if missing := _misses(result):
        raise NoBaseline(f"{shown}: {missing}. Fix: name the {FILE} of a run of the whole manifest")
    return Earlier(result=_light(result), source=shown)


def _misses(result: GateResult) -> str:
    """Why a result can't stand for a whole run; empty if it can."""
    if not result.complete:
        return "that run was stopped before its end, or parts of it are missing"
    return f"it is only shard {one_line(result.shard)}" if result.shard else ""


def _light(result: GateResult) -> GateResult:
    """The result without parts that are only drawn, because it stays in memory until the run has ended."""
    return replace(result, models=tuple(replace(model, plots=None, failing=None) for model in result.models))

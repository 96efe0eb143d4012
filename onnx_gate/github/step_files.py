"""The files through which a step talks to its workflow."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from onnx_gate.records.result import GateResult
from onnx_gate.vocabulary import REPORTS, Status
from onnx_gate.wording.verdicts import is_allowed, was_not_run

SUMMARY_LIMIT = 1024 * 1024 - 1024
"""The most bytes of all summaries of a step: above 1 MiB GitHub drops them all."""


def outputs_of(result: GateResult, folder: str) -> dict[str, str]:
    """The action's outputs."""
    counts = Counter(model.verdict for model in result.models)
    allowed, waiting = sum(map(is_allowed, result.models)), sum(map(was_not_run, result.models))
    return {
        "verdict": result.verdict,
        "passed": str(counts[Status.PASSED]),
        "diverged": str(counts[Status.DIVERGED] - allowed),
        "allowed": str(allowed),
        "errors": str(counts[Status.ERROR] - waiting),
        "not-run": str(waiting),
        "changed": str(sum(bool(model.changes) for model in result.models)) if result.baseline else "",
        **{output: f"{folder}/{report}" for report, output in REPORTS.items()},
    }


def write_outputs(path: Path, outputs: Mapping[str, str]) -> None:
    """Append to $GITHUB_OUTPUT."""
    blocks = [output_block(name, value, f"ghadelimiter_{secrets.token_hex(16)}") for name, value in outputs.items()]
    # A path whose bytes are not UTF-8 is written unchanged.
    with path.open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(blocks)


def output_block(name: str, value: str, delimiter: str) -> str:
    """One output; the delimiter is random, and refused if the value contains it, so no value can end its own block."""
    if delimiter in name or delimiter in value:
        raise ValueError(f"the output {name!r} holds its own delimiter")
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def summary_room(path: Path) -> int:
    """Bytes that still fit into $GITHUB_STEP_SUMMARY: what the step wrote before counts too."""
    return SUMMARY_LIMIT - (path.stat().st_size if path.exists() else 0)


def write_summary(path: Path, text: str) -> None:
    """Append to $GITHUB_STEP_SUMMARY."""
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{text}\n")


def place_in_repository(file: str, workspace: Path | None) -> str:
    """A file's path from the top of the repository, from any working folder; unchanged if it is outside of it."""
    if workspace is None:
        return file
    top = workspace.resolve()
    path = Path(file).parent.resolve() / Path(file).name
    if not path.is_relative_to(top):
        return file
    # A checkout may be in a subfolder of the workspace; a submodule inside the checkout belongs to it.
    folders = [folder for folder in reversed(path.parents) if folder.is_relative_to(top)]
    root = next((folder for folder in folders if (folder / ".git").exists()), top)
    return path.relative_to(root).as_posix()

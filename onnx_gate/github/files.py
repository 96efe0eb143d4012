"""The files through which a step talks to its workflow."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from onnx_gate.errors import GateError, ManifestError
from onnx_gate.records import GateResult, Status
from onnx_gate.wording import plain_markdown, plural

MOST_PROBLEMS = 200


def outputs_of(result: GateResult, folder: str) -> dict[str, str]:
    """The action's outputs."""
    counts = Counter(model.verdict for model in result.models)
    return {
        "verdict": result.verdict,
        "passed": str(counts[Status.PASSED]),
        "diverged": str(counts[Status.DIVERGED]),
        "errors": str(counts[Status.ERROR]),
        "junit": f"{folder}/junit.xml",
        "summary": f"{folder}/summary.md",
        "results": f"{folder}/results.json",
    }


def write_outputs(path: Path, outputs: Mapping[str, str]) -> None:
    """Append to $GITHUB_OUTPUT; a random delimiter, so that no value can end its own block."""
    # A path whose bytes are no UTF-8 goes out as it came in.
    with path.open("a", encoding="utf-8", errors="surrogateescape") as file:
        for name, value in outputs.items():
            delimiter = f"ghadelimiter_{secrets.token_hex(16)}"
            file.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")


def write_summary(path: Path, text: str) -> None:
    """Append to $GITHUB_STEP_SUMMARY."""
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{text}\n")


def error_summary(error: GateError) -> str:
    """A run that did not come about, for the job summary."""
    if not isinstance(error, ManifestError):
        return f"## 🟥 onnx-gate: the run did not come about\n\n{plain_markdown(str(error))}"
    problems = error.problems
    lines = [f"## 🟥 onnx-gate: {plural(len(problems), 'problem')} in the manifest, nothing was run", ""]
    lines += [f"- {plain_markdown(str(problem))}" for problem in problems[:MOST_PROBLEMS]]
    if more := len(problems[MOST_PROBLEMS:]):
        lines.append(f"- … and {more} more: see the log.")
    return "\n".join(lines)

"""A run that did not come about, as markdown: the reason in place of a result."""

from __future__ import annotations

from onnx_gate.errors import GateError, ManifestError
from onnx_gate.reports.fit import fill, size_in_bytes
from onnx_gate.wording import plain_markdown, plural

MOST_PROBLEMS = 200


def headline(error: GateError) -> str:
    """The verdict in one line."""
    if isinstance(error, ManifestError):
        return f"🟥 onnx-gate: {plural(len(error.problems), 'problem')} in the manifest, nothing was run"
    return "🟥 onnx-gate: the run did not come about"


def reasons(error: GateError) -> list[str]:
    """Each problem of the manifest as an item, or the error's own words."""
    if not isinstance(error, ManifestError):
        return [plain_markdown(str(error))]
    return [f"- {plain_markdown(str(problem))}" for problem in error.problems[:MOST_PROBLEMS]]


def count(error: GateError) -> int:
    """How many reasons there are."""
    return len(error.problems) if isinstance(error, ManifestError) else 1


def render_within(error: GateError, limit: int) -> str:
    """The headline and as many of the reasons as fit into so many bytes."""
    text, kept = fill(f"## {headline(error)}\n", reasons(error), limit - 100, size_in_bytes, between="\n")
    more = count(error) - kept
    return f"{text}\n- … and {more:,} more: see the log." if more else text

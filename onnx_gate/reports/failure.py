"""A run that could not start, as markdown: the reason instead of a result."""

from __future__ import annotations

from onnx_gate.errors import GateError, ManifestError
from onnx_gate.reports.layout import fill
from onnx_gate.reports.safe import LINE, Md, md, size_in_bytes, text
from onnx_gate.wording.numbers import plural

MOST_PROBLEMS = 200


def headline(error: GateError) -> Md:
    """The verdict, as the heading that everything starts with."""
    if isinstance(error, ManifestError):
        return md("## 🟥 onnx-gate: {} in the manifest, nothing was run", plural(len(error.problems), "problem"))
    return md("## 🟥 onnx-gate: the run could not start")


def reasons(error: GateError) -> list[Md]:
    """One item for each problem of the manifest, or the error's own message."""
    if not isinstance(error, ManifestError):
        return [text(str(error))]
    return [md("- {}", str(problem)) for problem in error.problems[:MOST_PROBLEMS]]


def count(error: GateError) -> int:
    """How many reasons there are."""
    return len(error.problems) if isinstance(error, ManifestError) else 1


def render_within(error: GateError, limit: int) -> str:
    """The headline and as many of the reasons as fit into `limit` bytes."""
    page, kept = fill(md("{}\n", headline(error)), reasons(error), limit - 100, size_in_bytes, between=LINE)
    left_out = count(error) - kept
    return md("{}\n- … and {:,} more: see the log.", page, left_out).markup if left_out else page.markup

"""Reports: each a pure function of a GateResult, listed here once."""

from __future__ import annotations

from collections.abc import Callable

from onnx_gate.records import GateResult
from onnx_gate.reports import html, json, junit, markdown

RENDER: dict[str, Callable[[GateResult], str]] = {
    "junit.xml": junit.render,
    "summary.md": markdown.render,
    "report.html": html.render,
    # Last: where it is, all are.
    "results.json": json.render,
}

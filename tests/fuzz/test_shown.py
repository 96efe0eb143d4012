"""A report that can't be read is found, whichever it is."""

from __future__ import annotations

import pytest

from fuzz.case import Failed
from fuzz.shown import require_shown
from onnx_gate.reports import RENDER
from tests.golden.records import floats, gate, model


@pytest.mark.parametrize(
    ("report", "text"),
    [
        ("summary.md", "## ✅ onnx-gate: x\n\n<script>alert(1)</script>"),
        ("summary.md", "## ✅ onnx-gate: x\n\n<details>\n"),
        ("summary.md", "## ✅ onnx-gate: x\n\n| a | b |\n|---|---|\n| 1 | 2 | 3 |\n"),
        ("summary.md", "## ✅ onnx-gate: x\n\n[x](https://evil.example)"),
        ("summary.md", "no verdict"),
        ("report.html", "<html><body></html>"),
        ("report.html", "<html onload=x></html>"),
        ("junit.xml", "<testsuites/>"),
        ("results.json", '{"a": NaN}'),
    ],
)
def test_a_report_that_cannot_be_read_is_found(monkeypatch: pytest.MonkeyPatch, report: str, text: str) -> None:
    """Whichever it is."""
    result = gate(model("a", floats("batch=1", "y")))
    require_shown(result)
    monkeypatch.setitem(RENDER, report, lambda _: text)
    with pytest.raises(Failed):
        require_shown(result)

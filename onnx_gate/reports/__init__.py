"""Reports: each a pure function of a GateResult, listed here once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from onnx_gate.gate.verdict import judge_again
from onnx_gate.records.result import Check, GateResult, ModelResult
from onnx_gate.reports import json, junit, markdown, page
from onnx_gate.reports.page import charts
from onnx_gate.reports.safe import page_markdown
from onnx_gate.vocabulary import Cause, Status

RENDER: dict[str, Callable[[GateResult], str]] = {
    "junit.xml": junit.render,
    "summary.md": markdown.render,
    "report.html": page.render,
    # Last: if this file exists, all reports exist.
    "results.json": json.render,
}


_IN_PIECES = {"junit.xml": junit.render_pieces, "results.json": json.render_pieces}
"""The large reports are never one string, in which a single character can make all others take four bytes."""


def get_ready() -> None:
    """Import what pages are made with, while there is time."""
    page_markdown()
    # Without the library, only the pictures are missing.
    with suppress(ImportError):
        charts.library()


def render_all(result: GateResult) -> tuple[GateResult, dict[str, list[bytes]]]:
    """The bytes of all reports, and the result that they show.

    As a last resort, a model that can't be shown becomes an error, so that the reports of all others are not lost.
    """
    try:
        return result, _encoded(result)
    except Exception:
        models = tuple(_shown(model, result) for model in result.models)
        shown = judge_again(replace(result, models=models))
        return shown, _encoded(shown)


def _encoded(result: GateResult) -> dict[str, list[bytes]]:
    """The reports as bytes. The largest come first, while there is memory: all are kept until all are made."""
    pieces = {name: _IN_PIECES[name](result) for name in reversed(RENDER) if name in _IN_PIECES}
    return {
        name: pieces[name] if name in pieces else [render(result).encode("utf-8", "backslashreplace")]
        for name, render in RENDER.items()
    }


def _shown(model: ModelResult, result: GateResult) -> ModelResult:
    try:
        _encoded(replace(result, models=(model,)))
    except Exception as error:
        message = (
            f"what is known of it can't be shown ({type(error).__name__}: {str(error)[:200]}). "
            "Fix: this is a bug of onnx-gate: please report it"
        )
        check = Check(provider="", case="report", output="", status=Status.ERROR, cause=Cause.UNKNOWN, message=message)
        return ModelResult(
            id=model.id,
            line=model.line,
            framework=model.framework,
            variant_of=model.variant_of,
            allow_failure=model.allow_failure,
            verdict=Status.ERROR,
            cause=Cause.UNKNOWN,
            checks=(check,),
        )
    return model

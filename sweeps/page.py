"""Writes the page of a sweep: what was run, with which versions, and the result of each model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from onnx_gate.records.result import Environment

DOCS = Path(__file__).parent.parent / "docs"


def write_page(
    name: str,
    *,
    title: str,
    intro: str,
    command: str,
    environment: Environment,
    summary: Mapping[str, object],
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> Path:
    """Write docs/<name>.md."""
    path = DOCS / f"{name}.md"
    lines = [
        f"# {title}",
        "",
        intro,
        "",
        f"Written by `{command}` with {versions(environment)}.",
        "",
        *table(("", "count"), summary.items()),
        "",
        *table(header, rows),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def versions(environment: Environment) -> str:
    """The versions of all packages that took part."""
    names = ("onnx", "scikit-learn", "skl2onnx", "torch", "onnxscript", "tensorflow", "tensorflow-cpu", "tf2onnx")
    known = {
        "onnxruntime": environment.onnxruntime,
        **{name: environment.versions.get(name) for name in (*names, "numpy")},
    }
    given = [f"{name} {version}" for name, version in known.items() if version]
    return ", ".join([*given, f"Python {environment.python}", f"{environment.ort_threads} thread"])


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a Markdown table."""
    return [
        f"| {' | '.join(header)} |",
        f"|{'|'.join('---' for _ in header)}|",
        *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows),
    ]


def _cell(cell: object) -> str:
    return str(cell).replace("|", "\\|").replace("\n", " ")

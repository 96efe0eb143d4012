"""Write the golden files anew: `python -m tests.golden.rewrite`. Read the diff before you commit it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from onnx_gate.records.result import GateResult
from onnx_gate.reports import RENDER, comment
from onnx_gate.reports.comment import About
from tests.golden.families import BEFORE, FAMILIES

FOLDER = Path(__file__).parent
SUFFIXES = {
    "results.json": ".json",
    "summary.md": ".summary.md",
    "junit.xml": ".junit.xml",
    "report.html": ".report.html",
}
"""What a report is called beside its family's name."""


RUN = "https://github.example/acme/models/actions/runs/7"


def golden_files() -> dict[str, tuple[Callable[[], GateResult], Callable[[GateResult], str]]]:
    """By file name: the family, and the report that is made of it."""
    reports = {
        f"{name}{SUFFIXES[report]}": (family, render)
        for name, family in FAMILIES.items()
        for report, render in RENDER.items()
    }
    comments = {f"{name}.comment.md": (family, partial(render_comment, name)) for name, family in FAMILIES.items()}
    return {**reports, **comments}


def render_comment(name: str, result: GateResult) -> str:
    """The comment on a family, after the one that came before."""
    before = BEFORE.get(name)
    first = About(marker="<!-- onnx-gate comment 0 -->", commit="0f9e8d7" + "0" * 33, run_url=RUN)
    last = comment.render(before(), first, None) if before else None
    text = comment.render(result, replace(first, commit="1a2b3c4" + "0" * 33), last)
    # What is packed there depends on the version of zlib.
    return re.sub(r"(?<=<!-- onnx-gate state )\S+", "…", text)


def main() -> None:
    """Write them all, and remove those of families that are no more."""
    files = golden_files()
    for path in FOLDER.iterdir():
        if path.suffix in (".json", ".md", ".xml", ".html") and path.name not in files:
            path.unlink()
    for name, (family, render) in files.items():
        (FOLDER / name).write_bytes(render(family()).encode("utf-8"))


if __name__ == "__main__":
    main()

"""Write the golden files anew: `python -m tests.golden.rewrite`. Read the diff before you commit it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onnx_gate.records import GateResult
from onnx_gate.reports import RENDER
from tests.golden.families import FAMILIES

FOLDER = Path(__file__).parent
SUFFIXES = {"results.json": ".json", "summary.md": ".summary.md", "junit.xml": ".junit.xml"}
"""What a report is called beside its family's name."""


def golden_files() -> dict[str, tuple[Callable[[], GateResult], Callable[[GateResult], str]]]:
    """By file name: the family, and the report that is made of it."""
    return {
        f"{name}{SUFFIXES[report]}": (family, render)
        for name, family in FAMILIES.items()
        for report, render in RENDER.items()
    }


def main() -> None:
    """Write them all, and remove those of families that are no more."""
    files = golden_files()
    for path in FOLDER.iterdir():
        if path.suffix in (".json", ".md", ".xml") and path.name not in files:
            path.unlink()
    for name, (family, render) in files.items():
        (FOLDER / name).write_bytes(render(family()).encode("utf-8"))


if __name__ == "__main__":
    main()

"""The page on strength lists the kinds of wrong models that there are."""

from __future__ import annotations

from pathlib import Path

from onnx_gate.worker.strength.kinds import KINDS
from onnx_gate.worker.strength.kinds.mutants import Kind

PAGE = Path(__file__).parents[2] / "docs/strength.md"


def test_every_kind_is_in_the_table_of_the_page() -> None:
    """Word for word, and in the order of the reports."""
    rows = [f"| {info.kind} | {info.size} | {info.of} |" for info in KINDS.values()]
    assert "\n".join(rows) in PAGE.read_text(encoding="utf-8")


def test_every_kind_is_explained() -> None:
    """A kind that can be made has a row."""
    assert set(KINDS) == set(Kind)

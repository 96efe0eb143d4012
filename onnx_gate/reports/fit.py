"""Fitting a report into a limit: blocks go in whole or not at all, so that nothing in them is left open."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onnx_gate.reports.pieces import Grid, table

Measure = Callable[[str], int]


def size_in_bytes(text: str) -> int:
    """As a file counts."""
    return len(text.encode("utf-8", "backslashreplace"))


def size_in_characters(text: str) -> int:
    """As GitHub counts a comment at worst: characters beyond the first 65,536 of Unicode as two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def fill(text: str, blocks: Iterable[str], limit: int, measure: Measure, between: str = "\n\n") -> tuple[str, int]:
    """The text with those of the first blocks that fit, and how many did."""
    used, kept = measure(text), []
    for block in blocks:
        used += measure(between + block)
        if used > limit:
            break
        kept.append(block)
    return between.join([text, *kept]), len(kept)


def table_within(grid: Grid, limit: int, measure: Measure) -> tuple[str, int]:
    """A table of those of the first rows that fit, and how many did; no table where none does."""
    head, rule, *lines = table(*grid).split("\n")
    text, kept = fill(f"{head}\n{rule}", lines, limit, measure, between="\n")
    return (text, kept) if kept else ("", 0)

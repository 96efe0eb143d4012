"""Fitting a report into a limit: blocks go in whole or not at all, so that nothing in them is left open."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onnx_gate.reports.pieces import Grid, table_head, table_line
from onnx_gate.reports.safe import LINE, PARAGRAPH, Md, join

Measure = Callable[[Md], int]


def size_in_bytes(text: Md) -> int:
    """As a file counts."""
    return len(text.markup.encode("utf-8", "backslashreplace"))


def size_in_characters(text: Md) -> int:
    """As GitHub counts a comment at worst: characters beyond the first 65,536 of Unicode as two."""
    return len(text.markup.encode("utf-16-le", "surrogatepass")) // 2


def fill(text: Md, blocks: Iterable[Md], limit: int, measure: Measure, between: Md = PARAGRAPH) -> tuple[Md, int]:
    """The text with those of the first blocks that fit, and how many did."""
    used, kept = measure(text), []
    for block in blocks:
        used += measure(between) + measure(block)
        if used > limit:
            break
        kept.append(block)
    return join(between, [text, *kept]), len(kept)


def table_within(grid: Grid, limit: int, measure: Measure) -> tuple[Md, int]:
    """A table of those of the first rows that fit, and how many did; nothing where none does."""
    head = join(LINE, table_head(grid.header, grid.right))
    return fill(head, map(table_line, grid.rows), limit, measure, between=LINE)

"""The parts of every page: tables, names, and lists that may be shortened."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from onnx_gate.reports.safe import COMMA, LINE, PARAGRAPH, Md, join, md, text
from onnx_gate.wording.text import LONGEST_NAME

_FEW = 5
_LEFT, _RIGHT = md("---"), md("---:")

Row = list[Md]


class Grid(NamedTuple):
    """The content of a table."""

    header: Row
    rows: list[Row]
    right: Iterable[int] = ()
    """Columns that are aligned to the right, by number."""


def row(*cells: Md | str | float) -> Row:
    """The cells of a row; plain text is escaped."""
    return [cell if isinstance(cell, Md) else md("{}", cell) for cell in cells]


def table(header: Row, rows: Iterable[Row], right: Iterable[int] = ()) -> Md:
    """A table; `right` are the numbers of the columns that are aligned to the right."""
    return join(LINE, [*table_head(header, right), *map(table_line, rows)])


def table_head(header: Row, right: Iterable[int] = ()) -> list[Md]:
    """The two lines that a table starts with."""
    numeric = set(right)
    rule = [_RIGHT if column in numeric else _LEFT for column in range(len(header))]
    return [table_line(header), table_line(rule)]


def table_line(cells: Row) -> Md:
    """A line of a table."""
    return md("| {} |", join(md(" | "), cells))


def items(lines: Iterable[Md]) -> Md:
    """A list."""
    return join(LINE, (md("- {}", line) for line in lines))


def few(things: Iterable[Md], limit: int = _FEW) -> Md:
    """The first few of the things, such as `a, b, c and 4 more`."""
    unique = list(dict.fromkeys(things))
    shown = join(COMMA, unique[:limit])
    return md("{} and {} more", shown, len(unique) - limit) if len(unique) > limit else shown


def more(count: int, things: str) -> Md:
    """A note that there are more things than are shown."""
    return md("… and more {} ({:,}): see results.json.", things, count)


def name(value: str) -> Md:
    """A name from other sources as plain text."""
    return text(value, LONGEST_NAME)


Measure = Callable[[Md], int]


def fill(text: Md, blocks: Iterable[Md], limit: int, measure: Measure, between: Md = PARAGRAPH) -> tuple[Md, int]:
    """The text with as many of the first blocks as fit, and their number."""
    used, kept = measure(text), []
    for block in blocks:
        used += measure(between) + measure(block)
        if used > limit:
            break
        kept.append(block)
    return join(between, [text, *kept]), len(kept)


def table_within(grid: Grid, limit: int, measure: Measure) -> tuple[Md, int]:
    """A table with as many of the first rows as fit, and their number, which may be 0."""
    head = join(LINE, table_head(grid.header, grid.right))
    return fill(head, map(table_line, grid.rows), limit, measure, between=LINE)

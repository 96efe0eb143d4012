"""What every page is made of: folds, tables, names, lists that are cut short."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from onnx_gate.wording import LONGEST_NAME, plain_markdown

_FEW = 5


def fold(title: str, body: str, *, unfolded: bool = False) -> str:
    """Closed until somebody wants it. GitHub renders markdown in it only after a blank line."""
    return f"<details{' open' if unfolded else ''}>\n<summary>{title}</summary>\n\n{body}\n\n</details>"


class Grid(NamedTuple):
    """What a table is made of."""

    header: list[str]
    rows: list[list[str]]
    right: Iterable[int] = ()
    """Columns that are set to the right, by number."""


def table(header: list[str], rows: list[list[str]], right: Iterable[int] = ()) -> str:
    """A table, with the columns named by number set to the right."""
    numeric = set(right)
    rule = ["---:" if column in numeric else "---" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *rows])


def few(items: Iterable[str], limit: int = _FEW) -> str:
    """`a, b, c and 4 more`."""
    unique = list(dict.fromkeys(items))
    more = f" and {len(unique) - limit} more" if len(unique) > limit else ""
    return f"{', '.join(unique[:limit])}{more}"


def more(count: int, things: str) -> str:
    """That there are more than are shown."""
    return f"… and more {things} ({count:,}): see results.json."


def name(value: str) -> str:
    """Anybody's name as plain text."""
    return plain_markdown(value, LONGEST_NAME)

"""Every check of a model, in a fold: a table that stays readable and small for any number of checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onnx_gate.records.limits import counts_rows
from onnx_gate.records.result import Check, ModelResult
from onnx_gate.reports.layout import Row, few, items, more, name, row, table
from onnx_gate.reports.model_details import facts
from onnx_gate.reports.safe import PARAGRAPH, Md, code, join, md, text
from onnx_gate.vocabulary import EDGE_CASE, Status
from onnx_gate.wording import numbers, verdicts
from onnx_gate.wording.numbers import number, plural
from onnx_gate.wording.verdicts import ICONS

MOST_ROWS = 100
"""The most rows of one model."""
MOST_ROWS_OF_PAGE = 5_000
_MOST_FACTS = 100
_FEW = 5
_HEADER = row("", "provider", "case", "output", "shape", "mismatched", "max abs", "mean abs", "RMSE", "cosine")

Alike = list[Check]
"""One check, or many passed checks that share a row."""


@dataclass
class Room:
    """The rows that are left on a page for checks: models use them in the order of the page."""

    left: int = MOST_ROWS_OF_PAGE
    full: bool = False
    """Some model got fewer rows than it would have on its own page."""

    def take(self, wanted: int, most: int = MOST_ROWS) -> int:
        """The number of rows that a model gets."""
        taken = min(wanted, most, self.left)
        self.full |= taken < min(wanted, most)
        self.left -= taken
        return taken

    def notice(self) -> list[Md]:
        """What the page says if it had too few rows."""
        if not self.full:
            return []
        return [md("*This page shows {:,} rows of checks and no more: see results.json.*", MOST_ROWS_OF_PAGE)]


def all_checks(model: ModelResult, room: Room) -> Md:
    """The checks in a table, with many passed ones in one row; then other facts, such as what is allowed."""
    groups = list(_grouped(model.checks))
    shown, left_out = most_urgent(groups, room.take(len(groups)))
    blocks = [table(_HEADER, map(_row, shown), right=range(5, 10))] if shown else []
    if left_out:
        blocks.append(more(sum(map(len, left_out)), "checks"))
    return join(PARAGRAPH, [*blocks, _facts(model)])


def _facts(model: ModelResult) -> Md:
    known = list(facts(model))
    left_out = len(known) - _MOST_FACTS
    return items([*known[:_MOST_FACTS], *([more(left_out, "facts")] if left_out > 0 else [])])


def most_urgent(groups: list[Alike], count: int) -> tuple[list[Alike], list[Alike]]:
    """The groups to show and those left out. They keep their order; if there are too many, failed ones come first."""
    if len(groups) > count:
        groups = sorted(groups, key=lambda alike: verdicts.WORST_FIRST.index(alike[0].status))
    return groups[:count], groups[count:]


def _grouped(checks: Iterable[Check]) -> Iterable[Alike]:
    """One group per check. Passed checks of an output share one if they are many or edges: no fault is found there."""
    groups: dict[tuple[object, ...], Alike] = {}
    for index, check in enumerate(checks):
        passed = check.status is Status.PASSED
        kind = check.case.startswith(EDGE_CASE), counts_rows(check.limits)
        alike = (check.provider, check.output, *kind) if passed else (index,)
        groups.setdefault(alike, []).append(check)
    for group in groups.values():
        few_enough = len(group) <= _FEW and not (len(group) > 1 and group[0].case.startswith(EDGE_CASE))
        yield from ([check] for check in group) if few_enough else [group]


def _row(alike: Alike) -> Row:
    return _check_row(alike[0]) if len(alike) == 1 else _passed_row(alike)


def _passed_row(checks: Alike) -> Row:
    """Many passed checks in one row: the sums, and the worst of each number."""
    first, edges = checks[0], checks[0].case.startswith(EDGE_CASE)
    names = few((name(check.case.removeprefix(EDGE_CASE)) for check in checks), 3)
    mismatched, total = sum(check.mismatched for check in checks), sum(check.total for check in checks)
    differences = [check.max_abs for check in checks if check.max_abs is not None]
    cosines = [check.cosine for check in checks if check.cosine is not None]
    return row(
        ICONS[first.status],
        name(first.provider),
        md("{}: {}", plural(len(checks), "edge" if edges else "case"), names),
        _output(first),
        "",
        md("{:,} of {:,}", mismatched, total),
        number(max(differences, default=None)),
        "",
        "",
        numbers.cosine(min(cosines, default=None)),
    )


def _check_row(check: Check) -> Row:
    where = row(ICONS[check.status], name(check.provider), name(check.case), _output(check))
    shape = "×".join(map(str, check.shape))
    if not check.total:
        return [*where, *row(shape, "", "", "", "", "")]
    return [
        *where,
        *row(
            shape or "scalar",
            md("{:,} of {:,}", check.mismatched, check.total),
            number(check.max_abs),
            number(check.mean_abs),
            number(check.rmse),
            numbers.cosine(check.cosine),
        ),
    ]


def _output(check: Check) -> Md:
    return code(check.output) if check.output else text("")

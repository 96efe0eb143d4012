"""The differences of the worst output by size: a chart that GitHub draws, and the same numbers as a table.

The chart consists only of our own numbers: no name and no other text can become part of its code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import NamedTuple

from onnx_gate.records.diagnosis.plots import PER_DECADE, Histogram, Plot
from onnx_gate.records.result import Check, ModelResult
from onnx_gate.reports.layout import name, row, table
from onnx_gate.reports.safe import PARAGRAPH, Md, code, code_block, code_html, fold, html, join, md
from onnx_gate.wording import verdicts
from onnx_gate.wording.numbers import plural

MOST_CHARTS = 10
"""The most charts of one text: each is drawn in its own frame."""
_FARTHEST = 300
"""The largest power of ten for a bar."""
_COLOURS = "slategray, crimson, slategray"
"""Colours that are visible on white and on black, by name: in a comment, a `#` with a digit would be a link."""
# Titles of axes are drawn over the labels, and heights are logarithms, which nobody reads: the table has the numbers.
_AXIS = {"showTitle": False, "showLabel": False, "showTick": False}
_SETTINGS = {
    "xyChart": {"width": 700, "height": 300, "yAxis": _AXIS},
    "themeVariables": {"xyChart": {"plotColorPalette": _COLOURS}},
}


class Bar(NamedTuple):
    """Elements whose differences have about the same size."""

    label: str
    """The smallest difference of the bar, or `NaN`."""
    words: str
    """The range of differences, for the table."""
    elements: int
    beyond: int
    """How many of these elements are out of tolerance."""


def histogram_fold(model: ModelResult) -> list[Md]:
    """A fold with the histogram of a model's worst output; empty if there is nothing to draw."""
    plot = _worst(model)
    if plot is None or plot.histogram is None:
        return []
    bars = list(_bars(plot.histogram))
    title = html("How large the differences of {} are", code_html(plot.output))
    return [fold(title, join(PARAGRAPH, [_chart(bars), _table(bars), _about(plot, model)]))]


def _worst(model: ModelResult) -> Plot | None:
    """The plot of the worst comparison, or else the first that has a difference."""
    drawn = [plot for plot in model.plots or () if plot.histogram and any(plot.histogram.counts)]
    worst = verdicts.worst_check(model)
    return next((plot for plot in drawn if worst and _is_of(plot, worst)), drawn[0] if drawn else None)


def _is_of(plot: Plot, check: Check) -> bool:
    return (plot.provider, plot.output) == (check.provider, check.output)


def _bars(found: Histogram) -> Iterator[Bar]:
    """One bar for each power of ten; before them equal elements, after them NaN or Inf."""
    if found.same:
        yield Bar("0", "none", found.same, 0)
    counts: dict[int, list[int]] = {}
    for number, (count, beyond) in enumerate(zip(found.counts, found.beyond, strict=False)):
        both = counts.setdefault(_decade(found, number), [0, 0])
        both[0], both[1] = both[0] + count, both[1] + beyond
    filled = [decade for decade, (count, _) in counts.items() if count]
    for decade in range(min(filled), max(filled) + 1):
        count, beyond = counts.get(decade, (0, 0))
        yield Bar(f"1e{decade}", f"1e{decade} to 1e{decade + 1}", count, beyond)
    if found.odd:
        yield Bar("NaN", "NaN or Inf on one side", found.odd, found.odd)


def _decade(found: Histogram, number: int) -> int:
    """The power of ten of a bin, by its middle: rounding can't move the middle to another bin."""
    middle = found.edge(number) * math.pow(10.0, 0.5 / PER_DECADE)
    return math.floor(math.log10(middle)) if 0 < middle < math.inf else _FARTHEST if middle else -_FARTHEST


def _chart(bars: list[Bar]) -> Md:
    """The chart. One element has to be visible beside a million; Mermaid has no log scale, so the numbers are logs."""
    tall = max(_height(bar.elements) for bar in bars)
    labels = ", ".join(f'"{bar.label}"' for bar in bars)
    lines = [
        f"%%{{init: {json.dumps(_SETTINGS)}}}%%",
        "xychart-beta",
        f"    x-axis [{labels}]",
        f"    y-axis 0 --> {math.ceil(tall)}",
        f"    bar [{', '.join(f'{_height(bar.elements):.3f}' for bar in bars)}]",
        f"    bar [{', '.join(f'{_height(bar.beyond):.3f}' for bar in bars)}]",
        # A bar of 0 is drawn with some height too. This third bar hides a red one where nothing is wrong.
        f"    bar [{', '.join(f'{0 if bar.beyond else _height(bar.elements):.3f}' for bar in bars)}]",
    ]
    return code_block(lines, "mermaid")


def _height(count: int) -> float:
    return math.log10(1 + count)


def _table(bars: list[Bar]) -> Md:
    rows = [row(bar.words, md("{:,}", bar.elements), md("{:,}", bar.beyond)) for bar in bars if bar.elements]
    return table(row("difference", "elements", "out of tolerance"), rows, right=(1, 2))


def _about(plot: Plot, model: ModelResult) -> Md:
    """Which comparison is shown, and how many of its elements were looked at."""
    known = (plot.provider, plot.case, plot.output)
    check = next((each for each in model.checks if (each.provider, each.case, each.output) == known), None)
    total = check.total if check else plot.looked
    some = f"a sample of {plot.looked:,} of" if plot.looked < total else "all"
    where = md("{} ({}, {})", code(plot.output), name(plot.provider), name(plot.case))
    return md(
        "Each bar begins at the difference below it; heights are on a log scale. Red: out of tolerance. {}, {} {}.",
        where,
        some,
        plural(total, "element"),
    )

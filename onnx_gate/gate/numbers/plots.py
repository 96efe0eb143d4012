"""Numbers that plots are drawn from, checked against the comparison that they belong to."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_gate.records.diagnosis.plots import GRID, ByRow, Histogram, Matrix, Pairs, Plot
from onnx_gate.records.result import Check, ModelResult


def of_the_plots(model: ModelResult) -> Iterator[str]:
    """What is impossible about the plots: each output has at most one, and its comparison must exist."""
    checks = {(check.provider, check.case, check.output): check for check in model.checks if check.total}
    seen: set[tuple[str, str]] = set()
    for plot in model.plots or ():
        check = checks.get((plot.provider, plot.case, plot.output))
        if check is None or (plot.provider, plot.output) in seen:
            yield f"it has a plot of {plot.output} on {plot.provider} {'alone' if check is None else 'twice'}"
            continue
        seen.add((plot.provider, plot.output))
        yield from (f"the plot of {plot.output} on {plot.provider}: {reason}" for reason in _of_a_plot(plot, check))


def _of_a_plot(plot: Plot, check: Check) -> Iterator[str]:
    if plot.looked > check.total:
        yield f"{plot.looked:,} elements were looked at, and {check.total:,} compared"
    if check.tolerance is None and (plot.histogram or plot.pairs or plot.by_row):
        yield "labels have no differences to draw"
    if check.tolerance is not None and plot.matrix:
        yield "it is of numbers, and has a matrix of labels"
    if plot.histogram:
        yield from _of_the_histogram(plot.histogram, plot, check)
    if plot.pairs:
        yield from _of_the_pairs(plot.pairs, plot)
    if plot.by_row:
        yield from _of_the_rows(plot.by_row)
    if plot.matrix:
        yield from _of_the_matrix(plot.matrix, check)


def _of_the_histogram(found: Histogram, plot: Plot, check: Check) -> Iterator[str]:
    if len(found.counts) != len(found.beyond) or any(
        wrong > count for wrong, count in zip(found.beyond, found.counts, strict=False)
    ):
        yield "more elements are out of tolerance than there are in a bin"
    if sum(found.counts) + found.same + found.odd != plot.looked:
        yield f"its bins do not hold the {plot.looked:,} elements that were looked at"
    if sum(found.beyond) > check.mismatched or found.odd > check.nonfinite_mismatched:
        yield f"more elements are wrong in it than the {check.mismatched:,} that are"


def _of_the_pairs(found: Pairs, plot: Plot) -> Iterator[str]:
    if found.lowest > found.highest or len(found.references) != len(found.actuals):
        yield "its points have no place"
    if len(found.cells) != len(found.counts) or any(cell >= GRID * GRID for cell in found.cells):
        yield "its cells have no place"
    if len(found.references) + sum(found.counts) > plot.looked:
        yield f"it shows more elements than the {plot.looked:,} that were looked at"


def _of_the_rows(found: ByRow) -> Iterator[str]:
    if len(found.used) > found.rows:
        yield f"it has {len(found.used):,} parts of {found.rows:,} rows"


def _of_the_matrix(found: Matrix, check: Check) -> Iterator[str]:
    pairs = list(found.pairs())
    listed = {len(found.references), len(found.actuals)}
    expected = {len(found.labels) ** 2} if listed == {0} and found.counts else listed
    if {len(found.counts)} != expected or any(place >= len(found.labels) for pair in pairs for place in pair[:2]):
        yield "its pairs have no place"
    if sum(count for _, _, count in pairs) != check.total:
        yield f"its pairs are not the {check.total:,} labels that were compared"
    # Two objects that are not equal may have the same text.
    if sum(count for reference, actual, count in pairs if reference != actual) > check.mismatched:
        yield f"more of its pairs differ than the {check.mismatched:,} labels that do"

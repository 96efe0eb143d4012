"""The plots of a model: pictures with captions that say the same in words, and confusion matrices as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx_gate.records.badness import worst_first
from onnx_gate.records.diagnosis.place import Place
from onnx_gate.records.diagnosis.plots import GRID, ByRow, Histogram, Pairs, Plot
from onnx_gate.records.limits import counts_rows
from onnx_gate.records.ran import Latency
from onnx_gate.records.result import Check, ModelResult
from onnx_gate.reports.page import charts
from onnx_gate.reports.page.charts import Chart, Point, Series, Tick, decades, log, round_numbers, shares, ticks
from onnx_gate.reports.page.matrix import matrix
from onnx_gate.reports.safe import Html, code_html, html, join_html, size_in_bytes
from onnx_gate.vocabulary import Status, sizes_of
from onnx_gate.wording.numbers import duration, number, plural

MOST_CHARTS = 160
"""The most pictures of a page."""
MOST_BYTES = 2_000_000
"""The most bytes of all pictures of a page."""
MOST_OUTPUTS = 4
"""The most outputs that are drawn for a model that failed."""
_FEW_OUTPUTS = 1
"""The most outputs that are drawn for a model that passed."""
_LEVELS = 4
_THIN = 0.004
_ROOM = 0.1
"""The share of an axis that the text of a tick takes."""
_APART = 0.25
"""The least distance between two numbers of an axis, as a part of a power of ten."""
_ODD = 1e299
"""A share of the tolerance that stands for NaN or Inf."""


@dataclass
class Paper:
    """The space that is left for pictures: models use it in the order of the page, failed ones first."""

    charts: int = MOST_CHARTS
    bytes: int = MOST_BYTES
    drawn: int = 0
    left_out: int = 0

    def figure(self, chart: Chart, words: Html) -> list[Html]:
        """The picture with its caption, or nothing if there is no space left."""
        if self.charts <= 0 or self.bytes <= 0:
            self.left_out += 1
            return []
        self.drawn += 1
        caption = f"plot-{self.drawn}"
        made = html(
            '<figure>{}<figcaption id="{}">{}</figcaption></figure>', charts.draw(chart, caption), caption, words
        )
        self.charts -= 1
        self.bytes -= size_in_bytes(made)
        return [made]

    def table(self, made: Html) -> list[Html]:
        """A table instead of a picture, which uses space as well."""
        if self.bytes <= 0:
            self.left_out += 1
            return []
        self.bytes -= size_in_bytes(made)
        return [made]

    def notice(self) -> list[Html]:
        """What the page says if it had too little space."""
        if not self.left_out:
            return []
        told = plural(self.left_out, "more plot")
        return [html("<p>{} would make this page too large. results.json has what they show.</p>", told)]


NOT_DRAWN = "Plots are drawn in the run that judges a model, and this one is cached. results.json has what they show."
"""Only models that passed are cached, and drawing them would take longer than all else in a run without changes."""


def plots(model: ModelResult, paper: Paper) -> list[Html]:
    """All plots of a model, the most informative first."""
    if model.cached and model.plots:
        return [html("<p>{}</p>", NOT_DRAWN)]
    failed = model.verdict in (Status.DIVERGED, Status.ERROR)
    made = _of_the_place(model.place, paper) if model.place else []
    shown = _shown(model.plots or (), most=MOST_OUTPUTS if failed else _FEW_OUTPUTS)
    for plot in shown:
        made += _of_an_output(plot, model, paper)
    made += _by_size(model, paper)
    made += _of_latency(model.latency, paper)
    drawn = [html('<div class="plots">{}</div>', join_html(made))] if made else []
    return [*drawn, *_not_shown([plot for plot in model.plots or () if plot not in shown])]


def _not_shown(plots: Sequence[Plot]) -> list[Html]:
    """Which outputs have plots in results.json only."""
    if not plots:
        return []
    told = join_html((html("{} on {}", code_html(plot.output), plot.provider) for plot in plots[:MOST_OUTPUTS]), ", ")
    left = len(plots) - MOST_OUTPUTS
    more = html(" and {:,} more", left) if left > 0 else html("")
    return [html("<p>Not drawn here: {}{}. results.json has what their plots would show.</p>", told, more)]


def _shown(found: Sequence[Plot], most: int) -> list[Plot]:
    """The first outputs with numbers, and the first with labels: people look for both."""
    numbers = [plot for plot in found if plot.matrix is None]
    return [*numbers[:most], *[plot for plot in found if plot.matrix is not None][:most]]


def _of_an_output(plot: Plot, model: ModelResult, paper: Paper) -> list[Html]:
    where = html("{} on {}, {}", code_html(plot.output), plot.provider, plot.case)
    check = next((each for each in model.checks if _is_of(plot, each)), None)
    made: list[Html] = []
    if plot.histogram and any(plot.histogram.counts):
        made += paper.figure(*_histogram(plot.histogram, plot, check, where))
    if plot.pairs:
        made += paper.figure(*_pairs(plot.pairs, plot, where))
    if plot.by_row and any(plot.by_row.used):
        made += paper.figure(*_by_row(plot.by_row, where))
    if plot.matrix and plot.matrix.labels:
        made += paper.table(matrix(plot.matrix, where))
    return made


def _is_of(plot: Plot, check: Check) -> bool:
    return (plot.provider, plot.case, plot.output) == (check.provider, check.case, check.output)


def _sample(plot: Plot, check: Check | None) -> str:
    if check is None or plot.looked >= check.total:
        return plural(plot.looked, "element")
    return f"A sample of {plot.looked:,} of {check.total:,} elements"


# ── One output ──────────────────────────────────────────────────────────────────────────────────────────


def _histogram(found: Histogram, plot: Plot, check: Check | None, where: Html) -> tuple[Chart, Html]:
    """A histogram on two log scales: one element out of tolerance is visible beside a million within it."""
    edges = [log(found.edge(bin)) for bin in range(len(found.counts) + 1)]
    low, high = edges[0], max(edges[-1], edges[0] + 1)
    tall = math.log10(max(*found.counts, 1)) + 1
    within = tuple(_bar(count, *edges[n : n + 2]) for n, count in enumerate(found.counts) if count)
    wrong = tuple(_bar(count, *edges[n : n + 2]) for n, count in enumerate(found.beyond[: len(found.counts)]) if count)
    series = [Series(colour="within", bars=within), Series(colour="beyond", bars=wrong)]
    allowed = check.tolerance.atol if check and check.tolerance else 0.0
    if allowed > 0:
        low, high = min(low, log(allowed) - 0.2), max(high, log(allowed) + 0.2)
        thick = _THIN * (high - low)
        series.append(Series(colour="limit", bars=((tall, log(allowed) - thick, log(allowed) + thick),)))
    chart = Chart(
        series=tuple(series),
        x=decades(low, high),
        y=_counts(max(*found.counts, 1)),
        across=(low, high),
        up=(0, tall + 0.1),
        x_words="difference (log scale)",
        y_words="count (log scale)",
    )
    beyond = sum(found.beyond) + found.odd
    parts = [f"{beyond:,} out of tolerance", f"{found.same:,} exactly equal"]
    parts += [f"{found.odd:,} NaN or Inf on one side"] if found.odd else []
    line = f"The line is atol, {number(allowed)}; rtol adds to it." if allowed > 0 else ""
    return chart, html("<b>Differences</b> of {}. {}: {}. {}", where, _sample(plot, check), ", ".join(parts), line)


def _counts(most: int) -> tuple[Tick, ...]:
    """Ticks at powers of ten, and at the largest count if it is not near a power of ten."""
    tall = math.log10(most)
    top = [(tall, f"{most:,}")] if tall - math.floor(tall) > _APART and most < 10**6 else []
    return tuple((place + 1, words) for place, words in [*decades(0, tall), *top])


def _bar(count: int, left: float, right: float) -> tuple[float, float, float]:
    return math.log10(max(count, 1)) + 1, left, right


def _pairs(found: Pairs, plot: Plot, where: Html) -> tuple[Chart, Html]:
    """A plot of the source against ONNX Runtime, with a diagonal where both agree."""
    low, high = sorted((found.lowest, found.highest))
    # Halved first, because the difference of two large numbers may overflow.
    wide = (high / 2 - low / 2) * 2 if math.isfinite(high - low) else 0.0
    if not wide > 0 or max(abs(low), abs(high)) > 1e100:
        wide = max(1.0, abs(low) / 10) if abs(low) <= 1e100 else 1.0
        low, high = (low - wide / 2, low + wide / 2) if abs(low) <= 1e100 else (-0.5, 0.5)
    size = (high - low) / GRID
    series = [Series(colour="diagonal", points=((low, low), (high, high)), joined=True)]
    series += _density(found, low, size)
    points = tuple((min(max(r, low), high), min(max(a, low), high)) for r, a in zip(*_both(found), strict=False))
    series += [Series(colour="within", points=points)] if points else []
    marks = ticks(round_numbers(low, high))
    chart = Chart(
        series=tuple(series),
        x=marks,
        y=marks,
        across=(low, high),
        up=(low, high),
        x_words="source",
        y_words="ONNX Runtime",
    )
    how = "Each dot is an element." if points else "The darker a dot, the more elements lie there (log scale)."
    return chart, html("<b>Source against ONNX Runtime</b>, {}. {} On the diagonal both agree.", where, how)


def _both(found: Pairs) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return found.references, found.actuals


def _density(found: Pairs, low: float, size: float) -> Iterator[Series]:
    most = math.log10(max(*found.counts, 2)) if len(found.counts) > 1 else 1.0
    levels: dict[int, list[tuple[float, float]]] = {}
    for cell, count in zip(found.cells, found.counts, strict=False):
        row, column = divmod(min(cell, GRID * GRID - 1), GRID)
        level = min(_LEVELS - 1, int(_LEVELS * math.log10(max(count, 1)) / most))
        levels.setdefault(level, []).append((low + (column + 0.5) * size, low + (row + 0.5) * size))
    for level, points in sorted(levels.items()):
        yield Series(colour=f"within level-{level}", points=tuple(points), size=3.5)


def _by_row(found: ByRow, where: Html) -> tuple[Chart, Html]:
    count = len(found.used)
    per = max(found.rows, 1) / count
    places = [((part + 0.5) * per, place) for part, place in enumerate(_placed(found.used))]
    across = 0.0, count * per
    chart = _shares(places, across, ticks((0.0, float(round(across[1] / 2)), across[1])), "row")
    worst, wrong = max(found.used), sum(used > 1 for used in found.used)
    largest = f"the largest uses {number(100 * worst)} % of the tolerance"
    told = "NaN or Inf is on one side" if worst >= _ODD else largest
    out = f"{wrong:,} of {plural(count, 'dot')} {'is' if wrong == 1 else 'are'} out of tolerance." if wrong else ""
    each = f"Each dot is the worst of up to {math.ceil(per):,} rows." if per > 1 else ""
    words = html("<b>By row</b> (log scale), {}: of {}, {}.", where, plural(found.rows, "row"), told)
    return chart, join_html(filter(None, (words, html("{}", out), html("{}", each))), " ")


def _shares(places: Sequence[Point], across: Point, x: tuple[Tick, ...], words: str) -> Chart:
    """A chart of shares of the tolerance on a log scale, with a line at 100 %."""
    low, high = min([y for _, y in places] + [-0.5]) - 0.3, max([y for _, y in places] + [0.0]) + 0.3
    series = (
        Series(colour="limit", points=((across[0], 0.0), (across[1], 0.0)), joined=True),
        Series(colour="within", points=tuple(places), joined=True),
        Series(colour="within", points=tuple(each for each in places if each[1] <= 0), size=3),
        Series(colour="beyond", points=tuple(each for each in places if each[1] > 0), size=4),
    )
    return Chart(
        series=tuple(each for each in series if each.points),
        x=x,
        y=shares(low, high),
        across=across,
        up=(low, high),
        x_words=words,
        y_words="share of tolerance",
    )


def _placed(shares: Sequence[float]) -> list[float]:
    """The shares' places on a log scale, limited at both ends, where digits don't matter; a share of 0 is below all."""
    logs = [min(max(log(used), -9.0), 9.0) for used in shares]
    nothing = min([place for place, used in zip(logs, shares, strict=True) if used > 0] or [0.0]) - 0.5
    return [place if used > 0 else nothing for place, used in zip(logs, shares, strict=True)]


# ── A model ─────────────────────────────────────────────────────────────────────────────────────────────


def _by_size(model: ModelResult, paper: Paper) -> list[Html]:
    """Plots of the worst output by size, one for each dimension that has several sizes."""
    compared = [check for check in model.checks if check.used is not None and not counts_rows(check.limits)]
    worst = next(iter(worst_first(compared)), None)
    if worst is None:
        return []
    found: dict[str, dict[int, float]] = {}
    for check in compared:
        if (check.provider, check.output) == (worst.provider, worst.output) and check.used is not None:
            for name, size in sizes_of(check.case).items():
                sizes = found.setdefault(name, {})
                sizes[size] = max(sizes.get(size, 0.0), check.used)
    where = html("{} on {}", code_html(worst.output), worst.provider)
    several = [(name, sizes) for name, sizes in found.items() if len(sizes) > 1 and any(sizes.values())]
    return [each for name, sizes in several[:2] for each in paper.figure(*_sizes(name, sizes, where))]


def _sizes(name: str, sizes: dict[int, float], where: Html) -> tuple[Chart, Html]:
    found = sorted(sizes.items())
    heights = _placed([used for _, used in found])
    places = [(log(max(size, 0.5)), place) for (size, _), place in zip(found, heights, strict=True)]
    across = places[0][0], places[-1][0]
    chart = _shares(
        places, across, _apart([(log(max(size, 0.5)), f"{size:,}") for size, _ in found], across), "size (log scale)"
    )
    words = html(
        "<b>By {}</b> (log scale), {}: the share of the tolerance that is used. Above 100 % is too much.", name, where
    )
    return chart, words


def _apart(ticks: Sequence[Tick], across: Point) -> tuple[Tick, ...]:
    """The ticks without those whose text would overlap another; the largest stays."""
    least = _ROOM * (across[1] - across[0])
    kept: list[Tick] = []
    for tick in reversed(ticks):
        if not kept or kept[-1][0] - tick[0] >= least:
            kept.append(tick)
    return tuple(reversed(kept))


def _of_the_place(place: Place, paper: Paper) -> list[Html]:
    """A plot of the error along the graph, with the values at which it begins."""
    along = place.along
    if len(along) < 2 or not any(each.error for each in along):
        return []
    wrong = {fault.value for fault in place.faults} | ({place.grows} if place.grows else set())
    logs = [log(part) for each in along for part in (each.error, each.noise) if part > 0]
    high = max(logs) + 0.3
    low = max(min(logs), high - 16) - 0.3
    errors, noise = (
        tuple((float(at), max(low, log(value)) if value > 0 else low) for at, value in enumerate(values, 1))
        for values in ([each.error for each in along], [each.noise for each in along])
    )
    marked = tuple(point for point, each in zip(errors, along, strict=True) if each.value in wrong)
    series = [
        Series(colour="noise", points=noise, joined=True),
        Series(colour="within", points=errors, joined=True),
        Series(colour="beyond", points=marked, size=5),
    ]
    ends = sorted({1.0, float(math.ceil(len(along) / 2)), float(len(along)), *(x for x, _ in marked[:3])})
    chart = Chart(
        series=tuple(each for each in series if each.points),
        x=ticks(ends),
        y=decades(low, high),
        across=(1.0, float(len(along))),
        up=(low, high),
        x_words="values, in the order of the graph",
        y_words="error (log scale)",
    )
    dots = "The red dot marks where it begins." if marked else ""
    words = html(
        "<b>Along the graph</b>: the error at {}, and, in grey, how much of it may be rounding. {}",
        plural(len(along), "value"),
        dots,
    )
    return paper.figure(chart, words)


def _of_latency(times: tuple[Latency, ...], paper: Paper) -> list[Html]:
    """A plot of latency as pairs of bars, in the order of the table."""
    shown = [each for each in times if each.actual.median > 0][:12]
    if not shown:
        return []
    medians = [side.median for each in shown for side in (each.source, each.actual) if side]
    tall = max(medians)
    source = tuple((each.source.median, at + 0.1, at + 0.48) for at, each in enumerate(shown) if each.source)
    actual = tuple((each.actual.median, at + 0.52, at + 0.9) for at, each in enumerate(shown))
    series = [Series(colour="noise", bars=source), Series(colour="within", bars=actual)]
    chart = Chart(
        series=tuple(each for each in series if each.bars),
        x=tuple((at + 0.5, f"{each.batch:,}" if each.batch else str(at + 1)) for at, each in enumerate(shown)),
        y=tuple((part * tall, duration(part * tall)) for part in (0.25, 0.5, 0.75, 1.0)),
        across=(0.0, float(len(shown))),
        up=(0.0, tall),
        x_words="batch",
        y_words="median time",
    )
    words = html("<b>Latency</b>: source in grey, ONNX Runtime in blue, in the order of the table below.")
    return paper.figure(chart, words)

"""A model in earlier runs and in this one: how much of the tolerance it used, and how long it took."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx_gate.records.history.past import Baseline, Past
from onnx_gate.records.result import ModelResult
from onnx_gate.reports.history import all_runs
from onnx_gate.reports.page.charts import Chart, Point, Series, Tick, log, shares
from onnx_gate.reports.page.plots import Paper
from onnx_gate.reports.safe import Html, html, join_html
from onnx_gate.vocabulary import Status
from onnx_gate.wording import history
from onnx_gate.wording.hints import first
from onnx_gate.wording.numbers import duration, plural
from onnx_gate.wording.text import LONGEST_NAME, one_line, shorten

_LOWEST = 1e-4
"""Below this share of what is allowed, two runs count as the same."""
_HIGHEST = 1e6
_FEW = 3


def earlier_runs(model: ModelResult, baseline: Baseline | None, paper: Paper) -> list[Html]:
    """What changed since the baseline, and plots of the runs that are kept; nothing without a baseline."""
    if baseline is None:
        return []
    made: list[Html] = []
    if model.past:
        runs = all_runs(model, baseline)
        made = [*_of_the_share(runs, baseline, paper), *_of_the_time(runs, baseline, paper)]
    drawn = [html('<div class="plots">{}</div>', join_html(made))] if made else []
    told = [*_changes(model), *drawn]
    return [html("<h3>Against {}</h3>", history.name_of(baseline)), *told] if told else []


def _changes(model: ModelResult) -> list[Html]:
    """The changes as a list; empty if nothing changed."""
    items = []
    for change in model.changes or ():
        icon, kind = history.KINDS[change.kind]
        words = history.change_words(change)
        items.append(html("<li>{} <b>{}</b>{}</li>", icon, kind, f": {words}" if words else ""))
    return [html("<ul>{}</ul>", join_html(items, ""))] if items else []


def _of_the_share(runs: Sequence[Past], baseline: Baseline, paper: Paper) -> list[Html]:
    """A plot of the share of what is allowed, on a log scale, since it matters how many times it grew."""
    known = [(number, each.used, each.verdict) for number, each in enumerate(runs) if each.used is not None]
    if len(known) < 2:
        return []
    points = [(float(number), log(min(max(used, _LOWEST), _HIGHEST)), verdict) for number, used, verdict in known]
    low = min(-2.0, *(math.floor(y) for _, y, _ in points))
    high = max(0.5, *(y + 0.3 for _, y, _ in points))
    right = tuple((x, y) for x, y, verdict in points if verdict is not Status.DIVERGED)
    wrong = tuple((x, y) for x, y, verdict in points if verdict is Status.DIVERGED)
    end = float(len(runs) - 1)
    series = [
        Series(colour="limit", points=((0.0, 0.0), (end, 0.0)), joined=True),
        Series(colour="within", points=tuple((x, y) for x, y, _ in points), joined=True),
        Series(colour="within", points=right, size=3),
        Series(colour="beyond", points=wrong, size=4),
    ]
    chart = _chart(series, end, shares(low, high), (low, high), "share of tolerance")
    used = [share for _, share, _ in known]
    words = html(
        "<b>The last {}</b> (log scale), this one to the right: the worst difference was {} of what is allowed. {}",
        plural(len(runs), "run"),
        _range(used),
        _sentences(
            f"The dashed line is all of it{'; red runs diverged' if wrong else ''}.",
            f"{plural(len(runs) - len(known), 'run')} compared nothing." if len(known) < len(runs) else "",
            _several("versions of onnxruntime", [run.onnxruntime for run in baseline.runs]),
        ),
    )
    return paper.figure(chart, words)


def _of_the_time(runs: Sequence[Past], baseline: Baseline, paper: Paper) -> list[Html]:
    points = tuple((float(number), each.latency) for number, each in enumerate(runs) if each.latency)
    if len(points) < 2:
        return []
    tall = max(seconds for _, seconds in points)
    marks = tuple((part * tall, duration(part * tall)) for part in (0.25, 0.5, 0.75, 1.0))
    series = [Series(colour="within", points=points, joined=True), Series(colour="within", points=points, size=3)]
    chart = _chart(series, float(len(runs) - 1), marks, (0.0, 1.1 * tall), "median time")
    words = html(
        "<b>Time of ONNX Runtime</b> in the last {}, this one to the right: the longest median of its feeds, last "
        "{}. {}",
        plural(len(points), "run"),
        duration(points[-1][1]),
        _several("machines", [run.cpu for run in baseline.runs]),
    )
    return paper.figure(chart, words)


def _range(used: Sequence[float]) -> str:
    """`between 0.2 % and 45 %, and in the last of them 45 %,`, or `always 45 %`."""
    low, high, last = map(history.share_words, (min(used), max(used), used[-1]))
    return f"between {low} and {high}, and in the last of them {last}," if low != high else f"always {low}"


def _sentences(*told: str) -> str:
    return " ".join(filter(None, told))


def _several(what: str, values: Sequence[str]) -> str:
    """A sentence on what differs between earlier runs, which may be why a line jumps; empty if nothing differs."""
    found = [shorten(one_line(value), LONGEST_NAME) for value in dict.fromkeys(values) if value]
    return f"Earlier runs had several {what}: {first(found, _FEW)}." if len(found) > 1 else ""


def _ago(runs: float) -> str:
    return f"−{runs:.0f}" if runs else "this"


def _chart(series: list[Series], end: float, y: tuple[Tick, ...], up: Point, words: str) -> Chart:
    return Chart(
        series=tuple(each for each in series if each.points),
        x=tuple((place, _ago(end - place)) for place in sorted({0.0, float(math.ceil(end / 2)), end})),
        y=y,
        across=(0.0, end),
        up=up,
        x_words="runs before this one",
        y_words=words,
    )

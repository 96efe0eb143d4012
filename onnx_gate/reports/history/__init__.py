"""A run against its baseline, for summary and comment: what changed, what else may explain it, and earlier runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx_gate.gate.baseline.memory import remember
from onnx_gate.records.history.past import Baseline, Past
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.reports.layout import few, row, table
from onnx_gate.reports.safe import LINE, PARAGRAPH, Md, code, fold, html, join, md, text
from onnx_gate.vocabulary import ChangeKind
from onnx_gate.wording import history, verdicts
from onnx_gate.wording.numbers import plural

_MOST = 10
MOST_BARS = 12
"""The most runs in a line of bars; the page has all of them."""
MOST_LINES = 25
"""The most models whose earlier runs a comment shows."""


def against(result: GateResult) -> list[Md]:
    """What changed since the baseline, in one block; nothing without a baseline."""
    if result.baseline is None:
        return []
    title = md("**Against {}**", history.name_of(result.baseline))
    found = [*_changed(result.models), *_gone(result.baseline)]
    told = md("{}:\n\n{}", title, join(LINE, found)) if found else md("{}: nothing changed.", title)
    caveats = [md("*{}*", words) for words in history.caveats(result.baseline)]
    return [join(PARAGRAPH, [told, *caveats])]


def _changed(models: Iterable[ModelResult]) -> list[Md]:
    """One item for each kind of change, the worst models first."""
    found: dict[ChangeKind, list[Md]] = {}
    for model in sorted(models, key=verdicts.urgency):
        for change in model.changes or ():
            words = history.change_words(change)
            named = md("{} ({})", code(model.id), words) if words else code(model.id)
            found.setdefault(change.kind, []).append(named)
    return [_item(*known, found[kind]) for kind, known in history.KINDS.items() if kind in found]


def _item(icon: str, words: str, told: Sequence[Md]) -> Md:
    what = md("- {} **{}**", icon, words)
    if len(told) > _MOST:
        what = md("{} ({:,})", what, len(told))
    return md("{}: {}", what, few(told, _MOST))


def _gone(baseline: Baseline) -> list[Md]:
    return [_item("➖", "gone", list(map(code, baseline.gone)))] if baseline.gone else []


def earlier_runs(result: GateResult) -> list[Md]:
    """A fold with a line of bars for each model of earlier runs; changed and failed models come first."""
    known = [model for model in sorted(result.models, key=_first) if model.past]
    if result.baseline is None or not known:
        return []
    shown = known[:MOST_LINES]
    rows = [row(code(model.id), text(bars(model, result.baseline)), _used(model)) for model in shown]
    lines = table(row("model", "earlier runs → this one", "of what is allowed"), rows, right=(2,))
    more = [md("… and {}: see report.html.", plural(len(known) - len(shown), "more model"))]
    blocks = [lines, *(more if len(known) > len(shown) else []), md("{}", history.LEGEND)]
    runs = min(MOST_BARS, len(result.baseline.runs))
    return [fold(html("Beside {}", plural(runs, "earlier run")), join(PARAGRAPH, blocks))]


def _first(model: ModelResult) -> tuple[float, ...]:
    return (not any(change.kind in history.WORSE for change in model.changes or ()), *verdicts.urgency(model))


def bars(model: ModelResult, baseline: Baseline) -> str:
    """Bars for the last runs and this one, such as `▁▂▂▅ → █`."""
    past = all_runs(model, baseline)
    return f"{history.spark(past[:-1][-MOST_BARS:])} → {history.spark(past[-1:])}"


def all_runs(model: ModelResult, baseline: Baseline) -> list[Past]:
    """The model's records in earlier runs and in this one."""
    return [*(model.past or ()), remember(model, len(baseline.runs))]


def _used(model: ModelResult) -> str:
    return history.share_words(remember(model, 0).used)

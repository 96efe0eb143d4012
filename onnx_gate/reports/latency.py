"""How fast each side was: a cell for the overview, a table for the fold."""

from __future__ import annotations

from onnx_gate.records import Latency, ModelResult
from onnx_gate.reports.pieces import Row, few, more, name, row, table
from onnx_gate.reports.safe import Md, md, text
from onnx_gate.wording import duration, number

HOW = (
    "Median and 95th percentile of warm runs, taken in turns on the same feed; arrays in, arrays out, so copies to a "
    "device are part of it; both sides at one thread."
)
WEAK = "The source is the same file, run on the CPU without optimisations."
_MOST_ROWS = 100


def speedups(model: ModelResult) -> Md:
    """`1.8× to 3.2×`, by provider where there are several."""
    found: dict[str, list[float]] = {}
    for one in model.latency:
        if one.speedup is not None:
            found.setdefault(one.provider, []).append(one.speedup)
    told = {provider: _span(ratios) for provider, ratios in found.items()}
    if len(told) == 1:
        return text(next(iter(told.values())))
    return few(md("{} {}", name(provider), span) for provider, span in told.items()) or text("–")


def latency_table(model: ModelResult) -> list[Md]:
    """Every batch size of every provider, and how it was measured; empty where nothing was."""
    if not model.latency:
        return []
    header = row("provider", "case", "source", "p95", "ONNX Runtime", "p95", "speed-up", "runs")
    rows = [_row(found) for found in model.latency[:_MOST_ROWS]]
    how = f"{HOW} {WEAK}" if model.framework == "onnx" else HOW
    blocks = [md("Latency. {}", how), table(header, rows, right=range(2, 8))]
    if (left_out := len(model.latency) - len(rows)) > 0:
        blocks.append(more(left_out, "times"))
    return blocks


def _row(found: Latency) -> Row:
    return row(
        name(found.provider),
        name(found.case),
        duration(found.source.median) if found.source else "–",
        duration(found.source.p95) if found.source else "–",
        duration(found.actual.median),
        duration(found.actual.p95),
        f"{number(found.speedup)}×" if found.speedup is not None else "–",
        md("{:,}", found.repeats),
    )


def _span(ratios: list[float]) -> str:
    low, high = number(min(ratios)), number(max(ratios))
    return f"{low}×" if low == high else f"{low}× to {high}×"

"""Words and numbers that all reports share."""

from __future__ import annotations

import math
import re
from collections import Counter

from onnx_gate.records import Check, GateResult, ModelResult, Scalar, Status

ICONS = {Status.PASSED: "✅", Status.DIVERGED: "❌", Status.ERROR: "🟥", Status.SKIPPED: "⏭️"}
_WORDS = {
    Status.DIVERGED: "diverged",
    Status.ERROR: "could not be judged",
    Status.PASSED: "passed",
    Status.SKIPPED: "skipped",
}
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|~#])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def visible(text: str) -> str:
    """Control characters and what no XML or JSON may hold, made visible."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def one_line(text: str) -> str:
    """For attributes, table cells and log lines."""
    return " ".join(visible(text).split())


def number(value: float | None) -> str:
    """Three digits, as a person would write it."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.3g}"


def scalar(value: Scalar) -> str:
    """An element of an array."""
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def seconds(value: float) -> str:
    """`0.4 s`, `12 s`, `3 min 5 s`."""
    if value < 10:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if value < 100 else f"{value // 60:.0f} min {value % 60:.0f} s"


def headline(result: GateResult) -> str:
    """The verdict of a run in one line."""
    total = len(result.models)
    if not total:
        return "onnx-gate: this shard holds no model"
    models = "model" if total == 1 else "models"
    counts = Counter(model.verdict for model in result.models)
    told = [f"{counts[status]} {word}" for status, word in _WORDS.items() if counts[status]]
    stopped = "" if result.complete else "stopped before the end; "
    first, *rest = told
    amount, _, word = first.partition(" ")
    return f"onnx-gate: {stopped}{', '.join([f'{amount} of {total} {models} {word}', *rest])}"


def provider_names(result: GateResult) -> list[str]:
    """The providers of a run, in order of appearance."""
    checks = (check for model in result.models for check in model.checks)
    return [name for name in dict.fromkeys(check.provider for check in checks) if name not in ("", "graph")]


def provider_status(model: ModelResult, provider: str) -> Status | None:
    """The worst of a model's checks on a provider; None where it has none."""
    seen = {check.status for check in model.checks if check.provider == provider}
    order = (Status.DIVERGED, Status.ERROR, Status.PASSED, Status.SKIPPED)
    return next((status for status in order if status in seen), None)


def worst_check(model: ModelResult) -> Check | None:
    """The comparison with the largest difference: among the failing ones, if there are any."""
    compared = [check for check in model.checks if check.total]
    failing = [check for check in compared if check.status is Status.DIVERGED] or compared
    return max(failing, key=badness, default=None)


def badness(check: Check) -> tuple[float, float]:
    """To sort by: the largest difference, then the share that is wrong."""
    largest = check.max_abs if check.max_abs is not None else 0.0
    share = check.mismatched / check.total if check.total else 0.0
    return math.inf if math.isnan(largest) else largest, share


def difference(check: Check | None) -> str:
    """The size of a difference in a few words."""
    if check is None:
        return "–"
    if check.max_abs is None:
        return f"{check.mismatched} of {check.total} labels" if check.mismatched else "no label differs"
    return f"max {number(check.max_abs)}"


def tolerance(check: Check) -> str:
    """What was allowed."""
    if check.tolerance is None:
        return "exact"
    return f"rtol {check.tolerance.rtol:g}, atol {check.tolerance.atol:g}"


def plain_markdown(value: str) -> str:
    """Anybody's words as plain text in markdown: no markup, no line breaks."""
    return _MARKUP.sub(r"\\\1", one_line(value))

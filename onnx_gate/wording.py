"""Words and numbers that all reports share."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from onnx_gate.records import Scalar, SessionSpec, Status
from onnx_gate.records.badness import distance, worst_first
from onnx_gate.records.limits import any_element_may_differ

if TYPE_CHECKING:
    # The console needs words before there is a result: a wrong manifest is answered at once.
    from onnx_gate.records import Check, Coverage, GateResult, ModelResult

ICONS = {Status.PASSED: "✅", Status.DIVERGED: "❌", Status.ERROR: "🟥", Status.SKIPPED: "⏭️"}
ALLOWED = "⚠️"
LONGEST = 1500
"""Characters of anybody's words in a summary; results.json has all of them."""
LONGEST_NAME = 120
"""The same for the name of a case, of an output or of a label."""

WORST_FIRST = (Status.DIVERGED, Status.ERROR, Status.PASSED, Status.SKIPPED)
# What XML and JSON can't hold, what a terminal obeys, and what turns the direction of the text around it.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def visible(text: str) -> str:
    """Characters that can't be written, or would be obeyed, spelled out."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """For attributes, table cells and log lines."""
    return " ".join(visible(text).split())


def shorten(text: str, limit: int) -> str:
    """No longer than the limit; an ellipsis says that something is missing."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


# ── Numbers ─────────────────────────────────────────────────────────────────────────────────────────────


def number(value: float | None) -> str:
    """Three digits, as a person would write it."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if 1e3 <= abs(value) < 1e6:
        return f"{float(f'{value:.3g}'):,.0f}"
    return _short_exponent(f"{value:.3g}")


_AS_GOOD_AS_ONE = 1e-12


def cosine(value: float | None) -> str:
    """Six digits, or as many as it takes to tell it from 1; what is nearer than rounding is 1."""
    if value is None or not math.isfinite(value):
        return number(value)
    gap = 1 - abs(value)
    if gap <= _AS_GOOD_AS_ONE:
        return f"{value:.0f}"
    if gap < 1e-6:
        return f"{value:.{math.ceil(-math.log10(gap))}f}".rstrip("0")
    return f"{value:.6g}"


def scalar(value: Scalar) -> str:
    """An element of an array."""
    if isinstance(value, float):
        return _short_exponent(f"{value:.7g}")
    text = str(value)
    return text if text and text == text.strip() else repr(text)


def two_scalars(actual: Scalar, reference: Scalar) -> str:
    """`0.41 instead of 0.1`, with as many digits as it takes to tell them apart."""
    shown = scalar(actual), scalar(reference)
    if shown[0] == shown[1]:
        shown = repr(actual), repr(reference)
    return f"{shown[0]} instead of {shown[1]}"


def percent(part: int, whole: int) -> str:
    """`3.33 %`; 100 only where it is all of them."""
    share = 100 * part / whole if whole else 0.0
    return f"{number(share if part >= whole else min(share, 99.9))} %"


def mismatched(check: Check) -> str:
    """`12 of 35 (34.3 %)`."""
    share = f" ({percent(check.mismatched, check.total)})" if check.mismatched else ""
    return f"{check.mismatched:,} of {check.total:,}{share}"


_MOST_SECONDS = 1e9


def seconds(value: float) -> str:
    """`0.4 s`, `12 s`, `3 min 5 s`."""
    # A results.json may say NaN or infinity, of which there are no minutes.
    if not abs(value) < _MOST_SECONDS:
        return f"{number(value)} s"
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 100:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"


def duration(value: float) -> str:
    """`45.1 µs`, `1.23 ms`, `2.5 s`."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if value * scale >= 1:
            return f"{number(value * scale)} {unit}"
    return f"{number(value * 1e6)} µs"


def size(count: int) -> str:
    """`851 B`, `145 KiB`, `1.2 GiB`."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1000:
            break
        value, unit = value / 1024, larger
    return f"{value:.3g} {unit}"


def plural(count: int, word: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def _short_exponent(text: str) -> str:
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else text


# ── Verdicts ────────────────────────────────────────────────────────────────────────────────────────────


def headline(result: GateResult) -> str:
    """The verdict of a run in one line."""
    total = len(result.models)
    stopped = "" if result.complete else "parts are missing; " if result.parts else "stopped before the end; "
    if not total:
        return f"onnx-gate: {stopped}{'this shard holds no model' if result.shard else 'no model was judged'}"
    allowed = sum(is_allowed(model) for model in result.models)
    counts = Counter(model.verdict for model in result.models)
    told = {
        "diverged": counts[Status.DIVERGED] - allowed,
        "could not be judged": counts[Status.ERROR],
        "passed": counts[Status.PASSED],
        "diverged (allowed)": allowed,
        "skipped": counts[Status.SKIPPED],
    }
    (first, amount), *rest = ((word, count) for word, count in told.items() if count)
    nothing = "nothing was compared; " if first == "skipped" else ""
    parts = [f"{amount:,} of {plural(total, 'model')} {first}", *(f"{count:,} {word}" for word, count in rest)]
    return f"onnx-gate: {stopped}{nothing}{', '.join(parts)}"


def run_icon(result: GateResult) -> str:
    """A run that fails its job looks like it, whatever its verdict is called."""
    failed = result.exit_code != 0 and result.verdict is not Status.DIVERGED
    return ICONS[Status.ERROR if failed else result.verdict]


def model_icon(model: ModelResult) -> str:
    """A divergence that is allowed warns."""
    return ALLOWED if is_allowed(model) else ICONS[model.verdict]


def is_allowed(model: ModelResult) -> bool:
    """It diverged, and that doesn't fail the job."""
    return model.allow_failure and model.verdict is Status.DIVERGED


def provider_names(models: Iterable[ModelResult]) -> list[str]:
    """The providers of the models, in order of appearance."""
    checks = (check for model in models for check in model.checks)
    return [name for name in dict.fromkeys(check.provider for check in checks) if name not in ("", "graph")]


def provider_status(model: ModelResult, provider: str) -> Status | None:
    """The worst of a model's checks on a provider; None where it has none."""
    seen = {check.status for check in model.checks if check.provider == provider}
    return next((status for status in WORST_FIRST if status in seen), None)


def with_fix(check: Check) -> str:
    """Why it isn't a pass, and what to do about it."""
    return f"{check.message} Fix: {check.fix}" if check.fix else check.message


def worst_check(model: ModelResult) -> Check | None:
    """The comparison that stands for all of a model; where it failed, the worst one that is why."""
    return next(iter(worst_first(_telling(model))), None)


def farthest_check(model: ModelResult) -> Check | None:
    """The comparison with the largest difference, among the same ones."""
    return max(_telling(model), key=distance, default=None)


def _telling(model: ModelResult) -> list[Check]:
    return [check for check in model.checks if check.total and check.status is model.verdict]


def urgency(model: ModelResult) -> tuple[float, ...]:
    """To sort by: divergences, those of the form first, then by size; then what could not be judged, and the rest."""
    order = (Status.DIVERGED, Status.ERROR, Status.SKIPPED, Status.PASSED)
    rank = 1.5 if is_allowed(model) else order.index(model.verdict)
    farthest = farthest_check(model)
    largest, share, _ = distance(farthest) if farthest else (math.inf, math.inf, 0)
    return (rank, -largest, -share)


def difference(check: Check | None) -> str:
    """The size of a difference in a few words."""
    if check is None:
        return "–"
    if check.max_abs is None and check.tolerance is not None:
        return "nothing but NaN"
    if check.max_abs is None:
        return f"{check.mismatched:,} of {check.total:,} labels" if check.mismatched else "no label differs"
    return f"max {number(check.max_abs)}"


def tolerance(check: Check) -> str:
    """What was allowed."""
    allowed = {name: f"{name} {limit:.9g}" for name, limit in check.limits.items()}
    if check.tolerance is None:
        return ", ".join(allowed.values()) or "exact"
    if any_element_may_differ(check.limits) and len(allowed) > 1:
        return ", ".join(words for name, words in allowed.items() if name != "max_mismatch")
    return ", ".join(
        [f"rtol {number(check.tolerance.rtol)}", f"atol {number(check.tolerance.atol)}", *allowed.values()]
    )


def session(given: SessionSpec) -> str:
    """What isn't the default in how a session was set up."""
    usual = SessionSpec()
    names = ("optimization", "intra_op_threads", "inter_op_threads", "deterministic")
    changed = [f"{name} {getattr(given, name)}" for name in names if getattr(given, name) != getattr(usual, name)]
    return ", ".join([*changed, *(f"{name} = {value}" for name, value in given.config.items())])


def rests_on(coverage: Coverage) -> str:
    """`Rests on 150 samples, 450 elements, 4 shapes, 1 provider.`"""
    parts = [
        plural(coverage.samples, "sample"),
        plural(coverage.elements, "element"),
        plural(coverage.shapes, "shape"),
        plural(len(coverage.providers), "provider"),
    ]
    return f"Rests on {', '.join(parts)}."

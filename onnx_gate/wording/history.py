"""The baseline, what changed since, and earlier runs, in a few words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from onnx_gate.vocabulary import ChangeKind, Status
from onnx_gate.wording.hints import first
from onnx_gate.wording.numbers import duration, number, size
from onnx_gate.wording.text import LONGEST_NAME, one_line, shorten

if TYPE_CHECKING:
    from onnx_gate.records.history.change import Change
    from onnx_gate.records.history.past import Baseline, Difference, Past

KINDS: Mapping[ChangeKind, tuple[str, str]] = {
    ChangeKind.DIVERGED: ("❌", "newly diverged"),
    ChangeKind.ERROR: ("🟥", "can no longer be judged"),
    ChangeKind.DRIFTED: ("📈", "drifted"),
    ChangeKind.WEAKER: ("📉", "weaker inputs"),
    ChangeKind.SKIPPED: ("⏭️", "no longer compared"),
    ChangeKind.SLOWER: ("🐢", "slower"),
    ChangeKind.PLACEMENT: ("🔀", "other placement"),
    ChangeKind.LARGER: ("📦", "larger file"),
    ChangeKind.OPSET: ("🔢", "other opset"),
    ChangeKind.FIXED: ("✅", "fixed"),
    ChangeKind.NEW: ("🆕", "new"),
}
"""The icon and the name of each kind of change, in the order of the reports."""
WORSE = frozenset(ChangeKind) - {ChangeKind.FIXED, ChangeKind.NEW, ChangeKind.OPSET, ChangeKind.PLACEMENT}
"""Changes for the worse."""

_LEVELS = "▁▂▃▄▅▆▇█"
_DECADES = 4
"""The bars' scale, in powers of ten: from a ten-thousandth of what is allowed to all of it."""
_SIGNS = {Status.ERROR: "×", Status.SKIPPED: "·"}
LEGEND = (
    "The highest bar is all that the tolerance allows, or more; the lowest is a ten-thousandth of it, or less. "
    "× could not be judged, · was not compared."
)
_MOST_DIFFERENCES = 6
_MANY_TIMES = 10.0


# ── The baseline ────────────────────────────────────────────────────────────────────────────────────────


def name_of(baseline: Baseline) -> str:
    """The name of a baseline: `main at 1a2b3c4 (2026-11-17)`, or its file."""
    run = baseline.runs[-1] if baseline.runs else None
    day = shorten(one_line(run.started_at), LONGEST_NAME)[:10] if run else ""
    commit = f" at {one_line(run.commit)[:7]}" if run and run.commit else ""
    where = shorten(one_line(baseline.branch or baseline.source), LONGEST_NAME)
    return f"{where}{commit}{f' ({day})' if day else ''}"


def caveats(baseline: Baseline) -> list[str]:
    """Sentences on what may explain a change, other than the model."""
    manifest = [each for each in baseline.differences if each.what == "manifest"]
    machine = [each for each in baseline.differences if each.what != "manifest"]
    told = []
    if manifest:
        told.append(
            f"The baseline was made with another manifest, or before it was edited ({_side(manifest[0].was)}, this run "
            f"{_side(manifest[0].now)}): models, inputs or tolerances may differ by intent."
        )
    if machine:
        ran = first(map(_difference, machine), _MOST_DIFFERENCES)
        told.append(f"The baseline ran {ran}: a change may come from there and not from the model.")
    if not baseline.times_comparable:
        told.append("Times are not compared, since the baseline ran on another machine.")
    return told


def _difference(found: Difference) -> str:
    what = shorten(one_line(found.what), LONGEST_NAME)
    if found.what == "CPU":
        return f"on {_side(found.was)} (this run on {_side(found.now)})"
    if not found.was:
        return f"without {what} (this run {_side(found.now)})"
    return f"{what} {_side(found.was)} (this run {_side(found.now)})"


def _side(value: str) -> str:
    return shorten(one_line(value), LONGEST_NAME) or "none"


# ── Changes ─────────────────────────────────────────────────────────────────────────────────────────────


def change_words(change: Change) -> str:
    """The details of a change besides its kind; empty if there are none."""
    return _DETAILS[change.kind](change)


def _where(change: Change) -> str:
    parts = (change.output, change.provider, change.case)
    return ", ".join(shorten(one_line(part), LONGEST_NAME) for part in parts if part)


def _times(change: Change) -> str:
    ratio = change.now / change.was if change.now is not None and change.was else math.inf
    return f"{number(ratio)} times"


def share_words(share: float | None) -> str:
    """A share as `45.5 %`, or, if it is far above 100 %, as `2,270 times`."""
    if share is None:
        return "–"
    return f"{number(100 * share)} %" if share < _MANY_TIMES else f"{number(share)} times"


def _was_verdict(change: Change) -> str:
    words = {Status.ERROR: "could not be judged", Status.SKIPPED: "was not compared"}
    return f"{words.get(change.verdict, str(change.verdict))} before" if change.verdict else ""


_DETAILS: dict[ChangeKind, Callable[[Change], str]] = {
    **dict.fromkeys((ChangeKind.DIVERGED, ChangeKind.ERROR, ChangeKind.FIXED), _was_verdict),
    ChangeKind.NEW: lambda change: "",
    ChangeKind.SKIPPED: lambda change: f"on {_where(change)}" if change.provider else _was_verdict(change),
    ChangeKind.DRIFTED: lambda change: (
        f"from {share_words(change.was)} to {share_words(change.now)} of what is allowed, {_times(change)} as much; "
        f"{_where(change)}"
    ),
    ChangeKind.SLOWER: lambda change: (
        f"{duration(change.was or 0.0)} → {duration(change.now or 0.0)}, {_times(change)}; {_where(change)}"
    ),
    ChangeKind.PLACEMENT: lambda change: (
        f"{number(change.was)} → {number(change.now)} nodes elsewhere than on {_where(change)}"
    ),
    ChangeKind.LARGER: lambda change: f"{_size(change.was)} → {_size(change.now)}",
    ChangeKind.OPSET: lambda change: f"{number(change.was)} → {number(change.now)}",
    ChangeKind.WEAKER: lambda change: f"strength {share_words(change.was)} → {share_words(change.now)}",
}


def _size(count: float | None) -> str:
    return size(round(count)) if count is not None and math.isfinite(count) else number(count)


# ── Earlier runs ────────────────────────────────────────────────────────────────────────────────────────


def spark(past: Iterable[Past]) -> str:
    """Bars such as `▁▂▅█`: how much of what is allowed a difference used in each run, on a log scale."""
    return "".join(map(_bar, past))


def _bar(past: Past) -> str:
    if past.verdict in _SIGNS:
        return _SIGNS[past.verdict]
    # Labels have no share of a tolerance: either they are right, or too many are wrong.
    if past.verdict is Status.DIVERGED:
        return _LEVELS[-1]
    if not past.used:
        return _LEVELS[0]
    level = (math.log10(min(past.used, 1.0)) + _DECADES) / _DECADES * (len(_LEVELS) - 1)
    return _LEVELS[max(0, round(level))]

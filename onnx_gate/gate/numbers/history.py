"""What a result says about earlier runs, checked against its own numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from onnx_gate.gate.baseline.changes import FAILED, compared_on, elsewhere, key_of
from onnx_gate.gate.baseline.memory import share_of, strength_of
from onnx_gate.records.history.change import THRESHOLDS, Change
from onnx_gate.records.history.past import Baseline, Past
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.vocabulary import ChangeKind, Status

_COMMIT = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})?")


def history_contradictions(result: GateResult) -> Iterator[str]:
    """What is impossible in the history of a result, one sentence each."""
    if result.baseline is None:
        if lone := [model.id for model in result.models if model.changes is not None or model.past is not None]:
            yield f"{lone[0]} has a history, and there is no baseline"
        return
    if not result.baseline.runs:
        yield "its baseline is no run"
    if odd := [run.commit for run in result.baseline.runs if not _COMMIT.fullmatch(run.commit)]:
        yield f"an earlier run is of the commit {odd[0]!r}"
    if both := {model.id for model in result.models} & set(result.baseline.gone):
        yield f"{min(both)} is gone, and was judged"
    for model in result.models:
        yield from (f"{model.id}: {reason}" for reason in _of_a_model(model, result.baseline))


def _of_a_model(model: ModelResult, baseline: Baseline) -> Iterator[str]:
    past = model.past or ()
    places = [each.run for each in past]
    if places != sorted(set(places)) or any(place >= len(baseline.runs) for place in places):
        yield "its history is of runs that there are not, or not in their order"
        return
    if any(share is not None and share != share for each in past for share in (each.used, each.strength)):
        yield "its history has a share that is no number"
    last = past[-1] if past and past[-1].run == len(baseline.runs) - 1 else None
    changes = model.changes or ()
    told = [(change.kind, change.provider, change.case, change.output) for change in changes]
    if len(set(told)) < len(told):
        yield "it changed twice in the same way"
    for change in changes:
        if not _can_be(change, model, last, baseline):
            yield f"it is said to be {change.kind}, and its numbers say otherwise"


def _can_be(change: Change, model: ModelResult, last: Past | None, baseline: Baseline) -> bool:
    """Whether a change can be true. A model that the baseline lacks is only new; other kinds have their own rules."""
    if change.kind is ChangeKind.NEW:
        return last is None and change == Change(kind=ChangeKind.NEW)
    if last is None or (change.kind is ChangeKind.SLOWER and not baseline.times_comparable):
        return False
    if change.kind in _VERDICTS:
        return change.verdict is last.verdict and _VERDICTS[change.kind](model, change)
    return change.verdict is None and _are_numbers(change, model, last)


def _are_numbers(change: Change, model: ModelResult, last: Past) -> bool:
    """Whether the model has the change's new number, and it differs from the old one by at least the threshold."""
    was, now = change.was, change.now
    if was is None or now is None or not (was >= 0 and now >= 0 and was != now):
        return False
    threshold = THRESHOLDS.get(change.kind)
    if threshold and not threshold.is_passed(was, now):
        return False
    return now in set(_OWN[change.kind](model, change)) and was in _remembered(change, was, last)


def _remembered(change: Change, was: float, last: Past) -> tuple[float | None, ...]:
    """The values that the baseline's number may have; the history contains only some of these numbers."""
    if change.kind is ChangeKind.LARGER:
        return (None if last.size_bytes is None else float(last.size_bytes),)
    if change.kind is ChangeKind.WEAKER:
        return (last.strength,)
    return (was,) if change.kind is not ChangeKind.DRIFTED or was <= (last.used or 0.0) else ()


_VERDICTS: dict[ChangeKind, Callable[[ModelResult, Change], bool]] = {
    ChangeKind.DIVERGED: lambda model, change: model.verdict is Status.DIVERGED is not change.verdict,
    ChangeKind.ERROR: lambda model, change: model.verdict is Status.ERROR is not change.verdict,
    ChangeKind.FIXED: lambda model, change: model.verdict is Status.PASSED and change.verdict in FAILED,
    ChangeKind.SKIPPED: lambda model, change: (
        change.provider not in compared_on(model) and model.verdict is Status.PASSED
        if change.provider
        else model.verdict is Status.SKIPPED is not change.verdict
    ),
}
_OWN: dict[ChangeKind, Callable[[ModelResult, Change], Iterator[float | None]]] = {
    ChangeKind.DRIFTED: lambda model, change: (
        share_of(check) for check in model.checks if key_of(check)[1:] == (change.provider, change.case, change.output)
    ),
    ChangeKind.SLOWER: lambda model, change: (
        time.actual.median for time in model.latency if (time.provider, time.case) == (change.provider, change.case)
    ),
    ChangeKind.LARGER: lambda model, change: (float(file.size_bytes) for file in (model.convert,) if file),
    ChangeKind.OPSET: lambda model, change: (float(file.opset) for file in (model.convert,) if file),
    ChangeKind.PLACEMENT: lambda model, change: (
        float(elsewhere(placed)) for name, placed in model.placement.items() if name == change.provider
    ),
    ChangeKind.WEAKER: lambda model, change: iter((strength_of(model),)),
}
"""The numbers of a model, by the kind of change."""

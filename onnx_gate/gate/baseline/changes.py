"""One model in two runs → what changed. The thresholds are in `records.history.change`."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_gate.gate.baseline.memory import share_of, strength_of
from onnx_gate.records.found import ConvertInfo
from onnx_gate.records.history.change import STEADIER, THRESHOLDS, Change
from onnx_gate.records.ran import Latency, Placement
from onnx_gate.records.result import Check, ModelResult
from onnx_gate.vocabulary import ChangeKind, Status
from onnx_gate.wording.verdicts import was_not_run

FAILED = (Status.DIVERGED, Status.ERROR)
_OF_A_VERDICT = {
    Status.DIVERGED: ChangeKind.DIVERGED,
    Status.ERROR: ChangeKind.ERROR,
    Status.SKIPPED: ChangeKind.SKIPPED,
}
_MOST = 100


def changes_of(model: ModelResult, old: ModelResult | None, *, new: bool, timed: bool) -> tuple[Change, ...]:
    """What changed, in the order of `ChangeKind`. A model that the baseline left out has no changes and is not new."""
    if old is None:
        return (Change(kind=ChangeKind.NEW),) if new else ()
    found = [
        *_of_the_verdict(model, old),
        # If the verdict changed, that is reported instead, and it matters more.
        *(_drifted(model, old) if model.verdict is old.verdict else ()),
        *_weaker(model, old),
        *(_slower(model, old) if timed else ()),
        *_placed_otherwise(model, old),
        *(_of_the_file(model.convert, old.convert) if model.convert and old.convert else ()),
    ]
    order = list(ChangeKind)
    return tuple(sorted(found, key=lambda change: order.index(change.kind))[:_MOST])


# ── Verdicts ────────────────────────────────────────────────────────────────────────────────────────────


def _of_the_verdict(model: ModelResult, old: ModelResult) -> Iterator[Change]:
    was, now = old.verdict, model.verdict
    if was_not_run(model) or (was_not_run(old) and now is not Status.DIVERGED):
        # Nothing is known about one of the two.
        return
    if now is not was and now in _OF_A_VERDICT:
        yield Change(kind=_OF_A_VERDICT[now], verdict=was)
    elif now is Status.PASSED and was in FAILED:
        yield Change(kind=ChangeKind.FIXED, verdict=was)
    if now is Status.PASSED:
        compared = compared_on(model)
        for provider in sorted(compared_on(old) - compared):
            yield Change(kind=ChangeKind.SKIPPED, provider=provider, verdict=was)


def compared_on(model: ModelResult) -> set[str]:
    """The providers that a model was compared on."""
    return {check.provider for check in model.checks if check.total and check.provider not in ("", "graph")}


# ── Numbers ─────────────────────────────────────────────────────────────────────────────────────────────


def _drifted(model: ModelResult, old: ModelResult) -> Iterator[Change]:
    """The comparison that drifted most; both runs had the same feed, output and tolerance."""
    before = {key_of(check): check for check in old.checks}
    found = [
        Change(kind=ChangeKind.DRIFTED, was=was, now=now, provider=check.provider, case=check.case, output=check.output)
        for check in model.checks
        if (earlier := before.get(key_of(check))) and earlier.tolerance == check.tolerance
        if (was := share_of(earlier)) is not None and (now := share_of(check)) is not None
        if THRESHOLDS[ChangeKind.DRIFTED].is_passed(was, now)
    ]
    yield from sorted(found, key=lambda change: change.now or 0.0, reverse=True)[:1]


def key_of(check: Check) -> tuple[str, ...]:
    """The key that identifies the same check in two runs."""
    return check.runtime, check.provider, check.case, check.output


def _weaker(model: ModelResult, old: ModelResult) -> Iterator[Change]:
    was, now = strength_of(old), strength_of(model)
    if was is not None and now is not None and THRESHOLDS[ChangeKind.WEAKER].is_passed(was, now):
        yield Change(kind=ChangeKind.WEAKER, was=was, now=now)


def _slower(model: ModelResult, old: ModelResult) -> Iterator[Change]:
    """For each provider, the feed that slowed down most."""
    before = {(time.provider, time.case, time.batch): time for time in old.latency}
    worst: dict[str, Change] = {}
    for time in model.latency:
        earlier = before.get((time.provider, time.case, time.batch))
        if earlier is None or not _is_slower(time, earlier):
            continue
        was, now = earlier.actual.median, time.actual.median
        known = worst.get(time.provider)
        if known is None or now / was > (known.now or 0.0) / (known.was or 1.0):
            worst[time.provider] = Change(
                kind=ChangeKind.SLOWER, was=was, now=now, provider=time.provider, case=time.case
            )
    yield from worst.values()


def _is_slower(time: Latency, earlier: Latency) -> bool:
    """Whether it is slower beyond the threshold and the baseline's own variation, and not only for a busy machine."""
    was, now = earlier.actual.median, time.actual.median
    if not (was > 0 and THRESHOLDS[ChangeKind.SLOWER].is_passed(was, now) and now > earlier.actual.p95):
        return False
    return not (earlier.speedup and time.speedup) or earlier.speedup >= STEADIER * time.speedup


def _placed_otherwise(model: ModelResult, old: ModelResult) -> Iterator[Change]:
    for provider, placed in model.placement.items():
        earlier = old.placement.get(provider)
        if earlier and earlier.counted == placed.counted and elsewhere(earlier) != elsewhere(placed):
            was, now = float(elsewhere(earlier)), float(elsewhere(placed))
            yield Change(kind=ChangeKind.PLACEMENT, was=was, now=now, provider=provider)


def elsewhere(placement: Placement) -> int:
    """Nodes that did not run on the provider."""
    return placement.nodes - placement.on_provider


def _of_the_file(file: ConvertInfo, old: ConvertInfo) -> Iterator[Change]:
    was, now = float(old.size_bytes), float(file.size_bytes)
    if THRESHOLDS[ChangeKind.LARGER].is_passed(was, now):
        yield Change(kind=ChangeKind.LARGER, was=was, now=now)
    if old.opset != file.opset:
        yield Change(kind=ChangeKind.OPSET, was=float(old.opset), now=float(file.opset))
